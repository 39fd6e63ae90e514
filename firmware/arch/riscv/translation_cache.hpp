// SPDX-License-Identifier: Apache-2.0
// How the emulator's translation cache of one hart is brought to the size that large transfers need. Pure logic.
//
// The cache has one entry for each page, found by the low bits of the page's number; it starts with 256. It is resized
// only when it is flushed: to twice its size when more than 70 % of its entries were used, else to as few as were used.
// Transfers alone do not get it there: where both ends want the same entries they use half of it
// (docs/notes/2026-11-23-dma-translations.md). So entries for other pages are made as well, a few with every move,
// until three quarters are used for sure, and then it is flushed. (Hardware loses a few cached translations.)
#pragma once

#include <algorithm>
#include <cstdint>

namespace riscv {

class TranslationCacheGrowth {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::uint64_t kFirstEntries = 256;
  // Those of 512 MiB: the window and the first tensors of a region, without a common entry.
  static constexpr std::uint64_t kMostEntries = 128 * 1024;
  // After a flush that was not for the size (a change of address space), growing pays only when large moves go on.
  static constexpr std::uint64_t kBytesBeforeRegrowth = std::uint64_t{16} << 20;

  struct Step {
    std::uint64_t first_page = 0;  // make entries for these pages, counted from anywhere
    std::uint64_t pages = 0;
    bool flush = false;  // and then drop all
  };

  // After a move of so many bytes. The work is in proportion to them: three pages for four pages moved.
  constexpr Step moved(std::uint64_t bytes) {
    if (entries_ == kMostEntries) return {};
    if (bytes_before_growth_ > 0) {
      bytes_before_growth_ -= std::min(bytes_before_growth_, bytes);
      return {};
    }
    moved_ += bytes / kPageBytes;
    const std::uint64_t wanted = std::min(moved_, entries_) * 3 / 4;
    const Step step{.first_page = made_, .pages = wanted - made_, .flush = moved_ >= entries_};
    made_ = wanted;
    if (step.flush) {
      entries_ *= 2;
      moved_ = made_ = 0;
    }
    return step;
  }

  // Something else has flushed the cache; what size it has now is not known.
  constexpr void flushed_elsewhere() {
    entries_ = kFirstEntries;
    moved_ = made_ = 0;
    bytes_before_growth_ = kBytesBeforeRegrowth;
  }

  constexpr std::uint64_t entries() const { return entries_; }

 private:
  std::uint64_t entries_ = kFirstEntries;
  std::uint64_t moved_ = 0;  // pages of each end, since the last flush
  std::uint64_t made_ = 0;   // entries for other pages, since then
  std::uint64_t bytes_before_growth_ = 0;
};

// Of the calling hart: sfence.vma for all addresses, for another reason than the size of the cache.
void drop_translations();

}  // namespace riscv
