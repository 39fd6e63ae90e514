// SPDX-License-Identifier: Apache-2.0
// Pages of the firmware's own memory range: a bit per page, first fit. Touches none of the pages it manages, so an
// arena of gigabytes stays sparse until pages are used. Pure logic; not thread-safe (address_space.cpp holds a lock).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace riscv {

class PageArena {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kLargePageBytes = 2 * 1024 * 1024;
  static constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;

  // Manages [begin, end), at most kMostBytes of it, rounded inwards to whole large pages. Forgets all allocations.
  void initialize(std::uint64_t begin, std::uint64_t end);

  // A run of pages, at least `bytes` long; 0 when there is none or `bytes` is 0. From 2 MiB up the run is aligned to
  // 2 MiB, so that it can be mapped with large pages.
  [[nodiscard]] std::uint64_t allocate(std::uint64_t bytes);

  // Gives back what allocate() returned for the same size. False, and nothing changes, when that range is not
  // completely allocated.
  bool release(std::uint64_t address, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t free_pages() const { return free_pages_; }
  [[nodiscard]] std::uint64_t bytes() const { return pages_ * kPageBytes; }

 private:
  static constexpr std::uint64_t kBitsPerWord = 64;
  static constexpr std::uint64_t kMostPages = kMostBytes / kPageBytes;

  [[nodiscard]] bool used(std::uint64_t page) const { return used_[page / kBitsPerWord] >> page % kBitsPerWord & 1; }
  void set(std::uint64_t first, std::uint64_t count, bool used);
  // The first used page of [first, first + count), or first + count.
  [[nodiscard]] std::uint64_t first_used(std::uint64_t first, std::uint64_t count) const;

  std::uint64_t begin_ = 0;
  std::uint64_t pages_ = 0;
  std::uint64_t free_pages_ = 0;
  std::uint64_t lowest_free_ = 0;  // no page below it is free
  std::array<std::uint64_t, kMostPages / kBitsPerWord> used_{};
};

}  // namespace riscv
