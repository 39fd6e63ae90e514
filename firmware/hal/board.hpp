// SPDX-License-Identifier: Apache-2.0
// The board: what boot found. Filled by platform/ before fw::main_loop starts; constant afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hal {

// For arch/: reads the device tree and finds the card's memory, harts and slots. Once per boot, by hart 0. A board that
// the firmware cannot run on ends the emulator with a line that says why.
void initialize_board(const std::byte* device_tree);
// Warm reset of the whole card. All harts start again, memory outside the loaded image stays.
[[noreturn]] void restart_board();

// /chosen/bootargs, as given on the emulator's command line. Words "name=value"; parsed by fw::BootOptions.
std::string_view boot_arguments();

// Slots, numbered by devfn: *fixed* ones are ivshmem devices with a window and a doorbell device, *renewable* ones
// behind them are root ports, into which the host plugs a window. Only slots bound to a function get their window
// mapped.
unsigned slot_count();
bool slot_renewable(unsigned slot);

// Fixed: gives the slot's device BAR addresses, enables memory and bus master, and opens the doorbell device.
// Renewable: switches the port's power on and maps what is plugged there. False when no address space is left, or
// nothing is plugged. Idempotent.
bool map_slot(unsigned slot);

// The window is gone afterwards, its address is free for another slot. Fixed: the device does not answer any more.
// Renewable: the port's power is switched off, by which the emulator unplugs the window for good; also when nothing was
// mapped there.
void unmap_slot(unsigned slot);

// The doorbell device of a fixed slot, without its window: routes its MSI-X vector to hart 0 and unmasks it. False when
// no address space is left. Idempotent.
bool open_doorbell(unsigned slot);
// Masks the vector.
void close_doorbell(unsigned slot);

// Ends the emulator with this exit code (finisher). Does not return on the card.
[[noreturn]] void exit(unsigned code);

// Persistent memory that survives a warm reset (not part of the loaded image): for the record and the bitmaps.
// `bytes` is at most persistent_bytes().
std::byte* persistent();
std::uint64_t persistent_bytes();

}  // namespace hal
