// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/correction.hpp"

#include <cstring>

namespace svp {

ProgramCorrectionMetadata ProgramCorrectionMetadata::of(const Kernel& kernel) {
  return {.symbols = kernel.metadata().symbols, .max_bytes = kernel.max_correction_bytes()};
}

std::size_t build_correction(const HostOperationInput& input, std::span<std::byte> correction) {
  const auto& symbols = input.metadata.symbols;
  const std::uint64_t bytes = wire::correction_bytes(static_cast<std::uint32_t>(symbols.size()));
  if (bytes > correction.size()) {
    throw InvalidArgument(
        "program_correction_metadata.max_bytes",
        "a correction tensor of " + std::to_string(bytes) + " bytes does not fit " + std::to_string(correction.size()),
        "take the metadata of the same kernel build");
  }
  wire::CorrectionHeader header{};
  header.magic = wire::kCorrectionMagic;
  header.mode = input.regions.mode;
  header.symbol_count = static_cast<std::uint32_t>(symbols.size());
  header.region_count = wire::kRegionsPerFunction;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) header.region[i].region_id = input.regions.region_id[i];
  std::memcpy(correction.data(), &header, sizeof header);
  std::byte* to = correction.data() + sizeof header;
  for (const KernelSymbol& symbol : symbols) {
    wire::CorrectionSymbol value{
        .kind = symbol.kind, .operand = symbol.operand, .region_id = 0, .value = 0, .reserved = 0};
    switch (symbol.kind) {
      case wire::SymbolKind::Address:
        value.region_id = input.operands[symbol.operand].address.region_id;
        value.value = input.operands[symbol.operand].address.offset;
        break;
      case wire::SymbolKind::Partials:
        value.region_id = input.operands[symbol.operand].partials.region_id;
        value.value = input.operands[symbol.operand].partials.offset;
        break;
      case wire::SymbolKind::Pass: value.value = input.pass; break;
      case wire::SymbolKind::Stride: value.value = input.operands[symbol.operand].stride[symbol.axis]; break;
      case wire::SymbolKind::Dimension:
        value.value = static_cast<std::uint64_t>(input.dimensions[symbol.dimension]);
        break;
    }
    std::memcpy(to, &value, sizeof value);
    to += sizeof value;
  }
  return bytes;
}

}  // namespace svp
