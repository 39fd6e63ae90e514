// SPDX-License-Identifier: Apache-2.0
// Regions come and go while kernels run (protocol §7): a launch keeps the address space that it began on, the handle is
// void at once, and the memory goes back when nothing can reach it any more. Kernels are played.
#include <chrono>
#include <random>

#include "firmware/hal/address_space.hpp"
#include "firmware/hal/hart.hpp"
#include "tests/bounds.hpp"
#include "tests/support/bytes.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Program;
using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kRegionBytes = 4 * wire::kMiB;

class ReleaseUnderLaunch : public fwtest::Launch {
 protected:
  using Launch::Launch;

  fw::AddressSpaces& spaces() { return card_.card().spaces; }
  fw::RegionPool& pool() { return card_.card().pool; }
  fw::Function& function() { return card_.function(2); }
  hal::PhysicalAddress base(unsigned ordinal) { return function().regions.at(ordinal).base; }

  // Of released regions that launches under way still use.
  std::uint64_t held_bytes() { return pool().granted_bytes(function().id()) - function().regions.granted_bytes(); }

  std::span<const std::byte> memory(hal::PhysicalAddress at, std::uint64_t bytes) {
    return card_.board().region_memory().subspan(at - hal::region_memory().begin, bytes);
  }
  std::uint64_t sum(hal::PhysicalAddress at) {
    std::uint64_t value;
    std::memcpy(&value, memory(at + fwtest::kSumAt, sizeof value).data(), sizeof value);
    return value;
  }
  bool clean(hal::PhysicalAddress at, std::uint64_t bytes) {
    return svp::test::all_bytes_are(memory(at, bytes), std::byte{0});
  }
  // Launches on a stream of its own; the kernel stands ready, nothing of it has run.
  void launch(Program program, std::uint64_t mask = 0) {
    StreamHandle stream = driver_.open_stream().value();
    driver_.submit(block(stream, program, mask));
    card_.run_until_idle();
  }
  void slices(unsigned count) {
    for (unsigned i = 0; i < count; ++i) slice();
  }
  // One region released under a kernel that runs until it is let go: takes one address space out of use.
  void retire_one() {
    const auto region = driver_.acquire(kRegionBytes).value();
    launch(Program::UntilReleased);
    ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  }
  wire::AdminRequest release_request(const RegionHandle& region) {
    auto request = driver_.admin_request(wire::AdminCommand::RegionRelease);
    request.arguments.region_release.region_id = region.id;
    request.arguments.region_release.generation = region.generation;
    return request;
  }
  // Status 0 with the cores at work.
  void reset_function() {
    driver_.send(driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0}));
    for (int i = 0; i < 100; ++i) {
      card_.run_until_idle();
      if (driver_.receive()) return;
      slice();
    }
    FAIL() << "the reset never ended";
  }
};

class ReleaseUnderLaunchOnFour : public ReleaseUnderLaunch {
 protected:
  ReleaseUnderLaunchOnFour() : ReleaseUnderLaunch(4) {}
};

TEST_F(ReleaseUnderLaunch, AKernelGoesOnComputingOnARegionThatItsOwnerReleased) {
  const auto region = driver_.acquire(kRegionBytes).value();
  const auto at = base(0);
  launch(Program::Accumulates);
  slices(3);
  EXPECT_EQ(driver_.release(region).outcome, Outcome::Ok);
  slices(4);
  EXPECT_EQ(sum(at), 7u);
  EXPECT_TRUE(driver_.collect().empty());
  kernels_.released = true;  // it ends with the first touch of a granule that nobody has touched before
  slice();
  EXPECT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok);
}

TEST_F(ReleaseUnderLaunch, TheHandleIsVoidAtOnce) {
  const auto region = driver_.acquire(kRegionBytes).value();
  launch(Program::Accumulates);
  slice();
  ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.release(region).status, Status::UnknownRegion);
  const auto end = driver_.run(driver_.fill(stream_, region, 0, 128, 1));
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.status, Status::UnknownRegion);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  ASSERT_TRUE(driver_.acquire(kRegionBytes));
  EXPECT_EQ(driver_.run(driver_.fill(stream_, region, 0, 128, 1)).status, Status::StaleRegion);
}

