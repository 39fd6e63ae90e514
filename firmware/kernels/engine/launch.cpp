// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/launch.hpp"

#include <iterator>

#include "firmware/kernels/region_map.hpp"

namespace kernel::engine {
namespace {

bool read_addresses(const wire::KernelArguments& arguments, Launch& launch) {
  if (arguments.correction_bytes < sizeof(wire::CorrectionHeader)) return false;
  const auto& header = *reinterpret_cast<const wire::CorrectionHeader*>(arguments.correction_address);
  const auto* symbols =
      reinterpret_cast<const wire::CorrectionSymbol*>(arguments.correction_address + sizeof(wire::CorrectionHeader));
  const std::uint32_t count = header.symbol_count;
  if (header.magic != wire::kCorrectionMagic || count == 0 || count > std::size(launch.address)) return false;
  if (arguments.correction_bytes < sizeof header + count * sizeof(wire::CorrectionSymbol)) return false;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (symbols[i].kind != wire::SymbolKind::Address || symbols[i].operand != i) return false;
    const auto address = virtual_address(header, symbols[i]);
    if (!address || !wire::is_aligned(*address, wire::kStickBytes)) return false;
    launch.address[i] = *address;
  }
  launch.count = count;
  return true;
}

}  // namespace

void read_correction(const wire::KernelArguments& arguments, Launch& launch) {
  launch.refusal = {};
  if (!read_addresses(arguments, launch)) launch.refusal = {.where = wire::program::Where::Correction};
}

}  // namespace kernel::engine
