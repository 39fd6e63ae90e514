// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/page_arena.hpp"

#include <algorithm>

namespace riscv {

namespace {

constexpr std::uint64_t kPagesPerLargePage = PageArena::kLargePageBytes / PageArena::kPageBytes;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t step) { return (value + step - 1) / step * step; }

}  // namespace

void PageArena::initialize(std::uint64_t begin, std::uint64_t end) {
  begin_ = round_up(begin, kLargePageBytes);
  end = end / kLargePageBytes * kLargePageBytes;
  pages_ = end > begin_ ? std::min(end - begin_, kMostBytes) / kPageBytes : 0;
  free_pages_ = pages_;
  lowest_free_ = 0;
  used_.fill(0);
}

std::uint64_t PageArena::allocate(std::uint64_t bytes) {
  if (bytes == 0 || bytes > pages_ * kPageBytes) return 0;
  const std::uint64_t count = round_up(bytes, kPageBytes) / kPageBytes;
  const std::uint64_t step = bytes >= kLargePageBytes ? kPagesPerLargePage : 1;
  std::uint64_t first = round_up(lowest_free_, step);
  while (count <= pages_ && first <= pages_ - count) {
    const std::uint64_t obstacle = first_used(first, count);
    if (obstacle == first + count) {
      set(first, count, true);
      free_pages_ -= count;
      if (first == lowest_free_) lowest_free_ = first + count;
      return begin_ + first * kPageBytes;
    }
    first = round_up(obstacle + 1, step);
  }
  return 0;
}

bool PageArena::release(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0 || bytes > pages_ * kPageBytes || address < begin_ || address % kPageBytes != 0) return false;
  const std::uint64_t first = (address - begin_) / kPageBytes;
  const std::uint64_t count = round_up(bytes, kPageBytes) / kPageBytes;
  if (first >= pages_ || count > pages_ - first) return false;
  for (std::uint64_t page = first; page < first + count; ++page) {
    if (!used(page)) return false;
  }
  set(first, count, false);
  free_pages_ += count;
  lowest_free_ = std::min(lowest_free_, first);
  return true;
}

std::uint64_t PageArena::first_used(std::uint64_t first, std::uint64_t count) const {
  const std::uint64_t end = first + count;
  for (std::uint64_t page = first; page < end; ++page) {
    if (page % kBitsPerWord == 0 && used_[page / kBitsPerWord] == 0) {
      page += kBitsPerWord - 1;  // a whole word of free pages
      continue;
    }
    if (used(page)) return page;
  }
  return end;
}

void PageArena::set(std::uint64_t first, std::uint64_t count, bool used) {
  for (std::uint64_t page = first; page < first + count;) {
    const std::uint64_t bit = page % kBitsPerWord;
    const std::uint64_t run = std::min(kBitsPerWord - bit, first + count - page);
    const std::uint64_t mask = (run == kBitsPerWord ? ~std::uint64_t{0} : (std::uint64_t{1} << run) - 1) << bit;
    std::uint64_t& word = used_[page / kBitsPerWord];
    word = used ? word | mask : word & ~mask;
    page += run;
  }
}

}  // namespace riscv
