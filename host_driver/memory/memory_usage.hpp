// SPDX-License-Identifier: Apache-2.0
// What FlexAllocator counts: blocks from the request for them to their last use, free blocks that are stuck between
// used ones, regions, failures. Not thread-safe: the owner holds a lock.
#pragma once

#include <cstdint>
#include <spyre/allocator.hpp>

#include "host_driver/memory/block_heap.hpp"

namespace svp {

using spyre::Counter;
using spyre::MemoryStats;

// The free blocks of a region that is in use: none of them lets the region go back to the card.
struct SplitBlocks {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;

  static SplitBlocks of(const BlockHeap& heap) {
    if (heap.unused()) return {};
    return {.count = heap.free_blocks(), .bytes = heap.free_bytes()};
  }
};

// A Counter with as few writes per change as it needs: the rest is computed when somebody asks.
class Meter {
 public:
  void add(std::uint64_t amount) {
    added_ += amount;
    current_ += amount;
    if (current_ > peak_) peak_ = current_;
  }
  void subtract(std::uint64_t amount) { current_ -= amount; }
  void move(std::uint64_t before, std::uint64_t after) {
    if (after > before) {
      add(after - before);
    } else {
      subtract(before - after);
    }
  }
  void clear() { current_ = 0; }
  void reset_peak() { peak_ = current_; }
  void reset_accumulated() {
    added_at_reset_ = added_;
    removed_at_reset_ = added_ - current_;
  }
  std::uint64_t current() const { return current_; }
  Counter counter() const {
    return {.current = current_,
            .peak = peak_,
            .accumulated = added_,
            .allocated = added_ - added_at_reset_,
            .freed = added_ - current_ - removed_at_reset_};
  }

 private:
  std::uint64_t current_ = 0;
  std::uint64_t peak_ = 0;
  std::uint64_t added_ = 0;
  std::uint64_t added_at_reset_ = 0;
  std::uint64_t removed_at_reset_ = 0;
};

class MemoryUsage {
 public:
  // `slack`: of the bytes, those that were not asked for.
  void block_allocated(std::uint64_t bytes, std::uint64_t slack) {
    requested_bytes_.add(bytes - slack);
    allocation_.add(1);
    allocated_bytes_.add(bytes);
    active_.add(1);
    active_bytes_.add(bytes);
  }
  void handle_released(std::uint64_t bytes, std::uint64_t slack) {
    requested_bytes_.subtract(bytes - slack);
    allocation_.subtract(1);
    allocated_bytes_.subtract(bytes);
  }
  // Comes after handle_released(): at once, or when the last use has ended.
  void block_freed(std::uint64_t bytes) {
    active_.subtract(1);
    active_bytes_.subtract(bytes);
  }
  // The split blocks of one region, before and after one change of it.
  void split_changed(const SplitBlocks& before, const SplitBlocks& after) {
    inactive_split_.move(before.count, after.count);
    inactive_split_bytes_.move(before.bytes, after.bytes);
  }
  void region_added(std::uint64_t bytes) {
    segment_.add(1);
    reserved_bytes_.add(bytes);
  }
  void region_removed(std::uint64_t bytes) {
    segment_.subtract(1);
    reserved_bytes_.subtract(bytes);
  }
  // Every block is gone at once, with its region.
  void forget_blocks();
  void retried() { ++retries_; }
  void failed() { ++failures_; }

  void reset_peaks();
  void reset_accumulated();

  // Without largest_free_block and fragmentation, which are no counts.
  MemoryStats stats() const;
  std::uint64_t reserved_bytes() const { return reserved_bytes_.current(); }
  std::uint64_t failures() const { return failures_; }  // ever

 private:
  Meter allocation_;
  Meter allocated_bytes_;
  Meter requested_bytes_;
  Meter active_;
  Meter active_bytes_;
  Meter inactive_split_;
  Meter inactive_split_bytes_;
  Meter segment_;
  Meter reserved_bytes_;
  std::uint64_t failures_ = 0;
  std::uint64_t failures_at_reset_ = 0;
  std::uint64_t retries_ = 0;
};

}  // namespace svp
