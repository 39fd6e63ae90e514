// SPDX-License-Identifier: Apache-2.0
// The page-table builder on ordinary memory, checked by an independent walker written from the specification.
#include "firmware/arch/riscv/sv39.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace {

// Table pages live here; `pointer` is what the builder reaches them through.
constexpr std::uint64_t kMemoryBase = 0xC000'0000;
constexpr std::uint64_t kMemoryBytes = 8 << 20;
alignas(4096) std::byte memory[kMemoryBytes];

}  // namespace

std::byte* hal::pointer(PhysicalAddress address) { return memory + (address - kMemoryBase); }
void hal::fill(std::byte* to, std::uint64_t pattern, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes; i += sizeof pattern) std::memcpy(to + i, &pattern, sizeof pattern);
}

namespace riscv {
namespace {

using hal::Protection;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLarge = 2 << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kWindow0 = std::uint64_t{1} << 34;
constexpr std::uint64_t kText = 160 * kGiB;

struct Translation {
  std::uint64_t physical;
  bool read, write, execute, user;
  std::uint64_t page_bytes;
};

// RISC-V privileged architecture, "Virtual Address Translation Process", for Sv39.
std::optional<Translation> walk(std::uint64_t root, std::uint64_t va) {
  const std::uint64_t sign = va >> 38;
  if (sign != 0 && sign != (std::uint64_t{1} << 26) - 1) return std::nullopt;
  std::uint64_t table = root;
  for (int level = 2; level >= 0; --level) {
    std::uint64_t entry;
    std::memcpy(&entry, hal::pointer(table) + (va >> (12 + 9 * level) & 511) * 8, 8);
    const bool r = entry & 2, w = entry & 4, x = entry & 8;
    if (!(entry & 1) || (w && !r)) return std::nullopt;
    EXPECT_EQ(entry >> 54, 0u) << "reserved bits";
    const std::uint64_t frame = (entry >> 10 & ((std::uint64_t{1} << 44) - 1)) << 12;
    if (!r && !x) {
      EXPECT_EQ(entry & 0xd0, 0u) << "D, A and U must be zero in a pointer";
      table = frame;
      continue;
    }
    const std::uint64_t bytes = kPage << (9 * level);
    EXPECT_EQ(frame % bytes, 0u) << "misaligned superpage";
    EXPECT_EQ(entry & 0xc0, 0xc0u) << "accessed and dirty are preset";
    return Translation{frame + va % bytes, r, w, x, (entry & 16) != 0, bytes};
  }
  return std::nullopt;
}

class Sv39 : public ::testing::Test {
 protected:
  Sv39() : arena_(std::make_unique<PageArena>()), tables_(*arena_) {
    std::memset(memory, 0xa5, sizeof memory);  // pages come dirty: a table must not trust them
    arena_->initialize(kMemoryBase, kMemoryBase + kMemoryBytes);
    free_at_start_ = arena_->free_pages();
  }

  void expect_no_page_leaked() {
    EXPECT_EQ(tables_.table_pages(), 0u);
    EXPECT_EQ(arena_->free_pages(), free_at_start_);
  }

  // allows() says of any access what the walker finds.
  static void expect_allowed_as_mapped(std::uint64_t root, std::mt19937_64& random) {
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t va = kText + random() % (4096 * kPage * (i % 2 == 0 ? 1 : 512)) + kWindow0 * (random() % 2);
      const auto found = walk(root, va);
      const auto allowed = [&](bool right) { return found && found->user && right; };
      ASSERT_EQ(Sv39Tables::allows(root, va, Protection::Read), allowed(found && found->read)) << va;
      ASSERT_EQ(Sv39Tables::allows(root, va, Protection::ReadWrite), allowed(found && found->read && found->write));
      ASSERT_EQ(Sv39Tables::allows(root, va, Protection::ReadExecute), allowed(found && found->read && found->execute));
    }
  }

