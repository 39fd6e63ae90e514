// SPDX-License-Identifier: Apache-2.0
// Host computations: correction tensors as an hcm describes them (docs/spyrecode.md), with the addresses as the program
// knows them, segment and offset. A launch resolves them (compute.cpp).
#include <spyrecode-host-functions/fast_process_hcm.h>
#include <spyrecode-host-functions/processSpyreCodeArtifacts.h>
#include <spyrecode-host-functions/spyrecode.h>
#include <algorithm>
#include <cstring>
#include <flex/flex.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/spyrecode/hcm.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"
#include "shared/kernel_abi.hpp"

namespace flex::detail {
namespace {

using Description = svp::spyrecode::Hcm;

[[noreturn]] void refuse_hcm(const std::string& what) {
  throw std::runtime_error("hcm: " + what +
                           " (next: take a directory that was written for this card, spyre spyrecode make)");
}

// What a directory of another compiler says is accepted as long as nobody executes it.
void require_vdci(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) refuse_hcm("it is no JSON object");
  const auto vdci = json.find("vdci");
  if (vdci == json.end() || !vdci->is_object()) refuse_hcm("the vdci field is no object");
}

bool is_ours(const std::string& text) { return nlohmann::json::parse(text).contains("format"); }

// Throws InvalidPlan that names the member.
std::shared_ptr<Description> described_by(const std::string& text) {
  try {
    return std::make_shared<Description>(svp::spyrecode::parse_hcm(text, "hcm"));
  } catch (const svp::spyrecode::InvalidPlan&) {
    if (svp::mutated(svp::HostMutant::FlexHcm)) return nullptr;
    throw;
  }
}

const Description& description_of(const Hcm& hcm) {
  const auto* description = static_cast<const Description*>(hcm.content_.get());
  if (description == nullptr || description->symbols.empty()) {
    throw std::runtime_error(
        "Expect one DCI: the hcm describes no correction tensor (next: take a directory that was "
        "written for this card, spyre spyrecode make)");
  }
  return *description;
}

std::size_t offset_of_symbol(std::size_t index) {
  return sizeof(wire::CorrectionHeader) + index * sizeof(wire::CorrectionSymbol);
}

void write_address(std::byte* symbol, std::int64_t address) {
  const auto dmva = static_cast<std::uint64_t>(address);
  const std::uint64_t segment = dmvaToSegmentId(dmva);
  if (segment >= PROG_SEGMENT) {
    throw std::runtime_error("address " + std::to_string(address) +
                             " is in no segment of tensors (next: give what compositeAddressToDmva() returns)");
  }
  const std::uint64_t offset = dmva & (SEGMENT_SIZE - 1);
  std::memcpy(symbol + offsetof(wire::CorrectionSymbol, region_id), &segment, sizeof segment);
  std::memcpy(symbol + offsetof(wire::CorrectionSymbol, value), &offset, sizeof offset);
}

// One address per input, or one per tensor of the launch: input I is tensor inputs[I] then.
std::int64_t address_of(const Description& hcm, std::size_t input, std::span<const std::int64_t> addresses) {
  const std::size_t at = addresses.size() == hcm.inputs.size() ? input : hcm.inputs[input];
  if (at < addresses.size()) return addresses[at];
  throw std::runtime_error("the hcm reads " + std::to_string(hcm.inputs.size()) + " addresses, " +
                           std::to_string(addresses.size()) + " were given (next: give one per tensor)");
}

void write_tensor(const Description& hcm, std::byte* output, std::span<const std::int64_t> addresses, bool none) {
  std::memset(output, 0, wire::correction_bytes(static_cast<std::uint32_t>(hcm.symbols.size())));
  wire::CorrectionHeader header{};
  header.magic = wire::kCorrectionMagic;
  header.mode = wire::AddressMode::Vf;
  header.symbol_count = static_cast<std::uint32_t>(hcm.symbols.size());
  header.region_count = wire::kRegionsPerFunction;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) header.region[i].region_id = i;
  std::memcpy(output, &header, sizeof header);
  for (std::size_t i = 0; i < hcm.symbols.size(); ++i) {
    const svp::spyrecode::HcmSymbol& symbol = hcm.symbols[i];
    wire::CorrectionSymbol value{};
    value.kind = symbol.kind;
    value.operand = hcm.inputs[symbol.input];
    if (symbol.kind == wire::SymbolKind::Pass) value.value = wire::kPassFirst | wire::kPassLast;
    if (symbol.kind == wire::SymbolKind::Partials) value.region_id = wire::kNoRegion;
    std::byte* const at = output + offset_of_symbol(i);
    std::memcpy(at, &value, sizeof value);
    if (symbol.kind == wire::SymbolKind::Address && !none) {
      write_address(at, address_of(hcm, symbol.input, addresses));
    }
  }
}

}  // namespace
}  // namespace flex::detail

void Hcm::importJsonStr(const std::string& text) {
  flex::detail::guarded([&] {
    flex::detail::require_vdci(text);
    vdci.inputSym_.clear();
    content_.reset();
    if (!flex::detail::is_ours(text)) return;
    auto description = flex::detail::described_by(text);
    if (description == nullptr) return;
    for (const std::uint32_t input : description->inputs) vdci.inputSym_.push_back(std::to_string(input));
    content_ = std::move(description);
  });
}

void deeptools::processComputeOnHostCommand(Hcm& hcm, void* output, const void* input) {
  flex::detail::guarded([&] {
    const auto& description = flex::detail::description_of(hcm);
    const auto* addresses = static_cast<const std::vector<int64_t>*>(input);
    const auto list =
        addresses == nullptr ? std::span<const std::int64_t>() : std::span<const std::int64_t>(*addresses);
    flex::detail::write_tensor(description, static_cast<std::byte*>(output), list, addresses == nullptr);
  });
}

bool deeptools::buildFastHcmPatchPlan(FastHcmPatchPlan& plan, const Hcm& hcm) {
  const auto* description = static_cast<const svp::spyrecode::Hcm*>(hcm.content_.get());
  if (description == nullptr || description->symbols.empty()) return false;
  FastHcmPatchPlan built;
  built.valid = true;
  built.output_size =
      static_cast<uint32_t>(wire::correction_bytes(static_cast<std::uint32_t>(description->symbols.size())));
  built.num_input_symbols = static_cast<uint32_t>(description->inputs.size());
  for (std::size_t i = 0; i < description->symbols.size(); ++i) {
    if (description->symbols[i].kind == wire::SymbolKind::Address) {
      built.patches.push_back(static_cast<int>(flex::detail::offset_of_symbol(i)));
    }
  }
  plan = std::move(built);
  return true;
}

bool deeptools::processComputeOnHostCommandFast(const FastHcmPatchPlan& plan, const Hcm& hcm, void* output,
                                                const int64_t* addresses, size_t count) {
  return flex::detail::guarded([&] {
    const auto& description = flex::detail::description_of(hcm);
    flex::detail::write_tensor(description, static_cast<std::byte*>(output), {addresses, count}, false);
    return plan.valid && count == plan.num_input_symbols;
  });
}
