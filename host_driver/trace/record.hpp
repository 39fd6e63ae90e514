// SPDX-License-Identifier: Apache-2.0
// What one entry of a trace says, and the file that holds them. A process writes its own file, which is mapped: what it
// recorded is there also when it was killed. Everything is in the machine's byte order; a file is read where it was
// written.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace svp::trace {

// Append-only.
enum class Kind : std::uint16_t {
  None = 0,  // not written: the process ended between taking the entry and writing it
  Card = 1,  // `card` is called `text` from here on
  // ---- intervals of a thread of the host
  Launch = 2,         // a call that enqueues; `launch`: the last one's number
  HostOperation = 3,  // computes a correction tensor of a launch
  HostFunction = 4,   // LaunchHost()
  Staging = 5,        // copies or converts `bytes` between the caller's memory and pinned memory
  Wait = 6,           // for a stream, an event or a copy
  Reset = 7,          // `text`: the reset level
  // ---- of the card
  Block = 8,              // a control block: `begin` sent, `end` found ended; the card's own times of its execution
  DoorbellToCard = 9,     // an instant
  DoorbellFromCard = 10,  // an instant
  CardQueued = 11,        // the card took block `sequence` from the ring at device_begin
  CardSlice = 12,         // core `core` ran block `sequence` from device_begin to device_end
  CardMark = 13,          // a kernel's mark, its value in `bytes`
  CardLost = 14,          // `bytes` entries of the card were overwritten before they were read
  CardAhead = 15,         // the card moved the `bytes` of block `sequence` while the one in front of it computed
  CardArray = 16,         // core `core` asked the compute array, for a request whose kind is in `bytes`
};
inline constexpr Kind kLastKind = Kind::CardArray;

constexpr std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::None: return "none";
    case Kind::Card: return "card";
    case Kind::Launch: return "launch";
    case Kind::HostOperation: return "host operation";
    case Kind::HostFunction: return "host function";
    case Kind::Staging: return "staging";
    case Kind::Wait: return "wait";
    case Kind::Reset: return "reset";
    case Kind::Block: return "block";
    case Kind::DoorbellToCard: return "doorbell to the card";
    case Kind::DoorbellFromCard: return "doorbell from the card";
    case Kind::CardQueued: return "queued";
    case Kind::CardSlice: return "slice";
    case Kind::CardMark: return "mark";
    case Kind::CardLost: return "lost";
    case Kind::CardAhead: return "moved ahead";
    case Kind::CardArray: return "array request";
  }
  return "unknown";
}

inline constexpr std::size_t kTextBytes = 40;
inline constexpr std::uint32_t kNoStream = ~std::uint32_t{0};

// Unused fields are zero. Times of the host: nanoseconds of CLOCK_MONOTONIC; of the card: device ticks
// (wire::kTicksPerSecond), 0: never.
struct Record {
  std::atomic<std::uint32_t> written{0};  // 1, stored last
  Kind kind = Kind::None;
  std::uint8_t opcode = 0;   // Block: wire::Opcode
  std::uint8_t outcome = 0;  // Block: wire::Outcome
  std::uint32_t thread = 0;  // of the host
  std::uint32_t stream = kNoStream;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // instants: as `begin`
  std::uint64_t device_begin = 0;
  std::uint64_t device_end = 0;
  std::uint64_t launch = 0;  // of the stream, from 1
  std::uint32_t tile = 0;
  std::uint32_t step = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::uint32_t card = 0;  // Recorder::card()
  std::uint16_t core = 0;
  std::uint16_t status = 0;    // Block: wire::Status
  char text[kTextBytes] = {};  // a kernel's name, …; ends with 0 when it is shorter
};
static_assert(sizeof(Record) == 128 && std::is_standard_layout_v<Record>);

inline constexpr std::uint64_t kFileMagic = 0x3145434152545953;  // "SYTRACE1"
inline constexpr std::uint32_t kFileVersion = 1;
inline constexpr std::size_t kFileHeaderBytes = 4096;
inline constexpr const char* kFileSuffix = ".spyretrace";

struct FileHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t record_bytes;
  std::uint64_t capacity;  // records behind the header
  std::uint32_t process;   // pid
  std::uint32_t reserved;
  char program[64];
  std::atomic<std::uint64_t> taken;  // records that were asked for: those beyond `capacity` are lost
};
static_assert(sizeof(FileHeader) <= kFileHeaderBytes);

}  // namespace svp::trace