TEST_F(ReleaseUnderLaunch, TheMemoryIsNobodysUntilTheLastLaunchEndedAndThenItIsZero) {
  const auto region = driver_.acquire(kRegionBytes).value();
  const auto at = base(0);
  launch(Program::Accumulates);
  launch(Program::Accumulates);
  slices(2);
  const auto free = pool().free_bytes();
  ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  card_.pump();
  EXPECT_EQ(pool().free_bytes(), free);
  EXPECT_FALSE(pool().scrubbing());
  EXPECT_EQ(held_bytes(), kRegionBytes);
  // All the rest can be had, and none of it is the region.
  auto& second = card_.driver(3);
  ASSERT_TRUE(second.bring_up());
  const auto rest = second.acquire(pool().largest_bytes(3)).value();
  const auto rest_at = card_.function(3).regions.at(0).base;
  while (const auto more = pool().largest_bytes(function().id())) ASSERT_TRUE(driver_.acquire(more));
  EXPECT_TRUE(rest_at + rest.bytes <= at || at + kRegionBytes <= rest_at);
  kernels_.released = true;
  slice();  // of two
  card_.run_until_idle();
  EXPECT_EQ(held_bytes(), kRegionBytes);
  slice();
  card_.run_until_idle();
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_TRUE(pool().scrubbing()) << "quarantined";
  EXPECT_FALSE(clean(at, kRegionBytes));
  ASSERT_TRUE(driver_.acquire(kRegionBytes));  // waits for the scrub
  bool again = false;
  for (unsigned i = 0; i < wire::kProgramRegion; ++i) again |= base(i) == at;
  EXPECT_TRUE(again);
  EXPECT_TRUE(clean(at, kRegionBytes));
}

TEST_F(ReleaseUnderLaunch, TheSameOrdinalAgainIsAnotherRegionAndEachKernelSeesItsOwn) {
  const auto first = driver_.acquire(kRegionBytes).value();
  const auto first_at = base(0);
  launch(Program::Accumulates);
  slices(3);
  ASSERT_EQ(driver_.release(first).outcome, Outcome::Ok);
  const auto second = driver_.acquire(kRegionBytes).value();
  const auto second_at = base(0);
  EXPECT_EQ(second.id, first.id);
  EXPECT_NE(second.generation, first.generation);
  EXPECT_NE(second_at, first_at);
  launch(Program::Accumulates);
  slices(10);  // of both, in turn
  EXPECT_EQ(sum(first_at), 3u + 5);
  EXPECT_EQ(sum(second_at), 5u);
  kernels_.released = true;
  slices(2);
  for (const auto& end : driver_.wait_for(2)) EXPECT_EQ(end.completion.outcome, Outcome::Ok);
  EXPECT_EQ(sum(second_at), 5u);
}

// The region that goes second is mapped by the space that the first one retired, too.
TEST_F(ReleaseUnderLaunch, ARegionThatTwoSpacesMapGoesBackWithTheLastOfThem) {
  const auto first = driver_.acquire(kRegionBytes).value();
  const auto second = driver_.acquire(kRegionBytes).value();
  const auto free = pool().free_bytes();
  launch(Program::UntilReleased);
  ASSERT_EQ(driver_.release(first).outcome, Outcome::Ok);
  StreamHandle short_lived = driver_.open_stream().value();
  driver_.submit(block(short_lived, Program::Slices));
  card_.run_until_idle();
  ASSERT_EQ(driver_.release(second).outcome, Outcome::Ok);
  EXPECT_EQ(held_bytes(), 2 * kRegionBytes);
  slices(60);
  EXPECT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok) << "the later launch";
  EXPECT_EQ(held_bytes(), 2 * kRegionBytes);
  EXPECT_EQ(pool().free_bytes(), free);
  kernels_.released = true;
  slice();
  EXPECT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok);
  EXPECT_EQ(pool().free_bytes(), free + 2 * kRegionBytes);
}

