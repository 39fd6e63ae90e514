// SPDX-License-Identifier: Apache-2.0
// The map of regions in a correction tensor. In either address mode a region is found by its name; only what the name
// means differs (protocol §7).
#pragma once

#include <cstdint>
#include <optional>

#include "shared/kernel_abi.hpp"

namespace kernel {

inline std::optional<std::uint64_t> virtual_address(const wire::CorrectionHeader& header,
                                                    const wire::CorrectionSymbol& symbol) {
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if (header.region[i].region_id == symbol.region_id && symbol.region_id != wire::kNoRegion) {
      return wire::region_window(i) + symbol.value;
    }
  }
  return std::nullopt;
}

}  // namespace kernel
