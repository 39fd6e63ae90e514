// SPDX-License-Identifier: Apache-2.0
// Region memory of the card: one pool of 2 MiB granules, handed out as contiguous grants, first come first served
// (protocol §6). Three bitmaps follow every granule: *dirty* (holds somebody's bytes; scrubbed before it is granted again),
// *populated* (backed by memory of the machine that emulates us; bounded by a budget) and *retired* (its memory fails). Memory of a released grant is
// quarantined until its scrub ended.
//
// Threading: everything by hart 0, except mark_written(), which any hart may call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>

#include "firmware/hal/memory.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/outcome.hpp"

namespace fw {

class RegionPool {
 public:
  static constexpr std::uint64_t kMaxGranules = 64 * 1024;  // 128 GiB
  // Of each function: its table, three times as much that was released while launches used it, and as much in scrubbing.
  static constexpr std::size_t kMaxGrants = (wire::boot::kMaxVirtualFunctions + 2) * wire::kRegionsPerFunction * 5;

  // `bitmaps` is persistent memory of at least bitmap_bytes(); its contents are kept when `warm`.
  static constexpr std::uint64_t bitmap_bytes() { return 3 * kMaxGranules / 8; }
  void init(hal::MemoryRange range, std::byte* bitmaps, bool warm, std::uint64_t populated_budget_bytes);

  // A contiguous grant of `bytes` rounded up to granules; the lowest address that fits.
  std::expected<hal::PhysicalAddress, wire::Status> acquire(std::uint64_t bytes);
  // The memory goes to quarantine; scrub_step() cleans it.
  void release(hal::PhysicalAddress base);

  // Cleans at most `bytes` of quarantined memory. False when nothing is quarantined.
  bool scrub_step(std::uint64_t bytes);
  bool scrubbing() const { return quarantined_ != 0; }
  std::uint64_t quarantined_bytes() const;  // dirty memory in quarantine: what scrub_step() has still to clean

  // Before the first write to [base, +bytes): sets both bits of every granule touched. False when that would exceed the
  // populated budget (nothing is set then).
  bool mark_written(hal::PhysicalAddress base, std::uint64_t bytes);

  // The memory at `address` fails: its granule is granted no more, from when its present grant has ended until power-on.
  // True when it was not retired before.
  bool retire(hal::PhysicalAddress address);
  std::uint64_t retired_granules() const { return retired_count_; }

  std::uint64_t total_bytes() const { return granules_ * wire::kGranuleBytes; }
  std::uint64_t free_bytes() const;     // grantable now: quarantined memory is not
  std::uint64_t largest_bytes() const;  // largest contiguous part of it
  std::uint64_t populated_granules() const { return populated_count_.load(std::memory_order_relaxed); }
  std::uint64_t dirty_granules(hal::PhysicalAddress base, std::uint64_t bytes) const;

 private:
  struct Grant {
    std::uint64_t first;  // granule
    std::uint64_t count;
    std::uint64_t cleaned;   // quarantined only: granules done …
    std::uint64_t scrubbed;  // … and bytes done of the one being cleaned: several scrubs may be under way
    bool quarantined;
  };

  using Word = std::uint64_t;
  static constexpr unsigned kBits = 64;
  static bool test(const Word* map, std::uint64_t granule);
  static bool set(Word* map, std::uint64_t granule);  // true when it was clear
  static void clear(Word* map, std::uint64_t granule);
  std::uint64_t granule_of(hal::PhysicalAddress address) const;
  void remove_grant(std::size_t index);
  template <typename Visit>
  void for_each_gap(Visit visit) const;

  std::uint64_t base_ = 0;
  std::uint64_t granules_ = 0;
  std::uint64_t budget_granules_ = 0;
  Word* dirty_ = nullptr;
  Word* populated_ = nullptr;
  Word* retired_ = nullptr;
  std::uint64_t retired_count_ = 0;
  std::atomic<std::uint64_t> populated_count_{0};
  std::array<Grant, kMaxGrants> grants_{};  // sorted by first
  std::size_t grant_count_ = 0;
  std::size_t quarantined_ = 0;
};

}  // namespace fw