TEST_F(ReleaseUnderLaunch, WhatALaunchStillUsesCountsAgainstTheQuota) {
  function().set_quota(programs_.bytes + kRegionBytes);
  const auto region = driver_.acquire(kRegionBytes).value();
  launch(Program::Accumulates);
  ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  auto request = driver_.admin_request(wire::AdminCommand::RegionAcquire);
  request.arguments.region_acquire = {kRegionBytes, wire::RegionType::Tensor};
  const auto refused = driver_.admin(request);
  EXPECT_EQ(refused.status, Status::QuotaExceeded);
  EXPECT_EQ(refused.values.region.free_bytes, 0u);
  kernels_.released = true;
  slice();
  EXPECT_EQ(driver_.wait_for(1)[0].completion.status, Status::None);
  EXPECT_TRUE(driver_.acquire(kRegionBytes));
}

TEST_F(ReleaseUnderLaunch, AReleaseWaitsWhileEveryAddressSpaceIsInUse) {
  for (unsigned i = 0; i + 1 < fw::kSpacesPerFunction; ++i) retire_one();
  const auto region = driver_.acquire(kRegionBytes).value();
  launch(Program::UntilReleased);
  const auto slot = driver_.send_admin(release_request(region));
  card_.run_until_idle();
  slice();
  card_.run_until_idle();
  EXPECT_FALSE(driver_.ring(wire::kAdminQueue).has_used());
  EXPECT_EQ(driver_.run(driver_.fill(stream_, region, 0, 128, 1)).outcome, Outcome::Ok) << "still its owner's";
  kernels_.released = true;
  slice();  // the oldest of them ends
  const auto reply = driver_.wait_admin(slot);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->outcome, Outcome::Ok);
  slices(fw::kSpacesPerFunction);
  EXPECT_EQ(driver_.wait_for(fw::kSpacesPerFunction).size(), std::size_t{fw::kSpacesPerFunction});
  EXPECT_EQ(held_bytes(), 0u);
}

TEST_F(ReleaseUnderLaunch, ARegionThatNoKernelMapsGoesBackAtOnce) {
  launch(Program::UntilReleased);
  const auto free = pool().free_bytes();
  const auto region = driver_.acquire(kRegionBytes).value();
  ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  EXPECT_EQ(pool().free_bytes(), free);
}

TEST_F(ReleaseUnderLaunch, AKernelOutlivesTheProgramRegionThatItWasLoadedFrom) {
  auto other = driver_.open_stream().value();
  driver_.submit(block(other, Program::UntilReleased));
  card_.run_until_idle();
  slice();
  ASSERT_EQ(driver_.release(programs_).outcome, Outcome::Ok);
  EXPECT_EQ(held_bytes(), 0u) << "nothing maps it";
  EXPECT_EQ(run(Program::Exit).status, Status::UnknownRegion);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  // The same place again, with another image where the first one lay: what was cached is not what runs.
  programs_ = fwtest::load_programs(driver_, stream_);
  const auto image = fwtest::image_of(Program::ExitWithFive);
  std::memcpy(driver_.at<std::byte>(wire::kHostMemoryOffset), image.data(), image.size());
  const auto place = static_cast<std::uint64_t>(Program::UntilReleased) * fwtest::kImageStride;
  driver_.run(driver_.dma(stream_, RawDriver::host(wire::kHostMemoryOffset), RawDriver::device(programs_, place),
                          image.size()));
  driver_.submit(block(stream_, Program::UntilReleased));
  card_.run_until_idle();
  slices(2);
  EXPECT_EQ(driver_.wait_for(1)[0].completion.status, Status::KernelStatus);
  kernels_.released = true;
  slice();
  EXPECT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok);
}

// Its space does not map the region; what it maps does not change under it.
TEST_F(ReleaseUnderLaunch, ARegionAcquiredLaterIsStrayForAKernelThatBeganWithoutIt) {
  launch(Program::TouchesLate);
  slice();
  ASSERT_TRUE(driver_.acquire(kRegionBytes));
  kernels_.released = true;
  slice();
  const auto end = driver_.wait_for(1)[0].completion;
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::StoreFault);
  EXPECT_EQ(end.fault.region_ordinal, 0u);
  EXPECT_EQ(run(Program::Touches).outcome, Outcome::Ok);
}

