// SPDX-License-Identifier: Apache-2.0
// Admin commands (queue 0): one stick of request, one stick of reply; and device events (queue 2), one stick each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shared/command_buffer.hpp"
#include "shared/control_block.hpp"
#include "shared/fault.hpp"
#include "shared/outcome.hpp"
#include "shared/units.hpp"

namespace wire {

// Numbers are append-only. Commands that are not built yet keep their number and end REJECTED "unsupported".
enum class AdminCommand : std::uint16_t {
  RegionAcquire = 1,
  RegionRelease = 2,
  StreamOpen = 3,
  StreamReset = 4,
  StreamClose = 5,
  Cancel = 6,
  TimelineCreate = 7,
  Query = 8,
  Stats = 9,
  FunctionReset = 10,
  SelfTest = 11,
  FaultArm = 12,
  SlotBind = 13,
  SlotRetire = 14,
  QuotaSet = 15,
  FunctionQuery = 16,
  FirmwareRestart = 17,
  Trace = 18,
  BufferCreate = 19,
  BufferDestroy = 20,
  EventGrant = 21,
  EventRevoke = 22,
};

inline constexpr AdminCommand kLastAdminCommand = AdminCommand::EventRevoke;

constexpr std::string_view name(AdminCommand command) {
  switch (command) {
    case AdminCommand::RegionAcquire: return "REGION_ACQUIRE";
    case AdminCommand::RegionRelease: return "REGION_RELEASE";
    case AdminCommand::StreamOpen: return "STREAM_OPEN";
    case AdminCommand::StreamReset: return "STREAM_RESET";
    case AdminCommand::StreamClose: return "STREAM_CLOSE";
    case AdminCommand::Cancel: return "CANCEL";
    case AdminCommand::TimelineCreate: return "TIMELINE_CREATE";
    case AdminCommand::Query: return "QUERY";
    case AdminCommand::Stats: return "STATS";
    case AdminCommand::FunctionReset: return "FUNCTION_RESET";
    case AdminCommand::SelfTest: return "SELFTEST";
    case AdminCommand::FaultArm: return "FAULT_ARM";
    case AdminCommand::SlotBind: return "SLOT_BIND";
    case AdminCommand::SlotRetire: return "SLOT_RETIRE";
    case AdminCommand::QuotaSet: return "QUOTA_SET";
    case AdminCommand::FunctionQuery: return "FUNCTION_QUERY";
    case AdminCommand::FirmwareRestart: return "FIRMWARE_RESTART";
    case AdminCommand::Trace: return "TRACE";
    case AdminCommand::BufferCreate: return "BUFFER_CREATE";
    case AdminCommand::BufferDestroy: return "BUFFER_DESTROY";
    case AdminCommand::EventGrant: return "EVENT_GRANT";
    case AdminCommand::EventRevoke: return "EVENT_REVOKE";
  }
  return "unknown admin command";
}

// Which function a command is about. The caller itself needs no privilege; others need M, or the PF where the table of
// rights says so (docs/protocol.md, "Admin commands").
using Target = std::uint32_t;
inline constexpr Target kTargetSelf = 0;
inline constexpr Target kTargetPhysical = 1;
constexpr Target target_of_virtual(std::uint32_t number) { return kTargetPhysical + number; }  // from 1

// Where a function stands, as FUNCTION_QUERY tells it.
enum class FunctionState : std::uint32_t {
  Unbound = 0,    // no slot: nobody can reach it until SLOT_BIND
  Idle = 1,       // bound, no driver
  Running = 2,    // a driver set DRIVER_OK
  Resetting = 3,  // stopping what ran
};

constexpr std::string_view name(FunctionState state) {
  switch (state) {
    case FunctionState::Unbound: return "unbound";
    case FunctionState::Idle: return "idle";
    case FunctionState::Running: return "running";
    case FunctionState::Resetting: return "resetting";
  }
  return "unknown state";
}

// Self-tests measure the card from inside, for benchmarks that want the limit and the real thing in the same run. They
// hold hart 0 for at most kSelfTestTicks (timeouts.hpp); PF only.
enum class SelfTestKind : std::uint32_t {
  Echo = 0,       // copies a word from host memory at `offset` to `offset` + 128 whenever it changes, `rounds` times
  EnterExit = 1,  // enters U-mode and leaves it by the exit call, `rounds` times
  Switch = 2,     // the same in two address spaces in turn, so that all translations are dropped each time
};

// Peer ids of a doorbell device. The card is peer 1; the host is peer 0 until the slot's first owner has gone, and gets
// an id that was never used before for each owner after it.
inline constexpr std::uint32_t kBootPeer = 0;
inline constexpr std::uint32_t kCardPeer = 1;
inline constexpr std::uint32_t kLastPeer = 65'535;

inline constexpr std::uint32_t kMaxWeight = 8;

inline constexpr std::uint32_t kAdminMagic = 0x44415953;  // "SYAD"

// Regions have a type for good (protocol §6): Program regions have no data mapping in any launch.
enum class RegionType : std::uint32_t { Tensor = 0, Program = 1 };

struct AdminRequest {
  std::uint32_t magic;
  AdminCommand command;
  std::uint16_t flags;  // none defined
  std::uint64_t generation;
  std::uint64_t cookie;
  union Arguments {
    std::uint64_t words[13];
    struct {
      std::uint64_t bytes;  // granule-aligned up by the card; at most 16 GiB
      RegionType type;
    } region_acquire;
    struct {
      std::uint64_t region_id;
      std::uint32_t generation;
    } region_release;
    struct {
      std::uint32_t priority;  // 0 low, 1 high
    } stream_open;
    struct {
      std::uint32_t stream;
      std::uint32_t incarnation;
    } stream;  // reset, close
    struct {
      SelfTestKind kind;
      std::uint32_t rounds;
      std::uint64_t offset;  // Echo: in the window, stick-aligned
    } self_test;
    struct {
      Target target;
      std::uint32_t slot;  // SLOT_BIND only
    } function;            // FUNCTION_RESET, SLOT_BIND, SLOT_RETIRE, FUNCTION_QUERY, STATS
    struct {
      Target target;
      std::uint32_t slot;
      // Of a renewable slot; a fixed one brings its own doorbell device and is bound once: these are 0.
      std::uint32_t serial;    // of the window: larger than any that was bound in this slot before
      std::uint32_t doorbell;  // the fixed slot whose doorbell device serves the function
      std::uint32_t peer;      // the owner's peer id at that device
    } bind;                    // SLOT_BIND; begins as `function`
    struct {
      Target target;
      std::uint32_t weight;  // share of hart 0's quanta against other busy functions, 1 … kMaxWeight; 0: as it is
      std::uint64_t bytes;   // of regions held at a time; whole granules; 0: no quota
    } quota;
    struct {
      std::uint32_t stream;
      std::uint32_t incarnation;
      std::uint64_t sequence;  // of the block
    } cancel;
    struct {
      std::uint32_t on;  // 1: the ring (trace.hpp) is empty and written from now on; 0: written no more
    } trace;             // TRACE; of the caller
    struct {
      std::uint64_t offset;      // of the blocks in the window's host memory, stick-aligned
      std::uint32_t blocks;      // 1 … kMaxBufferBlocks
      std::uint32_t data_bytes;  // behind them; whole sticks, at most kMaxBufferDataBytes
    } buffer_create;
    struct {
      std::uint32_t buffer;
      std::uint32_t reserved;
      std::uint64_t epoch;
    } buffer_destroy;
    struct {
      Target owner;  // whose timeline it is
      Target grantee;
      std::uint32_t stream;  // of the owner: not closed
      // Of that stream, since it was opened: when it was closed and opened again since, it is another timeline.
      std::uint32_t incarnation;
      std::uint64_t owner_generation;  // of the functions: who asked M, and not who has the function now
      std::uint64_t grantee_generation;
    } event_grant;  // EVENT_GRANT; M only. The same grant again is the same one
    struct {
      Target grantee;
      std::uint32_t grant;
      std::uint64_t epoch;
    } event_revoke;   // EVENT_REVOKE; M only
    FaultSpec fault;  // FAULT_ARM; M only
  } arguments;
};
static_assert(sizeof(AdminRequest) == kStickBytes);

struct AdminReply {
  Outcome outcome;
  std::uint8_t reserved0;
  Status status;
  Field field;
  std::uint16_t reserved1;
  std::uint64_t cookie;
  union Values {
    std::uint64_t words[14];
    struct {
      std::uint64_t region_id;
      std::uint64_t bytes;
      std::uint32_t generation;
      std::uint32_t ordinal;
      std::uint64_t free_bytes;  // for this function, now; also filled on OutOfDeviceMemory
      std::uint64_t largest_bytes;
      std::uint64_t total_bytes;        // the most that it can hold: its share and what nobody is guaranteed
      std::uint64_t share_bytes;        // of it: guaranteed, whatever others do
      std::uint64_t quarantined_bytes;  // that it released and that are not clean yet: they count against its quota
      // QUERY of M only, 0 in every other reply: what all functions of the card hold now.
      std::uint64_t launches;     // begun and not collected
      std::uint64_t streams;      // not closed; stream 0 of each function is not counted
      std::uint64_t arena_pages;  // of firmware memory for kernels, 4 KiB each, page tables included …
      std::uint64_t table_pages;  // … and the page tables alone
      // QUERY of anybody: device time at which the card answered.
      std::uint64_t time;
      // Likewise: the version of the compute array (array.hpp); 0: the card has none.
      std::uint32_t array_version;
    } region;
    struct {
      std::uint32_t stream;
      std::uint32_t incarnation;
    } stream;
    struct {
      std::uint64_t rounds;  // done; fewer than asked for when the time was over
      std::uint64_t ticks;   // that they took
    } self_test;
    struct {  // Stats: counted by the card since the function's last reset
      std::uint64_t completed;
      std::uint64_t rejected;
      std::uint64_t failed;
      std::uint64_t aborted;
      std::uint64_t bytes_to_device;
      std::uint64_t bytes_from_device;
      std::uint64_t bytes_on_device;  // device to device, and FILL
      std::uint64_t launches;
      std::uint64_t kernel_ticks;
      std::uint64_t doorbells_signalled;
      std::uint64_t sleeps;              // of hart 0, whole card
      std::uint64_t dirty_granules;      // of the memory that the function holds
      std::uint64_t populated_granules;  // whole card
      std::uint64_t ring_violations;
    } stats;
    struct {  // FUNCTION_RESET, SLOT_BIND, SLOT_RETIRE, QUOTA_SET, FUNCTION_QUERY: the target as it is now
      FunctionState state;
      std::uint32_t slot;  // bound to it, or last bound
      std::uint64_t generation;
      std::uint64_t quota_bytes;    // 0: none
      std::uint64_t granted_bytes;  // regions held
      std::uint64_t violations;   // attempts that were refused or stopped since it was bound; never reset by its owner
      std::uint64_t resets;       // completed, since boot
      std::uint64_t stop_ticks;   // of the last reset: from its begin until nothing of the old owner ran
      std::uint64_t scrub_bytes;  // whole card: released memory that is not clean yet
      std::uint32_t weight;
      std::uint32_t serial;            // of the window in `slot`; 0: a fixed slot's
      std::uint64_t corrected_errors;  // whole card: of memory, since boot
      std::uint64_t retired_granules;  // whole card: never granted again until power-on
      // What others were given while the target waited for its quantum: the most at a time since its last reset. Quanta
      // and bytes are hart 0's, slices any core's (docs/protocol.md, "Fairness").
      std::uint64_t waited_quanta;
      std::uint64_t waited_bytes;
      std::uint64_t waited_slices;
    } function;
    FaultEvidence fault;  // FAULT_ARM: of the row, after the operation
    struct {              // BUFFER_CREATE
      std::uint32_t buffer;
      std::uint32_t block;     // refused for a block of it: which one …
      std::uint64_t epoch;     // never used twice, whatever is reset
      std::uint64_t argument;  // … and as Completion::fault.argument
    } buffer;
    struct {
      std::uint32_t grant;  // of the grantee: below kGrantsPerFunction
      std::uint32_t reserved;
      std::uint64_t epoch;  // never used again for this grantee
    } event_grant;          // EVENT_GRANT
  } values;
};
static_assert(sizeof(AdminReply) == kStickBytes);

enum class EventKind : std::uint32_t {
  None = 0,
  StreamPoisoned = 1,
  RingViolation = 2,  // chains that carry nothing: once a heartbeat. `argument`: how many since the function's reset
  FunctionViolation =
      3,  // to M only: a function did what it may not. `target`; `status` of the last; `argument`: how many
  WatchdogWarning = 4,  // a kernel has used half of what the watchdog gives it. `argument`: slices
  MemoryCorrected = 5,  // to the function and to M: `argument`: how many since boot
  MemoryRetired = 6,    // likewise: a granule will not be granted again. `argument`: how many since boot
  StreamBanned = 7,     // its last time-out (boot word strikes): refused until the function is reset
};

constexpr std::string_view name(EventKind kind) {
  switch (kind) {
    case EventKind::None: return "none";
    case EventKind::StreamPoisoned: return "stream poisoned";
    case EventKind::RingViolation: return "ring violation";
    case EventKind::FunctionViolation: return "function violation";
    case EventKind::WatchdogWarning: return "watchdog warning";
    case EventKind::MemoryCorrected: return "memory error corrected";
    case EventKind::MemoryRetired: return "memory retired";
    case EventKind::StreamBanned: return "stream banned";
  }
  return "unknown event";
}

struct DeviceEvent {
  EventKind kind;
  std::uint32_t stream;
  std::uint32_t incarnation;
  Status status;
  std::uint16_t reserved0;
  std::uint64_t time;
  std::uint64_t argument;
  Target target;  // FunctionViolation only
  std::uint32_t reserved1;
  std::uint64_t reserved[11];
};
static_assert(sizeof(DeviceEvent) == kStickBytes);

}  // namespace wire
