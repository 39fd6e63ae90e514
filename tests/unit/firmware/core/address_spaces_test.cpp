// SPDX-License-Identifier: Apache-2.0
// Address spaces by themselves: contexts, windows, retiring and what goes back when the last launch has left.
#include "firmware/core/address_spaces.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "firmware/core/region_pool.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/platform/host/native_board.hpp"

namespace {

using Fit = fw::AddressSpaces::Fit;

constexpr fw::Owner kMe = 1;
constexpr unsigned kArea = 0;
constexpr std::uint64_t kRegionBytes = 2 * wire::kGranuleBytes;

class AddressSpaces : public testing::Test {
 protected:
  AddressSpaces() : bitmaps_(fw::RegionPool::bitmap_bytes() / 8) {
    pool_.init(hal::region_memory(), reinterpret_cast<std::byte*>(bitmaps_.data()), false, {.virtual_functions = 0});
    spaces_->init(2, 1, pool_);
    regions_.init(wire::FunctionKind::Virtual);
  }

  unsigned acquire() {
    const unsigned ordinal = regions_.free_ordinal(wire::RegionType::Tensor).value();
    regions_.install(ordinal, pool_.acquire(kMe, kRegionBytes).value(), kRegionBytes, wire::RegionType::Tensor);
    return ordinal;
  }
  bool release(unsigned ordinal) {
    if (!spaces_->release_region(kMe, regions_.at(ordinal))) return false;
    regions_.remove(ordinal);
    return true;
  }
  // A launch on core 0 of the current space, as Launches begins one. The context it got.
  std::uint8_t enter(fw::FunctionSpace*& space) {
    space = spaces_->current(kMe);
    spaces_->enter(*space);
    std::uint8_t context = 0xff;
    EXPECT_TRUE(spaces_->ensure_regions(*space, regions_));
    EXPECT_EQ(spaces_->take_context(*space, 0, kArea, false, context), Fit::Yes);
    return context;
  }
  void leave(fw::FunctionSpace& space, std::uint8_t context) {
    fw::AddressSpaces::give_context(space, 0, context);
    spaces_->leave(space);
  }

