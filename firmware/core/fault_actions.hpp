// SPDX-License-Identifier: Apache-2.0
// What armed faults do to hart 0, and the command that arms them. Called only where FaultTable::armed() said so.
#pragma once

#include <cstdint>

#include "firmware/core/fault_table.hpp"
#include "firmware/core/function.hpp"
#include "firmware/core/launches.hpp"

namespace fw {

class Card;

// Looked at once an iteration of hart 0's loop.
inline constexpr std::uint64_t kLoopPoints =
    point_bit(wire::FaultPoint::Dispatcher) | point_bit(wire::FaultPoint::Firmware);
// Dispatcher and Firmware: stands still, or breaks the firmware.
[[gnu::cold, gnu::noinline]] void break_loop(Card& card);

// The calling hart does nothing but look at the clock for so many device ticks; 0: until the card is reset.
[[gnu::cold, gnu::noinline]] void stand_still(std::uint64_t ticks);

// FunctionReset: true while the reset of the function is held back.
[[gnu::cold, gnu::noinline]] bool reset_stalls(Card& card, Function& function, std::uint64_t now);

// RegionEntry: before the regions that the block names are looked up.
[[gnu::cold, gnu::noinline]] void damage_entries(Function& function, const Block& block);

// Memory: [begin, end) of card memory is about to be touched for the block. A corrected error is counted and told. An
// uncorrectable one is told and its granule retired: true, with the damaged byte, and the block must end FAULT. A card
// that does not check for memory errors goes on with a byte that is not what was stored.
[[gnu::cold, gnu::noinline]] bool memory_fails(Card& card, Function& function, const wire::ControlBlockHeader& header,
                                               hal::PhysicalAddress begin, hal::PhysicalAddress end,
                                               hal::PhysicalAddress& place);

// Array: the launch has ended because the array could not read memory. When that is a region's, the result names it,
// and its granule is retired and told, as memory_fails() does. The array reads a context's own memory as well.
[[gnu::cold, gnu::noinline]] LaunchResult locate_failed_memory(Card& card, Function& function, LaunchResult result);

// FAULT_ARM.
void fault_command(Card& card, const wire::AdminRequest& request, wire::AdminReply& reply);

}  // namespace fw
