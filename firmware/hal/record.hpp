// SPDX-License-Identifier: Apache-2.0
// What a firmware that breaks can still tell (shared/fatal_record.hpp), and what becomes of the card then. A trap in
// firmware code, hal::panic() and stuck() end in the same way: one hart writes the record, the others are asked for
// their registers and stop, then the emulated machine is reset or the emulator ends.
#pragma once

#include <cstdint>

#include "firmware/hal/hart.hpp"
#include "shared/fatal_record.hpp"

namespace hal {

// What the calling hart does from now on. One store.
void mark(wire::Waypoint waypoint);
// What a hart marked last.
wire::Waypoint waypoint_of(unsigned hart);

// Something that happened, for the record's last events; any hart. `time` for who has just read the clock: reading it
// costs 90 ns, the rest 10.
void note(std::uint64_t time, wire::RecordedEventKind kind, std::uint32_t a, std::uint64_t b);
inline void note(wire::RecordedEventKind kind, std::uint32_t a, std::uint64_t b) { note(now(), kind, a, b); }

// Stops the calling hart, after it has left its registers, when another one records. Sleeping and running kernels look
// by themselves; a loop that does neither asks here now and then.
void stop_if_recording();

// Ends this boot because `hart` stands still, which cannot do it itself. `reason` must be a literal.
[[noreturn]] void stuck(unsigned hart, const char* reason);

// ---- boots ----------------------------------------------------------------------------------------------------------

enum class AfterRecord : std::uint8_t {
  Exit,     // ends the emulator with code 70; what a boot starts with, so that a boot that breaks is not repeated
  Restart,  // warm reset: all harts start again, the image is loaded anew, memory outside of it stays
};
// Hart 0, once the card serves. `boot_epoch` goes into the record.
void set_after_record(AfterRecord what, std::uint64_t boot_epoch);

// So many restarts in a row without mark_boot_good() between them are tried; then the emulator ends as with Exit.
inline constexpr std::uint32_t kMostRestarts = 8;
// This boot has shown that it works: the restarts before it no longer count.
void mark_boot_good();

// The record of an earlier boot; null: none, or one that is damaged. It stays until the next one or a power cycle.
const wire::FatalRecord* previous_record();

}  // namespace hal
