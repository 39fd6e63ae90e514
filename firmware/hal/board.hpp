// SPDX-License-Identifier: Apache-2.0
// The board: what boot found. Filled by platform/ before fw::main_loop starts; constant afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hal {

// /chosen/bootargs, as given on the emulator's command line. Words "name=value"; parsed by fw::BootOptions.
std::string_view boot_arguments();

// ivshmem devices found, numbered by devfn. Only slots bound to a function get their window mapped.
unsigned slot_count();

// Gives the slot's device BAR addresses, enables memory and bus master, routes its MSI-X vector to hart 0 and unmasks
// it. False when no address space is left. Idempotent.
bool map_slot(unsigned slot);

// Masks the vector, clears the command register, frees the address for another slot. The window is gone afterwards.
void unmap_slot(unsigned slot);

// Ends the emulator with this exit code (finisher). Does not return on the card.
[[noreturn]] void exit(unsigned code);

// Persistent memory that survives a warm reset (not part of the loaded image): for the record and the bitmaps.
// `bytes` is at most persistent_bytes().
std::byte* persistent();
std::uint64_t persistent_bytes();

}  // namespace hal
