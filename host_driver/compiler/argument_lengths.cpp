// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/argument_lengths.hpp"

#include <algorithm>
#include <string>

#include "host_driver/compiler/layout.hpp"
#include "shared/device_program_rules.hpp"

namespace svp::compiler {

namespace {

using wire::program::lanes_of;

bool converts(OpFunc op) {
  return op == OpFunc::Identity || op == OpFunc::Dl16ToFp32 || op == OpFunc::Fp32ToDl16 || op == OpFunc::Dl16ToFp8 ||
         op == OpFunc::Fp8ToDl16;
}

LengthUse use_of(const Sdsc& sdsc, const SdscTensor& tensor) {
  if (tensor.indirection == Indirection::Value) return LengthUse::Each;
  if (sdsc.inputs.size() != 1 || !sdsc.indices.empty()) return LengthUse::None;
  const SdscTensor &input = sdsc.tensors[sdsc.inputs[0]], &output = sdsc.tensors[sdsc.output];
  const SdscTensor& other = &tensor == &output ? input : output;
  const bool unpadded = sdsc.op == OpFunc::Restickify && std::ranges::any_of(tensor.order, [&](std::uint8_t d) {
                          return may_be_unpadded(sdsc, tensor, other, d);
                        });
  if (unpadded) return LengthUse::Each;
  if (!may_end_early(sdsc, tensor, other)) return LengthUse::None;
  const bool divided =
      std::ranges::any_of(tensor.order, [&](std::uint8_t d) { return sdsc.dimensions[d].slices != 1; });
  return divided ? LengthUse::Each : LengthUse::Short;
}

void find_uses(const Bundle& bundle, const std::vector<Statement>& body, std::vector<LengthUse>& uses) {
  for (const Statement& statement : body) {
    if (const auto* loop = std::get_if<Loop>(&statement.what)) {
      find_uses(bundle, loop->body, uses);
      continue;
    }
    const auto& execution = std::get<Execution>(statement.what);
    const Sdsc& sdsc = bundle.of(execution);
    for (const SdscTensor& tensor : sdsc.tensors) {
      if (tensor.memory == Memory::Lx) continue;
      const SymbolicAddress& address = address_of(execution, tensor.start[0]);
      if (address.base != SymbolicAddress::Base::Argument) continue;
      LengthUse& use = uses.at(address.argument);
      use = std::max(use, use_of(sdsc, tensor));
    }
  }
}

[[noreturn]] void refuse_lengths(const std::string& what) {
  throw spyre::InvalidArgument("lengths", "lengths: " + what, "give the bytes of each argument's memory");
}

}  // namespace

std::vector<LengthUse> length_uses(const Bundle& bundle) {
  std::vector<LengthUse> uses(bundle.text.parameters.size());
  find_uses(bundle, bundle.text.body, uses);
  return uses;
}

bool needs_lengths(const Bundle& bundle) {
  return std::ranges::any_of(length_uses(bundle), [](LengthUse use) { return use != LengthUse::None; });
}

void check_lengths(const Bundle& bundle, const std::vector<std::uint64_t>& lengths) {
  if (lengths.empty()) return;
  if (lengths.size() != bundle.text.parameters.size()) {
    refuse_lengths(std::to_string(lengths.size()) + " are given, and the bundle has " +
                   std::to_string(bundle.text.parameters.size()) + " parameters");
  }
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] % wire::kStickBytes == 0 && lengths[i] <= wire::program::kMaxArgumentBytes) continue;
    refuse_lengths("argument " + std::to_string(i) + " has " + std::to_string(lengths[i]) +
                   " bytes, which is no multiple of 128 up to 16 GiB");
  }
}

bool may_be_unpadded(const Sdsc& sdsc, const SdscTensor& tensor, const SdscTensor& other, std::uint8_t d) {
  return tensor.has(d) && tensor.gap[d] > 0 && sdsc.dimensions[d].slices == 1 && tensor.stick_of(d) == nullptr &&
         other.stick_of(d) != nullptr;
}

bool may_end_early(const Sdsc& sdsc, const SdscTensor& tensor, const SdscTensor& other) {
  if (!converts(sdsc.op) || tensor.sticks.size() != 1 || other.sticks.size() != 1) return false;
  const std::uint8_t d = tensor.sticks[0].dimension;
  const bool same_stick = other.sticks[0].dimension == d && tensor.has(d) && other.has(d);
  return same_stick && lanes_of(tensor.format) < lanes_of(other.format) && tensor.gap[d] == 0 &&
         sdsc.dimensions[d].slices == 1;
}

}  // namespace svp::compiler
