// SPDX-License-Identifier: Apache-2.0
// Mutants of driver and broker: one check left out. The campaign's scenarios are run on them, and each has to fail
// where its claim is about that check (tests/mutants); those of the firmware are in firmware/mutants/mutants.hpp.
//
// They exist in the program `spyre-mutant` only. Every other program is linked with no_mutant.cpp, an object file of
// its own, where the answer is None.
#pragma once

#include <cstdint>

namespace svp {

// What is *not* done.
enum class HostMutant : std::uint8_t {
  None,
  Silence,            // a heartbeat that stands still is noticed
  Death,              // the end of the emulator is noticed
  Restart,            // another boot epoch or generation, DEVICE_NEEDS_RESET
  NoReply,            // a command without a reply, blocks without an end (they are taken for OK, and over)
  FailedStep,         // a step of bring-up that fails (it is taken for done)
  HostExhaustion,     // no host memory, no thread (the exception leaves the driver untyped)
  OwnerEnd,           // the broker: an owner's socket or process has ended
  NextLevel,          // a reset level that did not help is followed by the next
  Wedged,             // a card that dies again and again is given up
  ReadChecksum,       // what was read from the card is compared with the card's checksum
  AbiVersion,         // a window of another version is not touched
  OutstandingEnd,     // blocks of a card that is gone end LOST or INDETERMINATE (they end OK)
  FailAdminRequests,  // commands of a card that is gone fail (they end OK)
  Unmap,              // a window is unmapped
  CardReset,          // a reset of the card that was asked for is carried out (it is refused)
  Snapshot,           // a snapshot has the harts' registers
  Report,             // a report of a record says where the harts were
  FlexException,      // libflex: what leaves it is a std::runtime_error (it is the driver's own type)
  FlexStreamError,    // libflex: a stream that failed says so
  FlexCardError,      // libflex: a stream of a card that failed says so
  FlexEnd,            // libflex: a runtime that ends gives its device back
  FlexBinary,         // libflex: a damaged binary is refused before it is sent (it is sent as bytes)
  FlexOverwritten,    // libflex: a binary that was overwritten is forgotten
  FlexHcm,            // libflex: an hcm that is none is refused (it is taken for another compiler's)
  ScratchpadsZero,    // the scratchpads of a runtime's device programs begin as zeros
  Comparison,         // an element that is not the golden model's is noticed
  Difference,         // and named, with both values
  Last = Difference,
};

// Which one, for programs that `spyre-mutant` starts. Nothing that is shipped reads it.
inline constexpr const char* kMutantVariable = "SPYRE_HOST_MUTANT";

HostMutant active_mutant() noexcept;
inline bool mutated(HostMutant mutant) noexcept { return active_mutant() == mutant; }

}  // namespace svp
