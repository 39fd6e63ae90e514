// SPDX-License-Identifier: Apache-2.0
// What each function of the card is guaranteed of its region memory, and of the memory of the machine that emulates it.
// Fixed at boot, for the functions that the card offers then (protocol §6).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "firmware/core/boot_options.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/units.hpp"

namespace fw {

// Who memory is granted to: the function's place in Card::functions. M's place stands for nobody, because M holds none.
using Owner = std::uint32_t;
inline constexpr Owner kNobody = 0;
inline constexpr std::size_t kMaxOwners = wire::boot::kMaxVirtualFunctions + 2;

// In granules, by owner; [kNobody] is what no function is guaranteed. Each sums up to what was divided.
struct MemoryShares {
  std::array<std::uint64_t, kMaxOwners> memory{};
  std::array<std::uint64_t, kMaxOwners> populated{};
};

// `granules` of region memory, of which `budget` may be populated. Each function gets an equal part, a virtual one at
// most its quota; nobody is guaranteed to populate more than the memory that it is guaranteed.
inline MemoryShares divide_memory(const BootOptions& options, std::uint64_t granules, std::uint64_t budget) {
  MemoryShares shares;
  const Owner functions = options.virtual_functions + 1;
  const std::uint64_t parts = options.sole_function != kNobody ? 1 : functions;
  shares.memory[kNobody] = granules;
  shares.populated[kNobody] = budget;
  for (Owner owner = 1; owner <= functions; ++owner) {
    if (options.sole_function != kNobody && owner != options.sole_function) continue;
    const bool bounded = owner != 1 && options.quota_bytes != 0;
    const std::uint64_t most = bounded ? options.quota_bytes / wire::kGranuleBytes : granules;
    shares.memory[owner] = std::min(granules / parts, most);
    shares.populated[owner] = std::min(budget / parts, shares.memory[owner]);
    shares.memory[kNobody] -= shares.memory[owner];
    shares.populated[kNobody] -= shares.populated[owner];
  }
  return shares;
}

}  // namespace fw
