// SPDX-License-Identifier: Apache-2.0
// Memory that is freed while launches of a stream use it: given at once to what is launched on that stream later.
#include <gtest/gtest.h>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kBytes = 64 * wire::kKiB;

class MemoryReuse : public ::testing::Test {
 protected:
  // A launch that uses the memory and has its place in the stream.
  AllocationUses launched(UseClock& stream, AllocationIndex index) {
    AllocationUses uses = written(stream, index);
    stream.launched.fetch_add(1);
    uses.place_taken();
    return uses;
  }
  // One that has no place yet.
  AllocationUses written(UseClock& stream, AllocationIndex index) {
    AllocationUses uses;
    uses.order_by(stream);
    EXPECT_TRUE(allocator_->try_use(index, uses));
    return uses;
  }
  std::uint64_t place_of(AllocationIndex index) const { return allocator_->resolve(index).address.offset; }
  AllocationIndex allocate(std::uint64_t bytes = kBytes) { return allocator_->allocate(bytes); }

  static FlexAllocatorOptions options(std::uint32_t max_generation = BlockNodes::kMaxGeneration) {
    FlexAllocatorOptions options;
    options.region_bytes = {16 * wire::kMiB};
    options.max_generation = max_generation;
    return options;
  }

  testing::FakeRegionSource source_{64 * wire::kMiB};
  std::shared_ptr<FlexAllocator> allocator_ = std::make_shared<FlexAllocator>(source_, options());
  UseClock a_, b_;
};

TEST_F(MemoryReuse, WhatIsLaunchedLaterOnTheStreamHasItAtOnce) {
  const AllocationIndex first = allocate();
  const std::uint64_t place = place_of(first);
  const AllocationUses used = launched(a_, first);
  allocator_->deallocate(first);
  const AllocationIndex second = allocate();
  EXPECT_EQ(place_of(second), place);
  EXPECT_THROW((void)allocator_->resolve(first), InvalidAllocation) << "a handle of its own";
  AllocationUses later = launched(a_, second);
  EXPECT_TRUE(later.awaited().empty()) << "the stream has an order";
}

TEST_F(MemoryReuse, AnotherStreamWaitsForWhatUsesIt) {
  const AllocationIndex first = allocate();
  const AllocationUses used = launched(a_, first);
  allocator_->deallocate(first);
  const AllocationIndex second = allocate();
  AllocationUses other = launched(b_, second);
  ASSERT_EQ(other.awaited().size(), 1u);
  EXPECT_EQ(other.awaited()[0].stream, &a_);
  EXPECT_EQ(other.awaited()[0].launch, 1u);
  a_.ended = 1;
  EXPECT_TRUE(launched(b_, second).awaited().empty());
}

TEST_F(MemoryReuse, NobodyHasItWhileALaunchHasNoPlace) {
  const AllocationIndex first = allocate();
  const std::uint64_t place = place_of(first);
  const AllocationUses used = launched(a_, first);
  AllocationUses unplaced = written(a_, first);
  allocator_->deallocate(first);
  EXPECT_NE(place_of(allocate()), place);
  a_.launched = 2;
  unplaced.place_taken();
  EXPECT_EQ(place_of(allocate()), place);
}

TEST_F(MemoryReuse, ALaunchHasTheWorkspaceOfTheOneBeforeIt) {
  const AllocationIndex operand = allocate();
  std::uint64_t place = 0;
  std::vector<AllocationUses> launches;
  for (int i = 0; i < 20; ++i) {
    AllocationUses uses = written(a_, operand);
    const AllocationIndex workspace = allocator_->allocate(kBytes, AllocationPolicy{}, uses);
    if (i == 0) place = place_of(workspace);
    EXPECT_EQ(place_of(workspace), place) << i;
    EXPECT_TRUE(allocator_->try_use(workspace, uses));
    allocator_->deallocate(workspace);
    a_.launched.fetch_add(1);
    uses.place_taken();
    launches.push_back(std::move(uses));
  }
}

TEST_F(MemoryReuse, ItsOwnOperandIsNotItsWorkspace) {
  const AllocationIndex operand = allocate();
  const std::uint64_t place = place_of(operand);
  AllocationUses uses = written(a_, operand);
  allocator_->deallocate(operand);  // by another thread, while this one writes the launch
  EXPECT_NE(place_of(allocator_->allocate(kBytes, AllocationPolicy{}, uses)), place);
}

TEST_F(MemoryReuse, WhatSeveralStreamsUseComesBackAtTheEnd) {
  const AllocationIndex first = allocate();
  const std::uint64_t place = place_of(first);
  AllocationUses one = launched(a_, first), two = launched(b_, first);
  allocator_->deallocate(first);
  EXPECT_NE(place_of(allocate()), place);
  one.let_go();
  two.let_go();
  EXPECT_EQ(place_of(allocate()), place);
}

TEST_F(MemoryReuse, WhatIsUsedInNoOrderComesBackAtTheEnd) {
  const AllocationIndex first = allocate();
  const std::uint64_t place = place_of(first);
  AllocationUses prepared;
  EXPECT_TRUE(allocator_->try_use(first, prepared));
  const AllocationUses used = launched(a_, first);
  allocator_->deallocate(first);
  EXPECT_NE(place_of(allocate()), place);
}

// Blocks as large as they are, and an eighth larger; nothing is lost when the last use ends, in whatever order.
TEST_F(MemoryReuse, StatisticsCountAsIfItHadBeenFreedAndAllocated) {
  for (const bool old_first : {true, false}) {
    const AllocationIndex first = allocate();
    AllocationUses used = launched(a_, first);
    allocator_->deallocate(first);
    const AllocationIndex second = allocate(kBytes - 1000);
    AllocationUses later = launched(a_, second);
    const MemoryStats stats = allocator_->memory_stats();
    EXPECT_EQ(stats.allocation.current, 1u);
    EXPECT_EQ(stats.active_bytes.current, kBytes);
    EXPECT_EQ(stats.requested_bytes.current, kBytes - 1000);
    if (old_first) used.let_go();
    allocator_->deallocate(second);
    later.let_go();
    used.let_go();
    EXPECT_EQ(allocator_->memory_stats().active.current, 0u);
    EXPECT_EQ(allocator_->statistics().bytes.current, 0u);
  }
}

TEST_F(MemoryReuse, AHandleIsUsedUpAsAnyOther) {
  allocator_ = std::make_shared<FlexAllocator>(source_, options(6));
  std::vector<AllocationUses> launches;
  AllocationIndex last = AllocationIndex::Null;
  for (int i = 0; i < 40; ++i) {
    const AllocationIndex next = allocate();
    EXPECT_NE(next, last);
    launches.push_back(launched(a_, next));
    allocator_->deallocate(next);
    EXPECT_THROW((void)allocator_->resolve(next), InvalidAllocation);
    last = next;
  }
  launches.clear();
  EXPECT_EQ(allocator_->memory_stats().active.current, 0u);
}

}  // namespace
}  // namespace svp
