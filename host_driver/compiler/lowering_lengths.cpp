// SPDX-License-Identifier: Apache-2.0
// What the length of an argument says that its bundle leaves open: how many rows a table has, whether a gap counts
// forwards or backwards, and where a tensor ends that has fewer sticks than the iteration space.
#include <algorithm>

#include "host_driver/compiler/lowering.hpp"
#include "host_driver/compiler/sdsc_members.hpp"

namespace svp::compiler {

using wire::program::Opcode;

namespace {

// A gap of more elements is one of the tensor's memory, unless its length says otherwise.
constexpr std::uint32_t kMostPadding = 64;
constexpr const char* kOtherTensor = "launch with the tensors that the bundle was compiled for";

std::string text_of(const SdscTensor& tensor, std::uint32_t argument, std::uint64_t bytes) {
  return tensor.name + " is in argument " + std::to_string(argument) + ", which has " + std::to_string(bytes) +
         " bytes";
}

}  // namespace

std::optional<ExecutionLowering::Length> ExecutionLowering::length_of(const SdscTensor& tensor) const {
  if (tensor.memory == Memory::Lx) return std::nullopt;
  const SymbolicAddress& address = address_of(execution_, tensor.start[first_core_]);
  if (address.base != SymbolicAddress::Base::Argument) return std::nullopt;
  const auto bytes = builder_.length_of(address.argument);
  if (!bytes) return std::nullopt;
  return Length{.argument = address.argument, .bytes = *bytes};
}

bool ExecutionLowering::lacks_length(const SdscTensor& tensor) const {
  if (tensor.memory == Memory::Lx) return false;
  const SymbolicAddress& address = address_of(execution_, tensor.start[first_core_]);
  return address.base == SymbolicAddress::Base::Argument && !builder_.length_of(address.argument);
}

std::uint64_t ExecutionLowering::elements_in(const Length& length, const SdscTensor& tensor,
                                             std::uint8_t dimension) const {
  LayoutRules one;
  one.allocated[dimension] = 1;
  const auto others = static_cast<std::uint64_t>(steps_of(sdsc_, tensor, one).bytes);
  return length.bytes % others == 0 ? length.bytes / others * stick_elements(tensor, dimension) : 0;
}

// A gap is one of three things. The memory holds N_ − gap elements, all of them true, and N_ is these, padded to whole
// sticks; or it holds N_ or more, the gap's do not exist, and N_ is the others, padded or not.
ExecutionLowering::PaddedExtent ExecutionLowering::padded_extent(const SdscTensor& tensor,
                                                                 std::uint8_t dimension) const {
  const std::uint32_t extent = sdsc_.dimensions[dimension].extent, gap = tensor.gap[dimension];
  const bool may_be_less = gap < kMostPadding && gap < extent;
  const auto length = length_of(tensor);
  if (!length) {
    if (may_be_less) return {.allocated = extent - gap, .whole = extent - gap};
    return {.allocated = extent + gap, .whole = extent};
  }
  const std::uint64_t elements = elements_in(*length, tensor, dimension);
  const std::uint64_t most = std::uint64_t{extent} + gap;
  const std::uint64_t unpadded = most < kMostPadding ? 0 : most - kMostPadding + 1;
  const std::uint64_t least = std::max({std::uint64_t{extent}, std::uint64_t{gap} + 1, unpadded});
  const bool less = may_be_less && elements == extent - gap;
  if (!less && (elements < least || elements > most)) {
    refuse({.file = kBundleFileName, .line = execution_.line, .path = {}},
           sdsc_.file + ": " + sdsc_.name + " " + text_of(tensor, length->argument, length->bytes) + ": " +
               (elements == 0 ? "no whole number" : std::to_string(elements)) + " of dimension " +
               sdsc_.dimensions[dimension].name + ", and an extent of " + std::to_string(extent) + " with a gap of " +
               std::to_string(gap) + " is " + (may_be_less ? std::to_string(extent - gap) + ", or " : "") +
               std::to_string(least) + " to " + std::to_string(most),
           kOtherTensor);
  }
  const auto allocated = static_cast<std::uint32_t>(elements);
  return {.allocated = allocated, .whole = less ? allocated : allocated - gap};
}

// Empty: it has all sticks of the iteration space, as far as is known.
std::optional<std::uint32_t> ExecutionLowering::short_extent(const SdscTensor& tensor, const SdscTensor& other) const {
  const auto length = may_end_early(sdsc_, tensor, other) ? length_of(tensor) : std::nullopt;
  if (!length) return std::nullopt;
  const std::uint8_t d = tensor.sticks[0].dimension;
  const TensorUse whole = use(tensor, {.layout = {}, .is_guess = true});
  const auto needed = static_cast<std::uint64_t>(reach_of(whole, extents(), builder_.iterations()).second);
  if (needed <= length->bytes) return std::nullopt;
  const std::uint64_t elements = elements_in(*length, tensor, d);
  const std::uint32_t extent = sdsc_.dimensions[d].extent, lanes = wire::program::lanes_of(other.format);
  const auto sticks_of_other = [&](std::uint64_t n) { return (n + lanes - 1) / lanes; };
  if (elements == 0 || sticks_of_other(elements) != sticks_of_other(extent)) {
    refuse({.file = kBundleFileName, .line = execution_.line, .path = {}},
           sdsc_.file + ": " + sdsc_.name + " " + text_of(tensor, length->argument, length->bytes) + ", and needs " +
               std::to_string(needed),
           kOtherTensor);
  }
  return static_cast<std::uint32_t>(elements);
}

// An operation of one input whose tensors may end early.
TensorOp ExecutionLowering::clipped(Opcode opcode) const {
  TensorOp op{.opcode = opcode, .extent = extents(), .operands = {}};
  const SdscTensor* const both[] = {&input(0), &output()};
  for (unsigned t = 0; t < 2; ++t) {
    UseRules rules;
    rules.is_guess = may_end_early(sdsc_, *both[t], *both[1 - t]) && lacks_length(*both[t]);
    if (const auto elements = short_extent(*both[t], *both[1 - t])) {
      const std::uint8_t d = both[t]->sticks[0].dimension;
      rules.layout.allocated[d] = *elements;
      const unsigned place = place_of(d);
      op.extent[place] = std::min(op.extent[place], *elements);
    }
    op.operands.push_back(use(*both[t], rules));
  }
  return op;
}

// How far an index may lead.
void ExecutionLowering::take_rows(const SdscTensor& value, std::uint64_t page) const {
  const auto length = length_of(value);
  if (!length) return;
  if (length->bytes < page) {
    refuse({.file = kBundleFileName, .line = execution_.line, .path = {}},
           sdsc_.file + ": " + sdsc_.name + " " + text_of(value, length->argument, length->bytes) +
               ", and one row of it " + std::to_string(page),
           kOtherTensor);
  }
  builder_.take(length->argument, length->bytes / page * page);
}

}  // namespace svp::compiler
