// SPDX-License-Identifier: Apache-2.0
// The shared window of a function: one fixed map for a given window size, so that neither side ever trusts an offset
// that the other one wrote. The header's table repeats it for tools and people (advisory; protocol §2).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shared/packed_ring.hpp"
#include "shared/units.hpp"
#include "shared/virtio.hpp"

namespace wire {

inline constexpr std::uint64_t kDefaultWindowBytes = 256 * kMiB;
inline constexpr std::uint64_t kMinWindowBytes = 2 * kMiB;
inline constexpr std::uint64_t kMaxWindowBytes = 4 * kGiB;

struct Block {
  std::uint64_t offset;
  std::uint64_t bytes;

  constexpr std::uint64_t end() const { return offset + bytes; }
  constexpr bool contains(std::uint64_t at, std::uint64_t size) const {
    return at >= offset && range_inside(at - offset, size, bytes);
  }
};

inline constexpr unsigned kStreamsPerFunction = 128;  // ids 0 … 127; 0 is open from the start
inline constexpr std::uint32_t kControlBlockSlotBytes = 4 * kStickBytes;
inline constexpr std::uint32_t kControlBlockSlots = 512;
inline constexpr std::uint16_t kControlBlockQueueSize = 1024;  // a chain of two per control block
inline constexpr std::uint16_t kAdminQueueSize = 64;
inline constexpr std::uint16_t kAdminSlots = kAdminQueueSize / 2;
inline constexpr std::uint16_t kEventQueueSize = 64;

// One stream may hold at most a quarter of the ring (protocol §4); the driver keeps credits.
inline constexpr std::uint32_t kStreamCredits = kControlBlockSlots / 4;

inline constexpr Block kHeaderBlock{0, 4 * kKiB};
inline constexpr Block kFifoToCard{4 * kKiB, 4 * kKiB};  // written by the host
inline constexpr Block kFifoToHost{8 * kKiB, 4 * kKiB};  // written by the card
inline constexpr Block kQueueBlock{16 * kKiB, 48 * kKiB};
inline constexpr Block kControlBlocks{64 * kKiB, std::uint64_t{kControlBlockSlots} * kControlBlockSlotBytes};
inline constexpr Block kCompletions{320 * kKiB, std::uint64_t{kControlBlockSlots} * kStickBytes};
inline constexpr Block kStartedSequences{384 * kKiB, std::uint64_t{kStreamsPerFunction} * 8};
inline constexpr Block kAdminRequests{388 * kKiB, std::uint64_t{kAdminSlots} * kStickBytes};
inline constexpr Block kAdminReplies{392 * kKiB, std::uint64_t{kAdminSlots} * kStickBytes};
inline constexpr Block kEvents{396 * kKiB, std::uint64_t{kEventQueueSize} * kStickBytes};
inline constexpr Block kFatalRecord{404 * kKiB, 40 * kKiB};  // management function only: WindowHeader::record_bytes
inline constexpr Block kTraceRing{448 * kKiB, 512 * kKiB};   // trace.hpp
// Kept free: neither side reads or writes it, and no header names it.
inline constexpr Block kReservedBlock{960 * kKiB, 64 * kKiB};
inline constexpr std::uint64_t kHostMemoryOffset = 1 * kMiB;

static_assert(kControlBlocks.end() <= kCompletions.offset && kCompletions.end() <= kStartedSequences.offset);
static_assert(kStartedSequences.end() <= kAdminRequests.offset && kAdminRequests.end() <= kAdminReplies.offset);
static_assert(kAdminReplies.end() <= kEvents.offset && kEvents.end() <= kFatalRecord.offset);
static_assert(kFatalRecord.end() <= kTraceRing.offset && kTraceRing.end() == kReservedBlock.offset);
static_assert(kReservedBlock.end() == kHostMemoryOffset && kHostMemoryOffset < kMinWindowBytes);

// What DMA may reach: everything behind the fixed blocks.
constexpr Block host_memory(std::uint64_t window_bytes) {
  return {kHostMemoryOffset, window_bytes - kHostMemoryOffset};
}

// Where a queue's rings lie. Descriptor ring, driver area (host writes) and device area (card writes) are on lines of
// their own.
struct QueueLayout {
  std::uint16_t size;
  std::uint64_t descriptors;
  std::uint64_t driver_area;
  std::uint64_t device_area;
};
inline constexpr std::array<QueueLayout, kQueueCount> kQueueLayouts{{
    {kAdminQueueSize, 16 * kKiB, 18 * kKiB, 18 * kKiB + kStickBytes},
    {kControlBlockQueueSize, 32 * kKiB, 48 * kKiB, 48 * kKiB + kStickBytes},
    {kEventQueueSize, 20 * kKiB, 22 * kKiB, 22 * kKiB + kStickBytes},
}};
static_assert(kQueueLayouts[kControlBlockQueue].descriptors + kControlBlockQueueSize * sizeof(Descriptor) <=
              kQueueLayouts[kControlBlockQueue].driver_area);

// ---- header, written by the card only -------------------------------------------------------------------------------

inline constexpr std::uint64_t kWindowMagic = 0x3157444E49575953;  // "SYWINDW1"; stored last, with release

enum class FunctionKind : std::uint32_t { Management = 0, Physical = 1, Virtual = 2, Unbound = 3 };

constexpr std::string_view name(FunctionKind kind) {
  switch (kind) {
    case FunctionKind::Management: return "M";
    case FunctionKind::Physical: return "PF";
    case FunctionKind::Virtual: return "VF";
    case FunctionKind::Unbound: return "unbound";
  }
  return "unknown";
}

struct WindowHeader {
  std::uint64_t magic;
  std::uint32_t abi_version;
  FunctionKind kind;
  std::uint32_t function_index;  // VF number from 1; 0 for M and PF
  std::uint32_t slot;
  std::uint64_t generation;
  std::uint64_t boot_epoch;
  std::uint64_t window_bytes;
  std::uint8_t reserved0[80];
  // second line: changes while the card runs
  std::uint64_t heartbeat;  // increments at least every kHeartbeatTicks (timeouts.hpp) while the card is alive
  std::uint32_t post_code;
  std::uint32_t device_status;
  std::uint64_t events_lost;   // device events that found no buffer (protocol §4)
  std::uint64_t record_bytes;  // of the record that an earlier boot of the firmware left (kFatalRecord); 0: none
  std::uint64_t array_nonce;   // not 0 while the compute array looks for the window (array_moves.hpp)
  std::uint8_t reserved1[88];
  struct NamedBlock {
    char name[16];
    Block block;
  } blocks[16];  // advisory
};
static_assert(offsetof(WindowHeader, heartbeat) == kStickBytes);
static_assert(sizeof(WindowHeader) == 2 * kStickBytes + 16 * 32 && sizeof(WindowHeader) <= 4 * kKiB);

}  // namespace wire
