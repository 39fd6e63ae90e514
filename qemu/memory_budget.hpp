// SPDX-License-Identifier: Apache-2.0
// How much memory of this machine cards may take (protocol §6): guest memory is sparse, so a card could promise 98 GiB
// on a small machine and end it by touching them. The budget makes that a typed fault on the card.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shared/units.hpp"

namespace svp {

// A card with less memory does not boot: the firmware's own, and one granule of a region
// (firmware/platform/virt/board.cpp).
inline constexpr std::uint64_t kLeastMemoryBytes = 2 * wire::kGiB + wire::kGranuleBytes;

// A third of what the machine has available now, shared by `cards`; whole MiB, at least one. Looks at the whole machine
// (MemAvailable), not at a container's limit. 0, no budget, when the machine does not tell.
std::uint64_t default_populated_budget(unsigned cards = 1);

// What this machine has available now; nothing when it does not tell.
std::optional<std::uint64_t> available_memory();

// Bytes of the line "MemAvailable: N kB" of /proc/meminfo.
std::optional<std::uint64_t> parse_available_memory(std::string_view meminfo);

}  // namespace svp