  std::unique_ptr<PageArena> arena_;
  Sv39Tables tables_;
  std::uint64_t free_at_start_ = 0;
};

TEST_F(Sv39, AFreshRootMapsNothing) {
  const std::uint64_t root = tables_.create_root();
  for (const std::uint64_t va : {std::uint64_t{0}, kWindow0, kText, ~std::uint64_t{0}}) EXPECT_FALSE(walk(root, va));
  tables_.destroy_root(root);
  expect_no_page_leaked();
}

TEST_F(Sv39, WhatIsMappedIsFoundAndItsNeighboursAreNot) {
  const std::uint64_t root = tables_.create_root();
  const std::uint64_t physical = 0x1'2345'6000;
  ASSERT_TRUE(tables_.map(root, kText, physical, 3 * kPage, Protection::ReadExecute));
  for (std::uint64_t offset = 0; offset < 3 * kPage; offset += 8) {
    const auto found = walk(root, kText + offset);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->physical, physical + offset);
    EXPECT_TRUE(found->read && found->execute && found->user && !found->write);
  }
  EXPECT_FALSE(walk(root, kText - 1));
  EXPECT_FALSE(walk(root, kText + 3 * kPage));
  tables_.destroy_root(root);
  expect_no_page_leaked();
}

TEST_F(Sv39, LargePagesAreUsedWhereBothSidesAllowThem) {
  const std::uint64_t root = tables_.create_root();
  ASSERT_TRUE(
      tables_.map(root, kText + kLarge - kPage, 0x2'0000'0000 + kLarge - kPage, 2 * kLarge, Protection::ReadWrite));
  EXPECT_EQ(walk(root, kText + kLarge - 1)->page_bytes, kPage);
  EXPECT_EQ(walk(root, kText + kLarge)->page_bytes, kLarge);
  EXPECT_EQ(walk(root, kText + 2 * kLarge)->page_bytes, kPage);
  ASSERT_TRUE(tables_.map(root, kText + 8 * kLarge, 0x2'0000'1000, kLarge, Protection::Read));
  EXPECT_EQ(walk(root, kText + 8 * kLarge)->page_bytes, kPage) << "physical side not aligned";
  tables_.destroy_root(root);
  expect_no_page_leaked();
}

TEST_F(Sv39, NothingIsMappedBelow16GiBOrOutsideTheLowerHalf) {
  const std::uint64_t root = tables_.create_root();
  struct Range {
    std::uint64_t va, bytes;
  };
  const Range bad[] = {{0, kPage},
                       {kWindow0 - kPage, kPage},
                       {kWindow0 - kPage, 2 * kPage},
                       {256 * kGiB, kPage},
                       {256 * kGiB - kPage, 2 * kPage},
                       {~std::uint64_t{0} - kPage + 1, kPage},
                       {kText, ~std::uint64_t{0} - kPage + 1},
                       {kText, 0}};
  for (const Range& range : bad) {
    EXPECT_FALSE(tables_.map(root, range.va, 0x1'0000'0000, range.bytes, Protection::Read)) << std::hex << range.va;
    EXPECT_FALSE(tables_.prepare_window(root, range.va, range.bytes)) << std::hex << range.va;
  }
  EXPECT_TRUE(tables_.map(root, 256 * kGiB - kPage, 0x1'0000'0000, kPage, Protection::Read)) << "the last page";
  tables_.destroy_root(root);
  expect_no_page_leaked();
}

TEST_F(Sv39, HostileArgumentsAreRefusedWithoutTrace) {
  const std::uint64_t root = tables_.create_root();
  const std::uint64_t before = tables_.table_pages();
  EXPECT_FALSE(tables_.map(root, kText + 1, 0x1'0000'0000, kPage, Protection::Read));
  EXPECT_FALSE(tables_.map(root, kText, 0x1'0000'0010, kPage, Protection::Read));
  EXPECT_FALSE(tables_.map(root, kText, 0x1'0000'0000, kPage + 1, Protection::Read));
  EXPECT_FALSE(tables_.map(root, kText, std::uint64_t{1} << 56, kPage, Protection::Read));
  EXPECT_FALSE(tables_.map(root, kText, (std::uint64_t{1} << 56) - kPage, 2 * kPage, Protection::Read));
  EXPECT_FALSE(tables_.map(root, kText, 0x1'0000'0000, kPage, static_cast<Protection>(7)));
  EXPECT_FALSE(tables_.map(0, kText, 0x1'0000'0000, kPage, Protection::Read));
  EXPECT_EQ(tables_.fill(root, kText, 0x1'0000'0000), Sv39Tables::Fill::kNoWindow);
  EXPECT_EQ(tables_.fill(root, 0, 0x1'0000'0000), Sv39Tables::Fill::kNoWindow);
  EXPECT_EQ(tables_.fill(root, ~std::uint64_t{0}, 0x1'0000'0000), Sv39Tables::Fill::kNoWindow);
  EXPECT_EQ(tables_.table_pages(), before);
  tables_.destroy_root(root);
  expect_no_page_leaked();
}