  native::Board board_{{.harts = 2, .region_bytes = 64 * wire::kMiB}};
  std::vector<std::uint64_t> bitmaps_;
  fw::RegionPool pool_;
  std::unique_ptr<fw::AddressSpaces> spaces_ = std::make_unique<fw::AddressSpaces>();
  fw::RegionTable regions_;
};

TEST_F(AddressSpaces, LaunchesOfAFunctionShareItsSpaceAndHaveContextsOfTheirOwn) {
  std::array<fw::FunctionSpace*, fw::kContextsPerCore> spaces;
  std::array<std::uint8_t, fw::kContextsPerCore> contexts;
  for (unsigned i = 0; i < fw::kContextsPerCore; ++i) {
    contexts[i] = enter(spaces[i]);
    EXPECT_EQ(spaces[i], spaces[0]);
    EXPECT_EQ(contexts[i], i);
  }
  std::uint8_t more = 0;
  EXPECT_EQ(spaces_->take_context(*spaces[0], 0, kArea, false, more), Fit::Busy);
  EXPECT_EQ(spaces_->take_context(*spaces[0], 1, kArea, false, more), Fit::Yes) << "another core has its own";
  fw::AddressSpaces::give_context(*spaces[0], 0, contexts[2]);
  EXPECT_EQ(spaces_->take_context(*spaces[0], 0, kArea, false, more), Fit::Yes);
  EXPECT_EQ(more, contexts[2]);
}

TEST_F(AddressSpaces, ARegionIsSeenOnceItsWindowIsMade) {
  const unsigned first = acquire();
  EXPECT_TRUE(spaces_->lacks_regions(kMe, regions_));
  fw::FunctionSpace* space;
  enter(space);
  EXPECT_FALSE(spaces_->lacks_regions(kMe, regions_));
  const auto window = wire::region_window(first);
  const auto base = regions_.at(first).base;
  EXPECT_EQ(space->granule_at(0, window), base);
  EXPECT_EQ(space->granule_at(0, window + wire::kGranuleBytes + 5), base + wire::kGranuleBytes);
  EXPECT_EQ(space->granule_at(0, window + kRegionBytes), 0u) << "behind its end";
  EXPECT_EQ(space->granule_at(0, 5), 0u) << "before the first window";
  const unsigned second = acquire();
  EXPECT_TRUE(spaces_->lacks_regions(kMe, regions_));
  EXPECT_EQ(space->granule_at(0, wire::region_window(second)), 0u);
  enter(space);
  EXPECT_EQ(space->granule_at(0, wire::region_window(second)), regions_.at(second).base) << "added in place";
}

TEST_F(AddressSpaces, ARegionReleasedUnderALaunchGoesBackWithItsLastLaunch) {
  const unsigned ordinal = acquire();
  fw::FunctionSpace* old_space;
  const auto first = enter(old_space);
  const auto second = enter(old_space);
  const auto base = regions_.at(ordinal).base;
  ASSERT_TRUE(release(ordinal));
  EXPECT_EQ(old_space->granule_at(0, wire::region_window(ordinal)), base) << "who runs there goes on";
  EXPECT_EQ(pool_.granted_bytes(kMe), kRegionBytes);
  fw::FunctionSpace* new_space;
  const auto third = enter(new_space);
  EXPECT_NE(new_space, old_space);
  EXPECT_EQ(new_space->granule_at(0, wire::region_window(ordinal)), 0u);
  leave(*old_space, first);
  EXPECT_EQ(pool_.granted_bytes(kMe), kRegionBytes);
  leave(*old_space, second);
  EXPECT_EQ(pool_.granted_bytes(kMe), 0u);
  leave(*new_space, third);
}

TEST_F(AddressSpaces, ARegionThatNobodyUsesGoesBackAtOnce) {
  const unsigned ordinal = acquire();
  fw::FunctionSpace* space;
  const auto context = enter(space);
  leave(*space, context);
  ASSERT_TRUE(release(ordinal));
  EXPECT_EQ(pool_.granted_bytes(kMe), 0u);
  EXPECT_EQ(spaces_->held_pages_bytes(kMe), 0u) << "the idle space went with it";
}

TEST_F(AddressSpaces, ReleasesWaitWhenEverySpaceIsInUse) {
  std::array<fw::FunctionSpace*, fw::kSpacesPerFunction> spaces;
  std::array<std::uint8_t, fw::kSpacesPerFunction> contexts;
  for (unsigned i = 0; i < fw::kSpacesPerFunction; ++i) {
    const unsigned ordinal = acquire();
    contexts[i] = enter(spaces[i]);
    if (i + 1 < fw::kSpacesPerFunction) {
      ASSERT_TRUE(release(ordinal));
      continue;
    }
    const auto granted = pool_.granted_bytes(kMe);
    EXPECT_FALSE(release(ordinal));
    EXPECT_EQ(pool_.granted_bytes(kMe), granted) << "nothing has changed";
    EXPECT_EQ(spaces_->current(kMe), spaces[i]);
    leave(*spaces[0], contexts[0]);
    EXPECT_TRUE(release(ordinal));
  }
}

TEST_F(AddressSpaces, WhatAFunctionHeldOfTheArenaComesBack) {
  acquire();
  fw::FunctionSpace* space;
  const auto context = enter(space);
  EXPECT_FALSE(spaces_->drop_idle(kMe)) << "a launch is under way";
  const std::uint64_t held = spaces_->held_pages_bytes(kMe);
  EXPECT_EQ(held, board_.pages_in_use() + hal::table_pages() * fw::kPageBytes);
  EXPECT_EQ(held, spaces_->arena_pages() * fw::kPageBytes);
  leave(*space, context);
  EXPECT_EQ(spaces_->held_pages_bytes(kMe), held) << "cached for the next launch";
  spaces_->forget(kMe);
  EXPECT_EQ(spaces_->held_pages_bytes(kMe), 0u);
  EXPECT_EQ(board_.pages_in_use(), 0u);
  EXPECT_EQ(hal::table_pages(), 0u);
}

TEST_F(AddressSpaces, PlantedInstructionsAreMappedForLaunchesThatWantThem) {
  fw::FunctionSpace* space;
  enter(space);
  EXPECT_FALSE(space->cores[0]->has_planted());
  ASSERT_TRUE(spaces_->prepare_planted());
  std::uint8_t context;
  ASSERT_EQ(spaces_->take_context(*space, 0, kArea, true, context), Fit::Yes);
  EXPECT_TRUE(space->cores[0]->has_planted());
  EXPECT_EQ(spaces_->held_pages_bytes(kMe), spaces_->arena_pages() * fw::kPageBytes) << "the page is the card's";
}

}  // namespace
