// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/composite_address.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <type_traits>
#include <utility>

#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;

static_assert(!std::is_copy_constructible_v<CompositeAddress>);
static_assert(!std::is_copy_assignable_v<CompositeAddress>);
static_assert(std::is_nothrow_move_constructible_v<CompositeAddress>);
static_assert(std::is_nothrow_move_assignable_v<CompositeAddress>);

struct CompositeAddressTest : ::testing::Test {
  CompositeAddress allocate(std::uint64_t bytes, const AllocationPolicy& policy = {}) {
    return CompositeAddress::allocate(allocator, bytes, policy);
  }
  std::uint64_t active() const { return allocator->memory_stats().active_bytes.current; }

  testing::FakeRegionSource source{wire::kGiB};
  std::shared_ptr<FlexAllocator> allocator = std::make_shared<FlexAllocator>(source, testing::regions_of(kRegionBytes));
};

TEST_F(CompositeAddressTest, WhatOwnsFreesOnce) {
  {
    CompositeAddress memory = allocate(256);
    EXPECT_TRUE(memory.owns());
    EXPECT_EQ(memory.total_size(), 256U);
    EXPECT_EQ(active(), 256U);
    CompositeAddress moved = std::move(memory);
    // It is empty, as the header says.
    EXPECT_FALSE(memory.owns());  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
    EXPECT_TRUE(memory.chunks().empty());
    EXPECT_EQ(active(), 256U);
    moved = allocate(512);
    EXPECT_EQ(active(), 512U) << "the one before was freed";
  }
  EXPECT_EQ(active(), 0U);
}

TEST_F(CompositeAddressTest, AViewOfAChunkOwnsNothing) {
  const CompositeAddress memory = allocate(1024);
  {
    Chunk part = memory.chunks().front();
    part.addr.offset += 128;
    part.size = 256;
    const CompositeAddress view(part);
    EXPECT_FALSE(view.owns());
    EXPECT_EQ(view.total_size(), 256U);
    EXPECT_EQ(view.chunks().front(), part);
  }
  EXPECT_EQ(active(), 1024U);
}

TEST_F(CompositeAddressTest, WorkUnderWayKeepsWhatWasDestroyed) {
  AllocationUses uses;
  {
    const CompositeAddress memory = allocate(4096);
    ASSERT_TRUE(allocator->try_use_chunks(memory.allocation_index(), uses));
  }
  EXPECT_EQ(active(), 4096U);
  uses.let_go();
  EXPECT_EQ(active(), 0U);
}

TEST_F(CompositeAddressTest, ChunksAreThoseOfTheAllocationWithSizesAsAskedFor) {
  const CompositeAddress whole = allocate(kRegionBytes);
  const CompositeAddress other = allocate(kRegionBytes / 2);
  const CompositeAddress memory =
      allocate(kRegionBytes / 2 + kRegionBytes / 4 + 100, {.placement = Placement::Interleave});
  ASSERT_EQ(memory.chunks().size(), 2U);
  EXPECT_EQ(memory.total_size(), kRegionBytes / 2 + kRegionBytes / 4 + 100);
  EXPECT_EQ(memory.chunks()[0].addr, (LogicalAddress{.region_id = 1, .offset = kRegionBytes / 2}));
  EXPECT_EQ(memory.chunks()[1].addr.region_id, 2U);
}

TEST_F(CompositeAddressTest, AfterAResetThereIsNothingToFree) {
  const CompositeAddress memory = allocate(128);
  allocator->forget_regions();
  source.forget();
  EXPECT_EQ(active(), 0U);
}

TEST_F(CompositeAddressTest, NoBytesAreNoChunk) {
  const CompositeAddress memory = allocate(0);
  EXPECT_FALSE(memory.owns());
  EXPECT_EQ(to_string(memory), "CompositeAddress{total_size=0, num_chunks=0, owns=false, chunks=[]}");
}

TEST_F(CompositeAddressTest, ThePrintedFormIsTheOneThatTorchSpyreExpects) {
  std::ostringstream out;
  out << allocate(256);
  EXPECT_EQ(
      out.str(),
      "CompositeAddress{total_size=256, num_chunks=1, owns=true, chunks=[Chunk{addr=LogicalAddress{region_id=0x0, "
      "offset=0x0}, size=256, domain_id=0}]}");
  EXPECT_EQ(to_string(CompositeAddress(Chunk{.addr = {.region_id = 6, .offset = 0x1ABC80}, .size = 1, .domain_id = 2})),
            "CompositeAddress{total_size=1, num_chunks=1, owns=false, chunks=[Chunk{addr=LogicalAddress{region_id=0x6, "
            "offset=0x1abc80}, size=1, domain_id=2}]}");
}

}  // namespace
}  // namespace svp