TEST_F(Sv39, NoPageIsEverWritableAndExecutable) {
  const std::uint64_t root = tables_.create_root();
  for (unsigned protection = 0; protection < 16; ++protection) {
    const std::uint64_t va = kText + protection * kLarge;
    (void)tables_.map(root, va, 0x1'0000'0000, kPage, static_cast<Protection>(protection));
    const auto found = walk(root, va);
    EXPECT_FALSE(found && found->write && found->execute) << protection;
  }
  tables_.destroy_root(root);
}

TEST_F(Sv39, AnEntryInUseRefusesTheWholeMapping) {
  const std::uint64_t root = tables_.create_root();
  ASSERT_TRUE(tables_.map(root, kText + 5 * kPage, 0x1'0000'0000, kPage, Protection::Read));
  const std::uint64_t before = tables_.table_pages();
  EXPECT_FALSE(tables_.map(root, kText, 0x1'1000'0000, 6 * kPage, Protection::Read));
  EXPECT_FALSE(walk(root, kText)) << "nothing of a refused mapping stays";
  EXPECT_FALSE(tables_.map(root, kText, 0x1'1000'0000, kLarge, Protection::Read)) << "large over small";
  ASSERT_TRUE(tables_.map(root, kText + kLarge, 0x1'2000'0000, kLarge, Protection::Read));
  EXPECT_FALSE(tables_.map(root, kText + kLarge, 0x1'1000'0000, kPage, Protection::Read)) << "small over large";
  ASSERT_TRUE(tables_.prepare_window(root, kWindow0, 12 * kGiB));
  EXPECT_FALSE(tables_.map(root, kWindow0 + kGiB, 0x1'1000'0000, kPage, Protection::Read)) << "into a window";
  EXPECT_FALSE(tables_.prepare_window(root, kText, kGiB)) << "window over mappings";
  EXPECT_EQ(tables_.table_pages(), before + 12);
  tables_.release_window(root, kWindow0, 12 * kGiB);
  tables_.destroy_root(root);
  expect_no_page_leaked();
}

TEST_F(Sv39, RunningOutOfTablePagesLeavesNoTrace) {
  const std::uint64_t root = tables_.create_root();
  std::vector<std::uint64_t> taken;
  while (arena_->free_pages() > 1) taken.push_back(arena_->allocate(kPage));
  const std::uint64_t before = tables_.table_pages();
  EXPECT_FALSE(tables_.map(root, kText, 0x1'0000'0000, kPage, Protection::Read)) << "two tables needed, one page left";
  EXPECT_FALSE(tables_.prepare_window(root, kWindow0, 2 * kGiB));
  EXPECT_EQ(tables_.table_pages(), before);
  EXPECT_FALSE(walk(root, kText));
  EXPECT_TRUE(tables_.prepare_window(root, kWindow0, kGiB)) << "one page is enough for this";
  EXPECT_EQ(tables_.create_root(), 0u);
  tables_.release_window(root, kWindow0, kGiB);
  for (const std::uint64_t page : taken) ASSERT_TRUE(arena_->release(page, kPage));
  tables_.destroy_root(root);
  expect_no_page_leaked();
}

TEST_F(Sv39, AFilledGranuleIsSeenThroughEveryRootThatSharesTheWindow) {
  const std::uint64_t owner = tables_.create_root();
  const std::uint64_t core0 = tables_.create_root();
  const std::uint64_t core1 = tables_.create_root();
  ASSERT_TRUE(tables_.prepare_window(owner, kWindow0, 12 * kGiB));
  ASSERT_TRUE(tables_.share_window(owner, core0, kWindow0, 12 * kGiB));
  ASSERT_TRUE(tables_.share_window(owner, core1, kWindow0, 12 * kGiB));
  EXPECT_TRUE(tables_.share_window(owner, core1, kWindow0, 12 * kGiB)) << "again is no change";
  const std::uint64_t va = kWindow0 + 7 * kGiB + 5 * kLarge + 0x1234;
  EXPECT_FALSE(walk(core0, va));
  EXPECT_EQ(tables_.fill(core0, va, 0x3'0000'0000 + 0x1234), Sv39Tables::Fill::kSet);
  for (const std::uint64_t root : {owner, core0, core1}) {
    const auto found = walk(root, va);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->physical, 0x3'0000'0000 + 0x1234u);
    EXPECT_TRUE(found->read && found->write && found->user && !found->execute);
    EXPECT_EQ(found->page_bytes, kLarge);
  }
  EXPECT_EQ(tables_.fill(core1, va, 0x4'0000'0000), Sv39Tables::Fill::kValidAlready);
  EXPECT_EQ(walk(core1, va)->physical, 0x3'0000'0000 + 0x1234u) << "the first fill stays";
  EXPECT_FALSE(walk(core0, kWindow0 + 12 * kGiB)) << "behind the window";
  EXPECT_EQ(tables_.fill(core0, kWindow0 + 12 * kGiB, 0x3'0000'0000), Sv39Tables::Fill::kNoWindow);

  const std::uint64_t pages = tables_.table_pages();
  tables_.destroy_root(core0);
  tables_.destroy_root(core1);
  EXPECT_EQ(tables_.table_pages(), pages - 2) << "shared tables stay";
  EXPECT_TRUE(walk(owner, va));
  tables_.release_window(owner, kWindow0, 12 * kGiB);
  EXPECT_FALSE(walk(owner, va));
  tables_.destroy_root(owner);
  expect_no_page_leaked();
}

