// SPDX-License-Identifier: Apache-2.0
// One row per claim of a scenario: what is left out, and what has to notice. `also` names what cannot stand without the
// claim, with the reason beside it.
#include <array>

#include "tests/mutants/mutant.hpp"

namespace mutants {

namespace {

using enum flex::campaign::Proof;
using Card = fw::Mutant;
using Host = flex::HostMutant;
using wire::Status;

constexpr auto kMutants = std::to_array<Mutant>({
    // ---- driver and resources
    {.scenario = "F1", .what = "no host memory is a typed error", .proof = Detected, .driver = Host::HostExhaustion},
    {.scenario = "F2", .what = "a failed step of bring-up is noticed", .proof = Detected, .driver = Host::FailedStep},
    // The driver gives up a card that opens a stream twice.
    {.scenario = "F3",
     .what = "the table of streams ends",
     .proof = Detected,
     .card = Card::TableOfStreams,
     .also = only(Recovered),
     .breaks_off = true},
    {.scenario = "F3", .what = "the quota is kept", .proof = Detected, .card = Card::Quota},
    {.scenario = "F4", .what = "a reply that does not come is noticed", .proof = Detected, .driver = Host::NoReply},
    // ---- execution
    {.scenario = "F14", .what = "an endless kernel is stopped", .proof = Detected, .card = Card::KernelBudget},
    {.scenario = "F14", .what = "it is warned of before", .proof = Detected, .card = Card::KernelWarning},
    {.scenario = "F15", .what = "blocks that do not end are noticed", .proof = Detected, .driver = Host::NoReply},
    // A stream that misses a block cannot be reset.
    {.scenario = "F17",
     .what = "each block ends",
     .proof = Detected,
     .card = Card::LoseCompletion,
     .also = only(Recovered)},
    {.scenario = "F17", .what = "waiting blocks end ABORTED", .proof = Detected, .card = Card::AbortAtReset},
    // Without a fault the stream is not poisoned.
    {.scenario = "F18",
     .what = "a kernel's trap ends its launch",
     .proof = Detected,
     .card = Card::KernelTrap,
     .also = only(Contained)},
    {.scenario = "F18", .what = "its access is named", .proof = Detected, .card = Card::KernelRegion},
    {.scenario = "F18", .what = "blocks behind an error do not run", .proof = Contained, .card = Card::Poison},
    {.scenario = "F19", .what = "time-outs are counted", .proof = Detected, .card = Card::Strikes},
    // The next owner looks for the same.
    {.scenario = "F20",
     .what = "bad blocks of other processes are refused",
     .proof = Detected,
     .card = Card::BlockForm,
     .also = only(Recovered)},
    {.scenario = "F21",
     .what = "an incarnation that is over is refused",
     .proof = Detected,
     .card = Card::StreamOfReset},
    // The other function is reset.
    {.scenario = "F21",
     .what = "a function may not reset another",
     .proof = Detected,
     .card = Card::AdminRights,
     .also = only(Contained)},
    // There is no next owner.
    {.scenario = "F22",
     .what = "the end of an owner is noticed",
     .proof = Detected,
     .driver = Host::OwnerEnd,
     .also = only(Recovered)},
    {.scenario = "F23", .what = "each block ends", .proof = Detected, .card = Card::LoseCompletion},
    {.scenario = "F24", .what = "what has ended is not cancelled again", .proof = Detected, .card = Card::CancelEnded},
    // A stream that misses a block cannot be reset.
    {.scenario = "F24",
     .what = "each block ends",
     .proof = Detected,
     .card = Card::LoseCompletion,
     .also = only(Recovered)},
    // ---- card and firmware
    {.scenario = "F25", .what = "the next level of reset is tried", .proof = Detected, .driver = Host::NextLevel},
    {.scenario = "F27", .what = "a corrected error is told", .proof = Detected, .card = Card::MemoryCorrected},
    {.scenario = "F28",
     .what = "an uncorrectable error ends its block",
     .proof = Detected,
     .card = Card::MemoryUncorrectable},
    {.scenario = "F28", .what = "its memory is retired", .proof = Detected, .card = Card::MemoryRetired},
    // Nobody ends the witness's blocks.
    {.scenario = "F31",
     .what = "another boot epoch is noticed",
     .proof = Detected,
     .driver = Host::Restart,
     .also = only(Contained)},
    {.scenario = "F31", .what = "the record has the registers", .proof = Detected, .card = Card::RecordedPc},
    {.scenario = "F32", .what = "the steps of the boot are shown", .proof = Detected, .card = Card::BootSteps},
    // ---- platform
    // Nobody ends the blocks of a card that is gone.
    {.scenario = "F38",
     .what = "the emulator's end is noticed",
     .proof = Detected,
     .driver = Host::Death,
     .also = only(Contained)},
});

}  // namespace

std::span<const Mutant> all() { return kMutants; }

}  // namespace mutants
