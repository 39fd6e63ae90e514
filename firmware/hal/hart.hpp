// SPDX-License-Identifier: Apache-2.0
// Harts, time, sleeping and doorbells. Machine interrupts are never taken in firmware code (MIE stays 0): they only end
// a sleep or a kernel slice, so firmware code needs no locks against itself.
#pragma once

#include <cstdint>

namespace hal {

unsigned hart_id();
unsigned hart_count();

// Device timer, wire::kTicksPerSecond. Monotonic, the same on all harts.
std::uint64_t now();

// Sleeps until a doorbell from any slot, a wake() from another hart, or `deadline`, whichever is first; pending
// interrupts are claimed before return. A wake that came before the call ends it at once (it stays pending). May return
// early.
void sleep_until(std::uint64_t deadline);

// Ends the sleep or the kernel slice of another hart. One store to its interrupt file; never blocks.
void wake(unsigned hart);

// On the calling hart: from hold_doorbells() on, doorbells and wakes end no kernel slice and cost the hart nothing;
// they are remembered. accept_doorbells() claims what has come meanwhile and listens again: the caller then looks at
// everything itself. No sleep_until() in between.
void hold_doorbells();
void accept_doorbells();

// Signals a peer through the doorbell device of a fixed slot. Orders all earlier memory writes before the doorbell
// (fence w,o). A doorbell is a hint: it may be lost, so nobody may depend on it alone (protocol §8).
void signal(unsigned slot, std::uint32_t peer);

// Writes the record, then ends or restarts the card (hal/record.hpp). `reason` must be a literal.
[[noreturn]] void panic(const char* reason);

// Break the firmware itself, on the calling hart (FaultPoint::Firmware, FirmwareHart): what finds it is the real thing.
[[noreturn]] void break_by_trap();            // a load from an address where nothing is
[[noreturn]] void break_by_stack_overflow();  // recursion into the guard below the stack

// One line to the console log (UART). Slow (each byte is an MMIO): boot and rare events only.
void log(const char* line);

}  // namespace hal