TEST_F(Sv39, OnlyPreparedWindowsAreSharedAndOnlyIntoFreeEntries) {
  const std::uint64_t from = tables_.create_root();
  const std::uint64_t to = tables_.create_root();
  EXPECT_FALSE(tables_.share_window(from, to, kWindow0, kGiB)) << "not prepared";
  ASSERT_TRUE(tables_.prepare_window(from, kWindow0, 2 * kGiB));
  EXPECT_FALSE(tables_.share_window(from, to, kWindow0, 3 * kGiB)) << "one entry too many";
  EXPECT_FALSE(walk(to, kWindow0));
  ASSERT_TRUE(tables_.map(to, kWindow0 + kGiB, 0x1'0000'0000, kPage, Protection::Read));
  EXPECT_FALSE(tables_.share_window(from, to, kWindow0, 2 * kGiB)) << "in use";
  tables_.release_window(from, kWindow0, 2 * kGiB);
  tables_.destroy_root(from);
  tables_.destroy_root(to);
  expect_no_page_leaked();
}

TEST_F(Sv39, ManyRandomMappingsEqualAModelAndLeakNothing) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t root = tables_.create_root();
    struct Mapped {
      std::uint64_t va, physical, bytes;
    };
    std::vector<Mapped> model;
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t va = kText + random() % 4096 * kPage * (random() % 4 == 0 ? 512 : 1);
      const std::uint64_t bytes = (1 + random() % 700) * kPage;
      const std::uint64_t physical = 0x1'0000'0000 + random() % 4096 * kPage * (random() % 2 == 0 ? 512 : 1);
      bool overlaps = false;
      for (const Mapped& m : model) overlaps |= va < m.va + m.bytes && m.va < va + bytes;
      constexpr Protection kRights[] = {Protection::Read, Protection::ReadWrite, Protection::ReadExecute};
      ASSERT_EQ(tables_.map(root, va, physical, bytes, kRights[random() % 3]), !overlaps);
      if (!overlaps) model.push_back({va, physical, bytes});
    }
    for (const Mapped& m : model) {
      for (const std::uint64_t offset : {std::uint64_t{0}, m.bytes / 2, m.bytes - 1}) {
        const auto found = walk(root, m.va + offset);
        ASSERT_TRUE(found);
        ASSERT_EQ(found->physical, m.physical + offset);
      }
    }
    expect_allowed_as_mapped(root, random);
    tables_.destroy_root(root);
    expect_no_page_leaked();
  }
}

TEST_F(Sv39, OfSeveralHartsThatFillTheSameGranuleOneSetsIt) {
  const std::uint64_t root = tables_.create_root();
  ASSERT_TRUE(tables_.prepare_window(root, kWindow0, kGiB));
  std::atomic<unsigned> set{0};
  {
    std::vector<std::jthread> harts;
    for (unsigned hart = 0; hart < 4; ++hart) {
      harts.emplace_back([&] {
        for (std::uint64_t granule = 0; granule < 512; ++granule) {
          set += tables_.fill(root, kWindow0 + granule * kLarge, 0x1'0000'0000 + granule * kLarge) ==
                 Sv39Tables::Fill::kSet;
        }
      });
    }
  }
  EXPECT_EQ(set, 512u);
  tables_.release_window(root, kWindow0, kGiB);
  tables_.destroy_root(root);
  expect_no_page_leaked();
}

}  // namespace
}  // namespace riscv
