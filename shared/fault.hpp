// SPDX-License-Identifier: Apache-2.0
// Breaking the card on purpose: the points at which the firmware can be told to fail, and how (FAULT_ARM, M only).
// A point that is not armed costs the card one predictable branch. What the host can break (doorbells, window, driver,
// emulator) needs no word of the card and stands in host_driver/faults.
#pragma once

#include <cstdint>
#include <string_view>

namespace wire {

// Where. Numbers are append-only. "Occurrence" is what a trigger counts.
enum class FaultPoint : std::uint16_t {
  None = 0,
  Dispatcher = 1,     // an iteration of hart 0's loop
  DmaStep = 2,        // a step of a transfer
  RegionEntry = 3,    // a granted region's table entry is looked up
  Heartbeat = 4,      // a beat is due
  Firmware = 5,       // an iteration of hart 0's loop: it breaks itself
  Completion = 6,     // a completion is published
  AdminReply = 7,     // the reply of an executed admin command is published
  Doorbell = 8,       // a doorbell to the host
  FunctionReset = 9,  // a function's reset has stopped everything and would go on
  FirmwareHart = 10,  // a slice on a core: the hart itself, in firmware code
  Kernel = 20,        // a slice of a kernel
  KernelResult = 21,  // a part of a launch has ended by itself
  Array = 22,         // the compute array is about to execute a request of a kernel
  Memory = 30,        // a transfer or a kernel's slice touches the place (region, offset); armed for a place
};

enum class FaultAction : std::uint16_t {
  None = 0,
  Stall = 1,            // nothing moves for `argument` device ticks; 0: until it is reset
  Abort = 2,            // ends FAULT
  Corrupt = 3,          // the byte at `argument` (modulo what there is) is inverted
  Slow = 4,             // takes `argument` times as long
  Suppress = 5,         // does not happen
  Duplicate = 6,        // happens twice
  Trap = 7,             // an access to an address that does not exist
  Assert = 8,           // a failed assertion
  StackOverflow = 9,    // recursion without end
  Hang = 10,            // an endless loop
  Illegal = 11,         // an illegal instruction
  Stray = 12,           // a load outside of every region
  FlipScratchpad = 13,  // the bit `argument` of the core's scratchpad is inverted
  Corrected = 14,       // an error that the memory corrects: counted, reported, the data is right
  Uncorrectable = 15,   // one that it can not: the unit ends FAULT, the granule is retired when its region goes
  FlipSegment = 16,     // the bit `argument` of the launch's segment `segment`, in device memory, is inverted
  FlipResult = 17,      // the bit `argument` of what the array has made (modulo what there is) is inverted
  Refuse = 18,          // the array says that it has not what it was asked for
};

constexpr std::string_view name(FaultPoint point) {
  switch (point) {
    case FaultPoint::None: return "none";
    case FaultPoint::Dispatcher: return "dispatcher";
    case FaultPoint::DmaStep: return "dma-step";
    case FaultPoint::RegionEntry: return "region-entry";
    case FaultPoint::Heartbeat: return "heartbeat";
    case FaultPoint::Firmware: return "firmware";
    case FaultPoint::Completion: return "completion";
    case FaultPoint::AdminReply: return "admin-reply";
    case FaultPoint::Doorbell: return "bell";
    case FaultPoint::FunctionReset: return "function-reset";
    case FaultPoint::FirmwareHart: return "firmware-hart";
    case FaultPoint::Kernel: return "kernel";
    case FaultPoint::KernelResult: return "kernel-result";
    case FaultPoint::Array: return "array";
    case FaultPoint::Memory: return "memory";
  }
  return "unknown fault point";
}

constexpr std::string_view name(FaultAction action) {
  switch (action) {
    case FaultAction::None: return "none";
    case FaultAction::Stall: return "stall";
    case FaultAction::Abort: return "abort";
    case FaultAction::Corrupt: return "corrupt";
    case FaultAction::Slow: return "slow";
    case FaultAction::Suppress: return "suppress";
    case FaultAction::Duplicate: return "duplicate";
    case FaultAction::Trap: return "trap";
    case FaultAction::Assert: return "assert";
    case FaultAction::StackOverflow: return "stack-overflow";
    case FaultAction::Hang: return "hang";
    case FaultAction::Illegal: return "illegal";
    case FaultAction::Stray: return "stray";
    case FaultAction::FlipScratchpad: return "flip-scratchpad";
    case FaultAction::Corrected: return "corrected";
    case FaultAction::Uncorrectable: return "uncorrectable";
    case FaultAction::FlipSegment: return "flip-segment";
    case FaultAction::FlipResult: return "flip-result";
    case FaultAction::Refuse: return "refuse";
  }
  return "unknown fault action";
}

// Pairs that make sense. Both sides ask this one table: a script is refused when it is loaded, a command when it comes.
constexpr bool makes_sense(FaultPoint point, FaultAction action) {
  using A = FaultAction;
  switch (point) {
    case FaultPoint::Dispatcher: return action == A::Stall;
    case FaultPoint::DmaStep:
      return action == A::Stall || action == A::Abort || action == A::Corrupt || action == A::Slow;
    case FaultPoint::RegionEntry: return action == A::Corrupt;
    case FaultPoint::Heartbeat: return action == A::Suppress;
    case FaultPoint::Firmware: return action == A::Trap || action == A::Assert || action == A::StackOverflow;
    case FaultPoint::Completion: return action == A::Suppress || action == A::Duplicate || action == A::Corrupt;
    case FaultPoint::AdminReply: return action == A::Suppress;
    case FaultPoint::Doorbell: return action == A::Suppress || action == A::Duplicate;
    case FaultPoint::FunctionReset: return action == A::Stall;
    case FaultPoint::FirmwareHart: return action == A::Trap || action == A::Stall;
    case FaultPoint::Kernel:
      return action == A::Hang || action == A::Slow || action == A::Illegal || action == A::Stray ||
             action == A::FlipScratchpad || action == A::FlipSegment;
    case FaultPoint::KernelResult: return action == A::Corrupt;
    case FaultPoint::Array: return action == A::FlipResult || action == A::Refuse || action == A::Uncorrectable;
    case FaultPoint::Memory: return action == A::Corrected || action == A::Uncorrectable;
    case FaultPoint::None: break;
  }
  return false;
}

enum class FaultOperation : std::uint16_t {
  Arm = 0,        // into row `fault`, which must be free
  Query = 1,      // row `fault`: the evidence
  Disarm = 2,     // row `fault`: the reply holds its last evidence
  DisarmAll = 3,  // rows are also empty after every boot of the firmware
};

inline constexpr std::uint32_t kFaultRows = 16;
inline constexpr std::uint32_t kAnyStream = ~std::uint32_t{0};
inline constexpr std::uint32_t kAnyFunction = ~std::uint32_t{0};
inline constexpr std::uint32_t kAnyOpcode = ~std::uint32_t{0};
inline constexpr std::uint32_t kAnyCore = ~std::uint32_t{0};
inline constexpr std::uint32_t kAnyProgress = ~std::uint32_t{0};  // also a kernel that says nothing of it
inline constexpr std::uint32_t kSomeProgress = kAnyProgress - 1;  // whatever the kernel says that it is at

// When a fault fires. Of the occurrences of its point, those count that match function, stream, opcode, sequence, core
// and progress and do not come before `not_before`. Of those that count, number `first` fires, and then every
// `every`-th, `shots` times in all. The card, the driver and the emulator carry out faults by this rule: next_firing().
//
// With `waiting` a slice that fires is held until so many other cores of its launch wait at the barrier. Meanwhile it
// takes nothing of its budget, and no other occurrence counts. Where so many can not come any more, or another fault
// holds a core of the same launch, it is no occurrence.
struct FaultTrigger {
  std::uint32_t function;    // Target (shared/admin.hpp: 0 M, 1 PF, 1 + n VF n), or kAnyFunction
  std::uint32_t stream;      // or kAnyStream; where the point has one
  std::uint32_t opcode;      // or kAnyOpcode; where the point has one
  std::uint32_t progress;    // Kernel, Array: what the kernel is at (kernel_abi.hpp), kSomeProgress or kAnyProgress
  std::uint32_t core;        // or kAnyCore; FirmwareHart, Kernel, KernelResult, Array
  std::uint32_t waiting;     // Kernel: other cores of the launch that have to wait at the barrier; 0: none
  std::uint64_t sequence;    // of the block; 0: any
  std::uint64_t first;       // from 1
  std::uint64_t every;       // 0: never again after the first
  std::uint64_t shots;       // 0: no limit
  std::uint64_t not_before;  // device ticks; of the card's clock, or since the driver's faults began
};
static_assert(sizeof(FaultTrigger) == 64);

// Any occurrence: number `first`, and so on.
constexpr FaultTrigger occurrences(std::uint64_t first = 1, std::uint64_t every = 0, std::uint64_t shots = 1) {
  return {kAnyFunction, kAnyStream, kAnyOpcode, kAnyProgress, kAnyCore, 0, 0, first, every, shots, 0};
}

// Number of the occurrence that fires next, when `fired` have; 0: none will.
constexpr std::uint64_t next_firing(const FaultTrigger& trigger, std::uint64_t fired) {
  if (trigger.shots != 0 && fired >= trigger.shots) return 0;
  if (fired != 0 && trigger.every == 0) return 0;
  return trigger.first + fired * trigger.every;
}

// Whether an occurrence of these is one that counts; of time nothing is said.
constexpr bool matches(const FaultTrigger& trigger, std::uint32_t function, std::uint32_t stream, std::uint32_t opcode,
                       std::uint64_t sequence) {
  return (trigger.function == kAnyFunction || trigger.function == function) &&
         (trigger.stream == kAnyStream || trigger.stream == stream) &&
         (trigger.opcode == kAnyOpcode || trigger.opcode == opcode) &&
         (trigger.sequence == 0 || trigger.sequence == sequence);
}

// Conditions of a slice. `progress` is kAnyProgress where the kernel says nothing.
constexpr bool matches_slice(const FaultTrigger& trigger, std::uint32_t core, std::uint32_t progress) {
  if (trigger.core != kAnyCore && trigger.core != core) return false;
  if (trigger.progress == kAnyProgress) return true;
  return trigger.progress == kSomeProgress ? progress != kAnyProgress : trigger.progress == progress;
}

// Which points know these conditions; elsewhere they are refused.
constexpr bool knows_core(FaultPoint point) {
  return point == FaultPoint::FirmwareHart || point == FaultPoint::Kernel || point == FaultPoint::KernelResult ||
         point == FaultPoint::Array;
}
constexpr bool knows_progress(FaultPoint point) { return point == FaultPoint::Kernel || point == FaultPoint::Array; }
constexpr bool knows_waiting(FaultPoint point) { return point == FaultPoint::Kernel; }

struct FaultSpec {
  FaultOperation operation;
  FaultPoint point;
  FaultAction action;
  std::uint16_t segment;    // FlipSegment: row of the block's segment table; else 0
  std::uint32_t fault;      // row, below kFaultRows
  std::uint32_t reserved1;  // 0
  FaultTrigger trigger;
  std::uint64_t argument;   // what the action says
  std::uint64_t region_id;  // Memory, RegionEntry (0 there: any)
  std::uint64_t offset;     // Memory: bytes in the region
};
static_assert(sizeof(FaultSpec) == 104);

struct FaultEvidence {
  std::uint64_t counted;  // occurrences that matched
  std::uint64_t fired;
  std::uint64_t first_time;  // device ticks; 0: never
  std::uint64_t last_time;
  std::uint32_t function;  // Target of the last one
  std::uint32_t stream;    // of the last one; kAnyStream where the point has none
  std::uint64_t sequence;  // likewise; 0
  std::uint32_t hart;
  std::uint32_t armed;     // 1: may still fire
  std::uint32_t progress;  // Kernel, Array: what the kernel was at, the last time; kAnyProgress: it did not say
  std::uint32_t waiting;   // Kernel: cores of the launch that waited at the barrier, the last time
};
static_assert(sizeof(FaultEvidence) == 64);

}  // namespace wire
