// SPDX-License-Identifier: Apache-2.0
#include "tests/support/block_builder.hpp"

#include <algorithm>
#include <cstring>

namespace svp::test {

wire::CorrectionSymbol address_symbol(std::uint32_t operand, const Region& region, std::uint64_t offset) {
  return {wire::SymbolKind::Address, operand, region.base.region_id, offset, 0};
}

wire::CorrectionSymbol dimension_symbol(std::uint32_t operand, std::uint64_t value) {
  return {wire::SymbolKind::Dimension, operand, 0, value, 0};
}

std::vector<std::byte> correction_of(std::span<const wire::CorrectionSymbol> symbols,
                                     std::span<const Region* const> regions) {
  wire::CorrectionHeader header{};
  header.magic = wire::kCorrectionMagic;
  header.symbol_count = static_cast<std::uint32_t>(symbols.size());
  header.region_count = wire::kRegionsPerFunction;
  std::ranges::fill(header.region, wire::CorrectionHeader::RegionName{wire::kNoRegion});
  for (const Region* region : regions) header.region[region->ordinal] = {region->base.region_id};
  std::vector<std::byte> bytes(wire::correction_bytes(header.symbol_count));
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, symbols.data(), symbols.size_bytes());
  return bytes;
}

BlockBuilder::BlockBuilder(Device& device, std::uint64_t region_bytes)
    : device_(device),
      tensor_(value_or_throw(device.acquire_region(RegionType::Tensor, region_bytes))),
      program_(value_or_throw(device.acquire_region(RegionType::Program, region_bytes))) {}

wire::ControlBlock BlockBuilder::loading(std::uint64_t offset, std::span<const std::byte> bytes) const {
  const std::uint64_t at = device_.host_memory().size() - wire::align_up(bytes.size(), wire::kStickBytes);
  std::memcpy(device_.host_memory().data() + at, bytes.data(), bytes.size());
  return dma(host(at), program(offset), bytes.size());
}

}  // namespace svp::test