TEST_F(ReleaseUnderLaunch, OnlyATransferOfThatRegionItselfKeepsIt) {
  const auto moving = driver_.acquire(60 * wire::kMiB).value();
  const auto other = driver_.acquire(kRegionBytes).value();
  launch(Program::UntilReleased);
  driver_.submit(driver_.fill(stream_, moving, 0, moving.bytes, 1));
  const auto busy = driver_.send_admin(release_request(moving));
  const auto fine = driver_.send_admin(release_request(other));
  fw::run_iteration(card_.card());  // a step of the transfer, then both commands
  EXPECT_EQ(function().streams[0].phase, fw::Stream::Phase::Moving);
  EXPECT_EQ(driver_.wait_admin(busy)->status, Status::Busy);
  EXPECT_EQ(driver_.wait_admin(fine)->outcome, Outcome::Ok);
  EXPECT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok);
}

TEST_F(ReleaseUnderLaunch, AFunctionResetEndsRetiredSpacesToo) {
  for (unsigned i = 0; i + 1 < fw::kSpacesPerFunction; ++i) retire_one();
  const auto region = driver_.acquire(kRegionBytes).value();
  launch(Program::Accumulates);
  slices(8);
  ASSERT_NE(sum(base(0)), 0u);
  (void)region;
  reset_function();
  EXPECT_EQ(card_.board().pages_in_use(), 0u);
  EXPECT_EQ(hal::table_pages(), 0u);
  EXPECT_EQ(spaces().held_pages_bytes(function().id()), 0u);
  EXPECT_EQ(held_bytes(), 0u);
  card_.pump();
  EXPECT_EQ(pool().free_bytes(), pool().total_bytes());
  EXPECT_TRUE(clean(hal::region_memory().begin, pool().total_bytes()));
}

// What the firmware accounts is what the board handed out, through every way of making and ending spaces.
TEST_F(ReleaseUnderLaunch, AccountedPagesAreThePagesInUse) {
  const auto accounted = [&] {
    return card_.board().pages_in_use() + hal::table_pages() * fw::kPageBytes ==
           spaces().held_pages_bytes(function().id());
  };
  retire_one();
  EXPECT_TRUE(accounted());
  retire_one();
  EXPECT_TRUE(accounted());
  kernels_.released = true;
  slices(2);
  EXPECT_EQ(driver_.wait_for(2).size(), 2u);
  EXPECT_TRUE(accounted());
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  EXPECT_TRUE(accounted());
}

// The real thing: harts as threads; regions come and go under launches of all kinds, and streams are reset.
TEST_F(ReleaseUnderLaunchOnFour, RandomReleasesLoseNoPartAndNoMemory) {
  std::vector<StreamHandle> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(driver_.open_stream().value());
  std::vector<RegionHandle> regions;
  card_.start_loop();
  std::mt19937_64 random(7);
  constexpr Program kPrograms[] = {Program::Exit, Program::Barriers, Program::Slices, Program::Touches,
                                   Program::Accumulates};
  std::size_t submitted = 0, ended = 0, released = 0;
  const auto collect = [&] { ended += driver_.collect().size(); };
  for (int step = 0; step < 3000; ++step) {
    auto& s = streams[random() % streams.size()];
    const auto dice = random() % 16;
    if (dice == 0) {
      ASSERT_EQ(driver_.reset_stream(s).outcome, Outcome::Ok);
    } else if (dice < 3 && regions.size() < 4) {
      regions.push_back(driver_.acquire(kRegionBytes).value());
    } else if (dice < 5 && !regions.empty()) {
      std::swap(regions[random() % regions.size()], regions.back());
      ASSERT_EQ(driver_.release(regions.back()).outcome, Outcome::Ok);
      regions.pop_back();
      ++released;
    } else if (submitted - ended < 60) {
      driver_.submit(block(s, kPrograms[random() % std::size(kPrograms)], random() % 16));
      ++submitted;
    }
    if (random() % 4 == 0) card_.board().doorbell();
    collect();
  }
  kernels_.released = true;
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kAnswer;
  while (ended < submitted && std::chrono::steady_clock::now() < limit) {
    card_.board().doorbell();
    collect();
  }
  EXPECT_EQ(ended, submitted);
  EXPECT_GT(released, 100u);
  EXPECT_EQ(driver_.set_status(0), 0u);
  card_.stop_loop();
  card_.pump();
  EXPECT_EQ(card_.board().pages_in_use(), 0u);
  EXPECT_EQ(pool().free_bytes(), pool().total_bytes());
}

}  // namespace
