// SPDX-License-Identifier: Apache-2.0
// Mutants: firmware with one check left out, or one promise broken. The campaign's scenarios are run on them, and each
// has to fail where its claim is about that check (tests/mutants).
//
// They exist in spyre-firmware-mutant.elf only. The firmware that is shipped is linked from the same objects and
// no_mutants.cpp, where every answer is "no": link-time optimisation leaves nothing of the question behind, and the
// boot words `mutant` and `mutant_status` are refused.
#pragma once

#include <cstdint>

#include "shared/outcome.hpp"

namespace fw {

// Numbers of the boot word `mutant`. What is listed is what is *not* done.
enum class Mutant : std::uint8_t {
  None,
  // Control blocks
  BlockFrame,   // magic and size of a block                                  (by status)
  BlockLength,  // its length, by its frame and by its form
  // generation, incarnation, streams that are not open         (by status; the last end OK, and do nothing)
  BlockAddress,
  BlockForm,         // opcode, flags, reserved bits, CRC, counts, endpoints       (by status)
  BlockSequence,     // order of sequence numbers
  HostRange,         // host memory of a transfer lies in its part of the window
  HostEnd,           // and ends in it: what does not is taken from its beginning
  RegionName,        // the region exists; one of the function's is taken instead
  RegionGeneration,  // a region's generation
  RegionBounds,      // offset and length lie in the region; what wraps is taken from its beginning
  RefusedWhole,      // what is refused has had no effect: of a FILL over a region's end, what fits is written
  ProgramType,       // an image lies in a Program region
  ImageForm,         // magic, version and layout of a kernel image
  ImageLength,       // that it is as long as its header, by block and image
  ImageChecksum,     // of a kernel image
  Poison,            // blocks behind an error of their stream are not executed
  PoisonReaches,     // an error poisons its own stream only
  PoisonEnds,        // with the reset of its stream
  RightCrc,          // a block whose CRC is right is accepted
  RightChecksum,     // a transfer whose checksum is right ends OK
  // Messages and commands
  FifoIndex,         // an index further ahead than the FIFO is long is not followed
  AnswerOffender,    // who broke a rule is told its status
  OffenderReturns,   // and comes up again after its reset
  MessageFrame,      // size, device and type of a control message                         (by status)
  MessageOperation,  // operations that there are
  MessagePayload,    // a payload that is long enough
  BusOperation,      // of the bus there is only the ping
  ConfigRange,       // no more config space than a message holds, and than there is                (by status)
  FeatureRules,      // SET_DRIVER_FEATURES: late, blocks, not offered, mandatory           (by status)
  StatusSteps,       // the order of status bits
  QueueRules,        // SET_VIRTQUEUE: features, twice, reserved, size, alignment, place    (by status)
  QueueIndex,        // there are so many queues: of others, the control blocks' is meant
  QueueNotSet,       // a queue that is not set up is not reset
  QueueAnySize,      // sizes that are no power of two
  CountRefusals,     // refused messages are counted
  AnswerRefused,     // refused messages are answered
  CountChains,       // broken chains are counted
  RefuseChains,      // and not executed
  AdminRights,       // who may do what to whom
  AdminTarget,       // a function that there is
  ForManagement,     // what M may not ask for
  StreamOfReset,     // stream and incarnation of a command about a stream                         (by status)
  TableOfStreams,    // there are so many streams and no more
  Quota,             // bytes of regions per function
  GrantName,         // a grant of events that the function has; one of another function's is taken instead
  GiveBack,          // a region that was released is the function's no more
  LostReplyAlone,    // a reply that is lost holds up no other command
  CancelEnded,       // CANCEL of what has ended is refused
  CancelRunning,     // CANCEL of what runs stops it
  // Kernels and transfers
  KernelBudget,    // an endless kernel is stopped
  OwnBudget,       // by the budget of its block (by a short one)
  KernelWarning,   // and warned of before
  KernelTrap,      // a trap ends its launch FAULT
  KernelRegion,    // a trap's access is named
  KernelStopped,   // a kernel that is stopped ends FAULT (it ends ABORTED)
  StreamTimeouts,  // time-outs of a stream are counted
  BanReaches,      // its last one bans the stream and no other one
  BanEnds,         // until its function is reset
  TransferBudget,  // a transfer is stopped behind its budget
  TransferInTime,  // and not before
  TransferSlow,    // a slow one goes on
  DmaChecksum,     // the checksum of a transfer is compared
  DmaRetry,        // a transfer with a wrong checksum is tried again
  DmaTold,         // the checksum of what left the card is told
  // Memory errors
  MemoryCorrected,      // function and M are told of a corrected error
  MemoryTold,           // M is
  MemoryRight,          // what was corrected is right
  MemoryUncorrectable,  // an uncorrectable error ends its block
  MemoryRetired,        // its granule is never granted again
  // Resets
  ScrubMemory,      // released memory is cleared
  ClearPages,       // scratchpads are cleared
  ClearContext,     // arguments, correction and stack of a kernel are
  ClearRegisters,   // a kernel finds registers that are zero
  ClearStatistics,  // counters of a function that is reset
  ClearWindow,      // what a window says of the function's state is cleared
  ClearRings,       // a reset function has no rings
  ForgetRegions,    // a reset function holds no regions
  AbortAtReset,     // waiting blocks of a reset end ABORTED (they end OK)
  ResetReaches,     // the reset of a function leaves the streams of all others alone
  ReleaseReaches,   // only its own memory is cleared
  CountReset,       // only its own resets are counted
  JoinResets,       // a reset of a function that is being reset joins
  RevokeGrants,     // a reset of a function revokes the grants of its events
  AnswerReset,      // a reset that was carried out is answered OK
  AnswerLate,       // and not before its end
  ResetQueue,       // a queue can be reset
  ResetStreams,     // with its streams
  ResetIdle,        // a stream without work can be reset
  // The card
  LoopWatch,         // hart 0's loop is watched
  RecordedPc,        // a fatal record has the registers
  RecordedEvents,    // the last events
  RecordedWaiting,   // which harts did not answer
  RecordedWaypoint,  // where each hart was last
  Heartbeat,         // it beats
  BootWords,         // boot words that are not known, values that cannot be
  BootEpoch,         // each boot has its own
  BootSteps,         // POST codes are shown while the boot lasts
  Persistent,        // magic, version and checksum of what an earlier boot left             (by status)
  // Promises
  LoseCompletion,    // each block ends: what was stopped by its owner's reset or cancel does not
  LogEachViolation,  // violations are not written to the console one by one
  OneQuantum,        // a function has one quantum of an iteration (it has eight)
  QuantumBytes,      // a quantum has so many bytes
  FairSlices,        // kernels of functions run in turn (the first function with one goes first)
  OneSlice,          // each has one slice of an iteration (it has four)
  // Command buffers
  CallBuffer,    // a call of a buffer that there is not, or is another one, is refused (it ends OK)  (by status)
  CallJudged,    // a call whose regions have gone has not begun
  CallEnds,      // a call ends with its first block that fails
  CallHalf,      // half a call ends FAULT, and not REJECTED
  CallBlock,     // the block that failed is told
  ImageWritten,  // an image that was written to is checked again
  BufferJudged,  // the addresses of what a buffer is made of, or patched with
  PatchKind,     // a block is replaced by one of its kind
  PatchBusy,     // a buffer in use is not patched
  PatchDone,     // a patch is carried out
  BuffersEnd,    // with the reset of their function
  // Injected faults
  FaultFunction,  // a fault aimed at a function counts what happens to that one only
  FaultDisarmed,  // a fault that was disarmed fires no more
  FaultPlace,     // a fault of a slice fires at the operation that it names (at all others)
  FaultHeld,      // and when so many cores wait as it says (when fewer do)
  FaultSegment,   // the bit of a launch's memory that is named is inverted (one a stick further)
  ArrayRefusal,   // what the array refuses it has not touched (it is made with a wrong bit)
  ArrayError,     // memory that it can not read ends its launch
  ArrayPlace,     // and is named
  // Launches on several cores
  FaultCore,      // an error of a kernel names its core
  FaultProgress,  // and what the kernel was at
  FaultWaiting,   // and how many cores of the launch waited at the barrier
  PartsInTurn,    // parts of one function on one core run in turn (the one that was queued last goes first)
  KernelStatus,   // a kernel that returns a status ends FAULT
  // What others wait for
  SelfTestYields,  // a self-test is over when somebody waits
  ResetForgets,    // nobody waits in a function that is reset
  OpenWithdraws,   // a stream that is opened again is awaited by nobody
  CallUnbegun,     // a call that is reset while it is judged has not begun
  Last = CallUnbegun,
};

// Whether the check is left out. Asked behind the finding and not before it: what is in order never gets here. `status`
// is what was found, where a mutant can be limited to one (boot word `mutant_status`).
bool mutated(Mutant mutant, wire::Status status = wire::Status::None) noexcept;

// By boot(), before any other hart looks. False: there is no such mutant in this firmware.
bool choose_mutant(std::uint64_t mutant, std::uint64_t status) noexcept;

}  // namespace fw
