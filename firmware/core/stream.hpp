// SPDX-License-Identifier: Apache-2.0
// Streams of a function: FIFO queues of private copies of control blocks. In order inside a stream, any order across.
// After any outcome but OK a stream is poisoned: its later blocks end ABORTED until it is reset (protocol §5).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "firmware/core/image_check.hpp"
#include "firmware/core/states.hpp"
#include "shared/control_block.hpp"
#include "shared/window.hpp"

namespace fw {

inline constexpr std::uint16_t kNoBlock = 0xffff;
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};  // of device ticks

// Names one launch of Launches. A handle of a launch that has ended never names a later one.
using LaunchHandle = std::uint64_t;
inline constexpr LaunchHandle kNoLaunch = 0;

// Why a block must not run; Status::None = may run.
struct Verdict {
  wire::Status status = wire::Status::None;
  wire::Field field = wire::Field::None;
  std::uint64_t argument = 0;

  bool ok() const { return status == wire::Status::None; }
};

struct CommandBuffer;

// Where a CALL or PREPARED stands that has begun.
struct CallState {
  CommandBuffer* buffer;     // nullptr: no such block, or it has not begun. It does not go while this names it
  std::uint32_t index;       // the block that is next, or under way
  std::uint32_t judging;     // while the blocks are judged again: the one that is next. None of them has begun
  std::uint64_t judged_for;  // RegionTable::names_version() of the blocks before it, while they are judged again
  std::uint64_t signal_base;
  std::uint64_t start_time;  // of the first block; 0: none has started
  std::uint64_t bytes;       // moved by the blocks before this one
  std::uint64_t slices;      // taken by them
};

// A control block that the card accepted from the ring: the private copy and what is needed to give it back.
struct Block {
  wire::ControlBlock cb;
  std::uint64_t completion;  // window offset, checked
  std::uint64_t start_time;  // device ticks; 0 = not started
  std::uint64_t progress;    // bytes moved so far
  Verdict verdict;
  ImageCheck image;        // of a launch that has not started
  CallState call;          // `cb` then holds the block of the buffer that it has come to, with the call's own address
  std::uint64_t signals;   // the largest value of the timeline that it will signal; 0: none
  std::uint32_t checksum;  // of a transfer with wire::kDmaChecksum: over `progress` bytes
  std::uint32_t retries;   // of it, because what arrived was not what was sent
  bool moved_ahead;        // all of it, while another one was the head (wire::kDmaAhead)
  std::uint16_t chain_id;
  std::uint16_t chain_slots;
  std::uint16_t next;  // in its stream, or in the free list
};

// As many blocks as the ring can hold in flight, so that a well-formed chain always finds one.
class BlockPool {
 public:
  void init() {
    for (std::uint16_t i = 0; i < kBlocks; ++i) blocks_[i].next = i + 1 == kBlocks ? kNoBlock : i + 1;
    free_ = 0;
  }
  std::uint16_t take() {
    const std::uint16_t index = free_;
    if (index != kNoBlock) free_ = blocks_[index].next;
    return index;
  }
  void give(std::uint16_t index) {
    blocks_[index].next = free_;
    free_ = index;
  }
  bool empty() const { return free_ == kNoBlock; }
  Block& operator[](std::uint16_t index) { return blocks_[index]; }

 private:
  static constexpr std::uint16_t kBlocks = wire::kControlBlockSlots;
  std::array<Block, kBlocks> blocks_;
  std::uint16_t free_ = kNoBlock;
};

struct Stream {
  enum class Phase : std::uint8_t {
    Idle,       // the head block, if any, has not started
    Moving,     // a DMA or FILL is under way
    Computing,  // a launch is under way; the launches report its end
    Waiting,    // an EVENT_WAIT has not been fulfilled: the stream is in a list of timelines.hpp
  };
  using State = StreamState;

  StateMachine<kStreamStates> machine;  // changed by StreamTable::set_state()
  bool high_priority = false;
  bool banned = false;  // after its last time-out, until the function is reset: outlives resets of the stream
  Phase phase = Phase::Idle;
  LaunchHandle launch = kNoLaunch;  // while Computing
  std::uint32_t incarnation = 0;
  std::uint64_t next_sequence = 1;
  std::uint16_t head = kNoBlock;
  std::uint16_t tail = kNoBlock;
  std::uint16_t count = 0;
  std::uint32_t timeouts = 0;       // time-outs since it was opened
  std::uint64_t stalled_until = 0;  // device ticks; a fault holds the head's transfer back. 0: nothing does

  State state() const { return machine.state(); }
  bool poisoned() const { return machine.is(State::Poisoned); }
  bool settling() const { return machine.is(State::Resetting) || machine.is(State::Closing); }
  // Nothing of the stream is queued or under way.
  bool empty() const { return head == kNoBlock && phase == Phase::Idle && launch == kNoLaunch; }
};

// High priority goes first, inside of a function; of several functions each is served whatever its streams' priorities
// are. While low priority waits as well it is served once after so many of high priority: that is how long it starves.
inline constexpr unsigned kHighInARow = 4;
class PriorityRotation {
 public:
  // Which priority is next, when at least one waits. True: high.
  bool take(bool high_waits, bool low_waits) {
    const bool high = high_waits && (!low_waits || in_a_row_ < kHighInARow);
    in_a_row_ = high && low_waits ? in_a_row_ + 1 : 0;
    return high;
  }

 private:
  unsigned in_a_row_ = 0;
};

// Streams that want something, by priority (PriorityRotation), round robin inside one.
class StreamSet {
 public:
  void add(unsigned stream, bool high) { word(stream, high) |= bit(stream); }
  void remove(unsigned stream, bool high) { word(stream, high) &= ~bit(stream); }
  bool any() const { return (words_[0][0] | words_[0][1] | words_[1][0] | words_[1][1]) != 0; }

  // The one that is next; any() must hold. It stays in the set.
  unsigned next() {
    const bool high = rotation_.take((words_[1][0] | words_[1][1]) != 0, (words_[0][0] | words_[0][1]) != 0);
    unsigned& cursor = cursor_[high ? 1 : 0];
    cursor = following(words_[high ? 1 : 0], cursor);
    return cursor;
  }

 private:
  static constexpr unsigned kWords = wire::kStreamsPerFunction / 64;
  static std::uint64_t bit(unsigned stream) { return std::uint64_t{1} << stream % 64; }
  std::uint64_t& word(unsigned stream, bool high) { return words_[high ? 1 : 0][stream / 64]; }

  static unsigned following(const std::array<std::uint64_t, kWords>& set, unsigned cursor) {
    const unsigned from = (cursor + 1) % wire::kStreamsPerFunction;
    for (unsigned step = 0; step <= kWords; ++step) {
      const unsigned w = (from / 64 + step) % kWords;
      std::uint64_t candidates = set[w];
      if (step == 0) candidates &= ~std::uint64_t{0} << from % 64;
      if (candidates != 0) return w * 64 + static_cast<unsigned>(std::countr_zero(candidates));
    }
    return 0;
  }

  std::array<std::array<std::uint64_t, kWords>, 2> words_{};
  std::array<unsigned, 2> cursor_{};
  PriorityRotation rotation_;
};
static_assert(wire::kStreamsPerFunction == 128, "StreamSet::any() spells out two words per priority");

}  // namespace fw
