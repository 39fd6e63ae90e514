// SPDX-License-Identifier: Apache-2.0
// Mutants: firmware with one check left out, or one promise broken. The campaign's scenarios are run on them, and each has
// to fail where its claim is about that check (tests/mutants).
//
// They exist in spyre-firmware-mutant.elf only. The firmware that is shipped is linked from the same objects and
// no_mutants.cpp, where every answer is "no": link-time optimisation leaves nothing of the question behind, and the boot
// words `mutant` and `mutant_status` are refused.
#pragma once

#include <cstdint>

#include "shared/outcome.hpp"

namespace fw {

// Numbers of the boot word `mutant`. What is listed is what is *not* done.
enum class Mutant : std::uint8_t {
  None,
  // Control blocks
  BlockFrame,     // magic and size of a block                                  (by status)
  BlockAddress,   // generation, incarnation, banned and resetting streams      (by status; unknown streams are refused)
  BlockForm,      // opcode, flags, reserved bits, CRC, counts, endpoints       (by status)
  BlockSequence,  // order of sequence numbers
  HostRange,      // host memory of a transfer lies in its part of the window
  RegionName,     // the region exists; one of the function's is taken instead
  RegionGeneration,  // a region's generation
  RegionBounds,      // offset and length lie in the region
  ProgramType,       // an image lies in a Program region
  ImageForm,         // magic, version and layout of a kernel image
  ImageChecksum,     // of a kernel image
  Poison,            // blocks behind an error of their stream are not executed
  // Messages and commands
  FifoIndex,       // an index further ahead than the FIFO is long is not followed
  MessageFrame,    // size, device and type of a control message                         (by status)
  ConfigRange,     // no more config space than a message holds
  FeatureRules,    // SET_DRIVER_FEATURES: late, blocks, not offered, mandatory           (by status)
  StatusSteps,     // the order of status bits
  QueueRules,      // SET_VIRTQUEUE: features, twice, reserved, size, alignment, place    (by status)
  CountRefusals,   // refused messages are counted
  AnswerRefused,   // refused messages are answered
  CountChains,     // broken chains are counted
  AdminRights,     // who may do what to whom
  StreamOfReset,   // incarnation of a command about a stream
  TableOfStreams,  // there are so many streams and no more
  Quota,           // bytes of regions per function
  CancelEnded,     // CANCEL of what has ended is refused
  // Kernels and transfers
  KernelBudget,    // an endless kernel is stopped
  KernelWarning,   // and warned of before
  KernelTrap,      // a trap ends its launch FAULT
  KernelRegion,    // a trap's access is named
  Strikes,         // time-outs of a stream are counted
  TransferBudget,  // a transfer is stopped behind its budget
  DmaChecksum,     // the checksum of a transfer is compared
  DmaRetry,        // a transfer with a wrong checksum is tried again
  // Memory errors
  MemoryCorrected,      // function and M are told of a corrected error
  MemoryUncorrectable,  // an uncorrectable error ends its block
  MemoryRetired,        // its granule is never granted again
  // Resets
  ScrubMemory,      // released memory is cleared
  ClearPages,       // scratchpads are cleared
  ClearRegisters,   // a kernel finds registers that are zero
  ClearStatistics,  // counters of a function that is reset
  ClearWindow,      // what a window says of the function's state is cleared
  ForgetRegions,    // a reset function holds no regions
  AbortAtReset,     // waiting blocks of a reset end ABORTED (they end OK)
  ResetReaches,     // the reset of a function leaves the streams of all others alone
  JoinResets,       // a reset of a function that is being reset joins
  // The card
  LoopWatch,   // hart 0's loop is watched
  RecordedPc,  // a fatal record has the registers
  BootSteps,   // POST codes are shown while the boot lasts
  Persistent,  // magic, version and checksum of what an earlier life left             (by status)
  // Promises
  LoseCompletion,    // each block ends: what was stopped by its owner's reset or cancel does not
  LogEachViolation,  // violations are not written to the console one by one
  OneQuantum,        // a function has one quantum of a turn (it has eight)
  FairSlices,        // kernels of functions run in turn (the first function with one goes first)
  Last = FairSlices,
};

// Whether the check is left out. Asked behind the finding and not before it: what is in order never gets here. `status` is
// what was found, where a mutant can be limited to one (boot word `mutant_status`).
bool mutated(Mutant mutant, wire::Status status = wire::Status::None) noexcept;

// By boot(), before any other hart looks. False: there is no such mutant in this firmware.
bool choose_mutant(std::uint64_t mutant, std::uint64_t status) noexcept;

}  // namespace fw
