// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/translation_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

namespace riscv {
namespace {

using Growth = TranslationCacheGrowth;

// The emulator's rule: a flush doubles a table of which more than 70 % were used, and makes one smaller of which less
// than 30 % were.
class Emulator {
 public:
  void use(std::uint64_t page) { used_.insert(page % entries_); }
  void flush() {
    const std::uint64_t rate = used_.size() * 100 / entries_;
    if (rate > 70) entries_ *= 2;
    if (rate < 30) entries_ = std::max<std::uint64_t>(std::bit_ceil(used_.size()), Growth::kFirstEntries);
    used_.clear();
  }
  std::uint64_t entries() const { return entries_; }

 private:
  std::uint64_t entries_ = Growth::kFirstEntries;
  std::set<std::uint64_t> used_;
};

// Moves `bytes` between pages that contend for the same entries, again and again until `total` bytes have been moved.
// Returns the entries for other pages that were made.
std::uint64_t move(Growth& growth, Emulator& emulator, std::uint64_t bytes, std::uint64_t total) {
  constexpr std::uint64_t kStep = std::uint64_t{256} << 10;
  std::uint64_t made = 0;
  for (std::uint64_t at = 0; at < total; at += kStep) {
    for (std::uint64_t page = 0; page < kStep / Growth::kPageBytes; ++page) {
      emulator.use((at % bytes) / Growth::kPageBytes + page);
    }
    const Growth::Step step = growth.moved(kStep);
    for (std::uint64_t i = 0; i < step.pages; ++i) emulator.use(step.first_page + i);
    if (step.flush) emulator.flush();
    made += step.pages;
    EXPECT_LE(step.pages, kStep / Growth::kPageBytes) << "no step does much more than it moves";
  }
  return made;
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(TranslationCache, GrowsToItsMostWhateverIsMoved) {
  for (const std::uint64_t bytes : {kMiB / 4, kMiB, 16 * kMiB, 64 * kMiB}) {
    Growth growth;
    Emulator emulator;
    const std::uint64_t made = move(growth, emulator, bytes, 512 * kMiB);
    EXPECT_EQ(growth.entries(), Growth::kMostEntries) << bytes;
    EXPECT_EQ(emulator.entries(), Growth::kMostEntries) << bytes;
    EXPECT_LE(made, Growth::kMostEntries) << bytes;
  }
}

TEST(TranslationCache, NothingIsDoneAnyMoreOnceItIsLarge) {
  Growth growth;
  Emulator emulator;
  move(growth, emulator, kMiB, 512 * kMiB);
  EXPECT_EQ(move(growth, emulator, kMiB, 64 * kMiB), 0U);
}

TEST(TranslationCache, AfterAFlushOfAnotherKindItGrowsOnlyWhenMovesGoOn) {
  Growth growth;
  Emulator emulator;
  move(growth, emulator, 64 * kMiB, 512 * kMiB);
  for (int i = 0; i < 10; ++i) {
    emulator.flush();
    growth.flushed_elsewhere();
    EXPECT_EQ(move(growth, emulator, kMiB, Growth::kBytesBeforeRegrowth), 0U)
        << "a flush for each 16 MiB: it stays as it is";
  }
  move(growth, emulator, 64 * kMiB, 512 * kMiB);
  EXPECT_EQ(emulator.entries(), Growth::kMostEntries);
}

}  // namespace
}  // namespace riscv
