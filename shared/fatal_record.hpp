// SPDX-License-Identifier: Apache-2.0
// What a firmware that found itself broken leaves behind. It lies in memory that survives a warm reset; the next boot
// shows it in M's window (kFatalRecord), and whoever owns the emulator can read it out of guest memory while the card
// is still stopped. It holds addresses and registers of the firmware: M only, never in an error's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shared/crc32c.hpp"

namespace wire {

inline constexpr std::uint64_t kFatalRecordMagic = 0x3243455241464153;  // "SAFAREC2"
inline constexpr std::uint32_t kFatalRecordVersion = 2;
inline constexpr std::uint64_t kFatalRecordAddress = 0x8200'0080;  // in the card's memory
inline constexpr unsigned kRecordedHarts = 64;
inline constexpr unsigned kRecordedEvents = 64;
inline constexpr unsigned kRecordedStackWords = 256;
inline constexpr std::uint64_t kNoCause = ~std::uint64_t{0};

enum class FatalKind : std::uint32_t {
  None = 0,
  Trap = 1,           // a trap in firmware code
  Assertion = 2,      // hal::panic, assert, hardened library
  StackOverflow = 3,  // a hart's stack met its guard
  Watchdog = 4,       // hart 0's loop stood still, another hart noticed
};

constexpr std::string_view name(FatalKind kind) {
  switch (kind) {
    case FatalKind::None: return "none";
    case FatalKind::Trap: return "trap";
    case FatalKind::Assertion: return "assertion";
    case FatalKind::StackOverflow: return "stack overflow";
    case FatalKind::Watchdog: return "watchdog";
  }
  return "unknown";
}

// What a hart was doing, and its registers where it could still be asked.
enum class HartState : std::uint32_t {
  Unknown = 0,   // did not answer in time: registers are zero
  Source = 1,    // recorded itself
  Firmware = 2,  // stopped in firmware code
  Kernel = 3,    // was in a kernel: registers are the kernel's
  Asleep = 4,
  Absent = 5,  // the card has fewer harts
};

// The step that a hart took last; hart 0's loop and every core's slice mark theirs with one store.
enum class Waypoint : std::uint32_t {
  None = 0,
  Boot = 1,
  Control = 2,
  Admin = 3,
  Fetch = 4,
  Dispatch = 5,
  Dma = 6,
  Slice = 7,
  Collect = 8,
  Reset = 9,
  Scrub = 10,
  Sleep = 11,
  Beat = 12,
};

constexpr std::string_view name(Waypoint waypoint) {
  switch (waypoint) {
    case Waypoint::None: return "none";
    case Waypoint::Boot: return "boot";
    case Waypoint::Control: return "control messages";
    case Waypoint::Admin: return "admin commands";
    case Waypoint::Fetch: return "fetching control blocks";
    case Waypoint::Dispatch: return "dispatching";
    case Waypoint::Dma: return "DMA";
    case Waypoint::Slice: return "kernel slice";
    case Waypoint::Collect: return "collecting launches";
    case Waypoint::Reset: return "reset";
    case Waypoint::Scrub: return "scrub";
    case Waypoint::Sleep: return "asleep";
    case Waypoint::Beat: return "heartbeat";
  }
  return "unknown waypoint";
}

// The last things that happened on the card, oldest first when read from `next_event`.
enum class RecordedEventKind : std::uint32_t {
  None = 0,
  Post = 1,            // a: POST code
  AdminCommand = 2,    // a: command, b: function
  StreamPoisoned = 3,  // a: stream, b: function | status << 32
  FunctionReset = 4,   // a: function, b: generation
  Launch = 5,          // a: stream, b: function
  Violation = 6,       // a: function, b: status
  FaultFired = 7,      // a: point, b: action
  StateChanged = 8,    // a: RecordedChange (shared/recorded_states.hpp), b: function | stream << 32
};

constexpr std::string_view name(RecordedEventKind kind) {
  switch (kind) {
    case RecordedEventKind::None: return "none";
    case RecordedEventKind::Post: return "POST";
    case RecordedEventKind::AdminCommand: return "admin command";
    case RecordedEventKind::StreamPoisoned: return "stream poisoned";
    case RecordedEventKind::FunctionReset: return "function reset";
    case RecordedEventKind::Launch: return "launch";
    case RecordedEventKind::Violation: return "violation";
    case RecordedEventKind::FaultFired: return "fault fired";
    case RecordedEventKind::StateChanged: return "state changed";
  }
  return "unknown event";
}

struct RecordedEvent {
  std::uint64_t time;  // device ticks
  RecordedEventKind kind;
  std::uint32_t a;
  std::uint64_t b;
};
static_assert(sizeof(RecordedEvent) == 24);

struct RecordedHart {
  HartState state;
  Waypoint waypoint;
  std::uint64_t pc;
  std::uint64_t status;  // mstatus
  std::uint64_t cause;   // mcause; kNoCause: none
  std::uint64_t value;   // mtval
  std::uint64_t x[32];   // integer registers; x[0] is zero
};
static_assert(sizeof(RecordedHart) == 296);

// Valid when magic, version, bytes and CRC match.
struct FatalRecord {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t bytes;
  std::uint32_t crc32c;  // over the record with this field zero
  FatalKind kind;
  std::uint64_t boot_epoch;  // of the boot that ended
  std::uint64_t time;        // device ticks
  std::uint32_t source;      // hart
  std::uint32_t hart_count;
  std::uint64_t waiting_for;  // bit h: hart h did not answer in time
  std::uint32_t next_event;   // index of the oldest
  std::uint32_t reserved0;
  std::uint8_t build_id[24];  // of the firmware's ELF file (.note.gnu.build-id), zero-padded
  char reason[128];
  RecordedEvent events[kRecordedEvents];
  RecordedHart harts[kRecordedHarts];
  std::uint64_t source_stack[kRecordedStackWords];  // upwards from the source's sp; zero behind its stack's end
};
static_assert(offsetof(FatalRecord, reason) == 88 && sizeof(FatalRecord) == 216 + 64 * 24 + 64 * 296 + 256 * 8);

inline std::uint32_t checksum(const FatalRecord& record) {
  constexpr std::uint32_t kZero = 0;
  constexpr std::size_t kBehind = offsetof(FatalRecord, crc32c) + sizeof kZero;
  const std::uint32_t before = crc32c(0, &record, offsetof(FatalRecord, crc32c));
  const auto* rest = reinterpret_cast<const unsigned char*>(&record) + kBehind;
  return crc32c(crc32c(before, &kZero, sizeof kZero), rest, sizeof record - kBehind);
}

inline bool is_whole(const FatalRecord& record) {
  return record.magic == kFatalRecordMagic && record.version == kFatalRecordVersion && record.bytes == sizeof record &&
         record.crc32c == checksum(record);
}

}  // namespace wire
