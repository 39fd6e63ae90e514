// SPDX-License-Identifier: Apache-2.0
// Launches whose first slice runs where they are started (firmware/core/first_slices.hpp): they end as those that are
// queued do, they are stopped as those are, and nobody waits for them.
#include "firmware/core/first_slices.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "firmware/hal/address_space.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Launch;
using fwtest::Program;
using fwtest::RawDriver;
using fwtest::StreamHandle;
using wire::Outcome;
using wire::Status;

class FirstSlices : public Launch {
 protected:
  explicit FirstSlices(unsigned harts = 1) : Launch(harts) {}

  void allow(bool on = true) { card_.card().first_slices.allow(on); }
  // The usual way to its end: the image is loaded and named then.
  wire::Completion run_queued(Program program) {
    allow(false);
    const auto end = run(program);
    if (end.outcome != Outcome::Ok) {
      EXPECT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    }
    allow();
    kernels_.slices = 0;
    return end;
  }
  // Iterations alone: the cores' own work is not done.
  void submit(Program program, std::uint64_t mask = 0) {
    driver_.submit(block(stream_, program, mask));
    card_.run_until_idle();
  }
  bool active() const { return const_cast<fwtest::TestCard&>(card_).card().launches.active(2); }
};

class FirstSlicesOnFour : public FirstSlices {
 protected:
  FirstSlicesOnFour() : FirstSlices(4) {}
};

TEST_F(FirstSlices, AKernelThatExitsEndsInTheIterationThatStartsIt) {
  run_queued(Program::Exit);
  for (unsigned i = 1; i <= 20; ++i) {
    submit(Program::Exit);
    const auto ended = driver_.collect();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].completion.outcome, Outcome::Ok);
    EXPECT_NE(ended[0].completion.start_time, 0u);
    EXPECT_GE(ended[0].completion.end_time, ended[0].completion.start_time);
    EXPECT_EQ(kernels_.slices, i);
    EXPECT_FALSE(active());
  }
  EXPECT_FALSE(slice()) << "something was queued";
  EXPECT_EQ(card_.function(2).counters().launches, 21u);
}

TEST_F(FirstSlices, EveryWayToFailIsToldAsOfAQueuedLaunch) {
  for (const auto program : {Program::ExitWithFive, Program::Strays, Program::BadCall, Program::Touches,
                             Program::WritesText, Program::BrokenStack}) {
    const auto queued = run_queued(program);
    driver_.submit(block(stream_, program));
    driver_.submit(block(stream_, Program::Exit));
    card_.run_until_idle();
    EXPECT_EQ(kernels_.slices, 1u) << "it was not started at once";
    while (slice()) card_.run_until_idle();  // those that were tried again
    const auto ended = driver_.collect();
    ASSERT_EQ(ended.size(), 2u);
    const wire::Completion& end = ended[0].completion;
    EXPECT_EQ(end.outcome, queued.outcome);
    EXPECT_EQ(end.status, queued.status) << wire::name(end.status);
    EXPECT_EQ(std::memcmp(&end.fault, &queued.fault, sizeof end.fault), 0);
    EXPECT_EQ(ended[1].completion.outcome, Outcome::Aborted);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    EXPECT_FALSE(active());
  }
}

TEST_F(FirstSlices, AFirstTouchIsServed) {
  ASSERT_TRUE(driver_.acquire(8 * wire::kMiB));
  allow(false);
  run(Program::Exit);
  allow();
  EXPECT_EQ(run(Program::Touches).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Touches).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Barriers).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Barriers).outcome, Outcome::Ok);
}

// Status 0 takes as long as a quantum, and this quantum has begun when it comes: while others are busy it waits for the
// next one.
TEST_F(FirstSlices, AMessageThatComesWhileAFunctionIsServedIsAVisitOfItsOwn) {
  run_queued(Program::Exit);
  RawDriver& neighbour = card_.driver(3);
  ASSERT_TRUE(neighbour.bring_up(wire::kMandatoryFeatures));
  StreamHandle waiting = neighbour.open_stream().value();
  // Never quiet.
  neighbour.submit(neighbour.event_wait(waiting, StreamHandle{}, 1, 3600 * wire::kTicksPerSecond));
  card_.run_until_idle();
  ASSERT_TRUE(card_.card().plan.busy(card_.function(3)));

  const auto begun = [&] { return card_.function(2).generation(); };
  const auto before = begun();
  kernels_.in_slice = [&] {
    driver_.send(driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{wire::kStatusReset}));
  };
  driver_.submit(block(stream_, Program::Exit));
  for (int i = 0; i < 1000 && kernels_.slices == 0; ++i) fw::run_iteration(card_.card());
  ASSERT_EQ(kernels_.slices, 1u);
  EXPECT_EQ(begun(), before) << "the reset began behind the launch";
  fw::run_iteration(card_.card());
  EXPECT_NE(begun(), before);
}

TEST_F(FirstSlices, TheFirstSliceCountsForTheWatchdog) {
  run_queued(Program::Endless);
  const auto end = run(Program::Endless);
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_EQ(end.status, Status::WatchdogExpired);
  EXPECT_EQ(end.slices, 6u) << "twice three, of which the first was shorter";
  EXPECT_EQ(kernels_.slices, 7u);
}

TEST_F(FirstSlices, AKernelThatGoesOnIsStoppedByItsOwner) {
  run_queued(Program::Endless);
  submit(Program::Endless);
  EXPECT_EQ(kernels_.slices, 1u);
  ASSERT_TRUE(active());
  card_.card().launches.stop_all(2);
  while (slice()) card_.run_until_idle();
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[0].completion.status, Status::Stopped);
  EXPECT_EQ(kernels_.slices, 1u) << "it ran on";
}

TEST_F(FirstSlices, AFunctionResetEndsAKernelThatGoesOnAndFreesItsPages) {
  run_queued(Program::Endless);
  submit(Program::Endless);
  ASSERT_TRUE(active());
  driver_.send(driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0}));
  card_.run_until_idle();
  EXPECT_FALSE(driver_.receive()) << "the kernel is still in U-mode";
  while (slice()) card_.run_until_idle();
  EXPECT_TRUE(driver_.receive());
  EXPECT_EQ(card_.board().pages_in_use(), 0u);
  EXPECT_EQ(hal::table_pages(), 0u);
}

TEST_F(FirstSlices, WhileAKernelGoesOnTheOthersAreQueued) {
  // Once beside each other, so that the second context has the image as well.
  auto other = driver_.open_stream().value();
  driver_.submit(block(stream_, Program::Endless));
  driver_.submit(block(other, Program::Exit));
  card_.run_until_idle();
  while (slice()) card_.run_until_idle();
  EXPECT_EQ(driver_.collect().size(), 2u);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  allow();
  kernels_.slices = 0;

  submit(Program::Endless);
  ASSERT_EQ(kernels_.slices, 1u);
  driver_.submit(block(other, Program::Exit));
  card_.run_until_idle();
  EXPECT_EQ(kernels_.slices, 1u) << "it had the core before the one that waits for it";
  EXPECT_TRUE(driver_.collect().empty());
}

TEST_F(FirstSlices, ACoreThatAnotherFunctionWaitsForIsShared) {
  RawDriver& neighbour = card_.driver(3);
  ASSERT_TRUE(neighbour.bring_up(wire::kMandatoryFeatures));
  StreamHandle stream;
  const auto programs = fwtest::load_programs(neighbour, stream);
  run_queued(Program::Exit);
  allow(false);
  neighbour.submit(fwtest::launch_of(neighbour, stream, programs, Program::Endless));
  card_.run_until_idle();
  allow();
  submit(Program::Exit);
  EXPECT_EQ(kernels_.slices, 0u);
  EXPECT_TRUE(driver_.collect().empty());
  slice(), slice();
  card_.run_until_idle();
  EXPECT_EQ(driver_.collect().size(), 1u) << "one slice each";
}

TEST_F(FirstSlices, AnArmedFaultPointFindsItsLaunchQueued) {
  run_queued(Program::Exit);
  wire::FaultSpec spec{};
  spec.point = wire::FaultPoint::KernelResult;
  spec.action = wire::FaultAction::Corrupt;
  ASSERT_TRUE(card_.card().faults.arm(spec, 0).ok());
  submit(Program::Exit);
  EXPECT_EQ(kernels_.slices, 0u);
  card_.card().faults.disarm_all();
  ASSERT_TRUE(slice());
  card_.run_until_idle();
  EXPECT_EQ(driver_.collect().size(), 1u);
  submit(Program::Exit);
  EXPECT_EQ(driver_.collect().size(), 1u);
}

// What an earlier launch has found out of an image holds as long as nothing has changed.
TEST_F(FirstSlices, AnOverwrittenImageIsLoadedAnew) {
  run_queued(Program::Exit);
  const auto other = fwtest::image_of(Program::ExitWithFive);
  std::memcpy(driver_.at<std::byte>(wire::kHostMemoryOffset), other.data(), other.size());
  ASSERT_EQ(driver_
                .run(driver_.dma(stream_, RawDriver::host(wire::kHostMemoryOffset), RawDriver::device(programs_, 0),
                                 other.size()))
                .outcome,
            Outcome::Ok);
  EXPECT_EQ(run(Program::Exit).status, Status::KernelStatus);
}

TEST_F(FirstSlices, ADamagedRegionEntryIsFound) {
  const auto tensors = driver_.acquire(8 * wire::kMiB).value();
  run_queued(Program::Exit);
  ASSERT_TRUE(card_.function(2).regions.damage(tensors.id, 3));
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok) << "it does not name that region";
  kernels_.slices = 0;
  ASSERT_TRUE(card_.function(2).regions.damage(programs_.id, 3));
  const auto end = run(Program::Exit);
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.status, Status::RegionEntryDamaged);
  EXPECT_EQ(kernels_.slices, 0u);
}

TEST_F(FirstSlices, WrongOperandsAreRefused) {
  run_queued(Program::Exit);
  const auto refused = [&](auto change) {
    auto wrong = block(stream_, Program::Exit);
    change(wrong.payload.compute);
    driver_.submit(wrong);
    card_.run_until_idle();
    const auto ended = driver_.collect();
    EXPECT_EQ(ended.size(), 1u);
    EXPECT_EQ(kernels_.slices, 0u);
    EXPECT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    return ended.empty() ? wire::Completion{} : ended[0].completion;
  };
  const auto segment = refused([&](wire::ComputePayload& compute) {
    compute.segments[5] = {programs_.id, 0, 128, programs_.generation, wire::kSegmentRead, {}};
  });
  EXPECT_EQ(segment.status, Status::WrongRegionType);
  EXPECT_EQ(segment.fault.argument, 5u);
  EXPECT_EQ(refused([](wire::ComputePayload& compute) { ++compute.image.generation; }).status, Status::StaleRegion);
  EXPECT_EQ(refused([](wire::ComputePayload& compute) { compute.image.region_id = 5; }).status, Status::UnknownRegion);
}

TEST_F(FirstSlicesOnFour, OtherCoresAndSeveralCoresAreQueued) {
  run_queued(Program::Exit);
  for (const std::uint64_t mask : {0b10u, 0b1111u}) {
    submit(Program::Exit, mask);
    EXPECT_TRUE(driver_.collect().empty());
    while (slice()) card_.run_until_idle();
    EXPECT_EQ(driver_.collect().size(), 1u);
  }
  submit(Program::Exit, 0b1);
  EXPECT_EQ(driver_.collect().size(), 1u);
}

// Kernels that take a part of a slice each: an iteration has time for so many.
class FirstSlicesOfAnIteration : public testing::Test {
 protected:
  static constexpr std::uint64_t kTicks = fw::kFirstSliceTicks / 4;
  FirstSlicesOfAnIteration()
      : card_({.virtual_functions = 2,
               .region_bytes = 256 * wire::kMiB,
               .kernel = [this](hal::Context&, std::uint64_t slice_ticks) {
                 given_.push_back(slice_ticks);
                 hal::Stop stop{};
                 stop.reason = hal::StopReason::Exit;
                 stop.ran_ticks = kTicks;
                 return stop;
               }}) {
    EXPECT_TRUE(driver_.bring_up(wire::kMandatoryFeatures));
    programs_ = fwtest::load_programs(driver_, stream_);
    submit(1);  // the image is loaded, and named
    card_.run_until_idle();
    card_.card().launches.run_slice(0, fw::kSliceTicks);
    card_.run_until_idle();
    EXPECT_EQ(driver_.collect().size(), 1u);
    given_.clear();
    card_.card().first_slices.allow(true);
  }

  void submit(unsigned launches) {
    for (unsigned i = 0; i < launches; ++i) {
      driver_.submit(fwtest::launch_of(driver_, stream_, programs_, Program::Exit));
    }
  }
  // Those from `first` on, of one iteration: each was given what the ones before it had left.
  void expect_shares_of(std::uint64_t ticks, std::size_t first) const {
    for (std::size_t i = first; i < given_.size(); ++i, ticks -= kTicks) EXPECT_EQ(given_[i], ticks);
  }

  std::vector<std::uint64_t> given_;
  fwtest::TestCard card_;
  RawDriver& driver_ = card_.driver(2);
  StreamHandle stream_;
  fwtest::RegionHandle programs_{};
};

TEST_F(FirstSlicesOfAnIteration, TogetherTakeNoLongerThanOneSlice) {
  constexpr unsigned kLaunches = 10;
  submit(kLaunches);
  for (std::size_t before = 0; given_.size() < kLaunches; before = given_.size()) {
    ASSERT_TRUE(fw::run_iteration(card_.card()));
    EXPECT_LE(given_.size() - before, 4u);
    expect_shares_of(fw::kFirstSliceTicks, before);
  }
  card_.run_until_idle();
  EXPECT_EQ(driver_.collect().size(), kLaunches);
}

TEST_F(FirstSlicesOfAnIteration, TogetherTakeNoLongerThanAQuantumBesideABusyFunction) {
  RawDriver& neighbour = card_.driver(3);
  ASSERT_TRUE(neighbour.bring_up(wire::kMandatoryFeatures));
  StreamHandle stream;
  const auto work = [&] { neighbour.submit(neighbour.nop(stream)); };
  work();
  for (unsigned i = 0; i < 1000 && neighbour.collect().empty(); ++i) fw::run_iteration(card_.card());
  constexpr unsigned kLaunches = 10;
  submit(kLaunches);
  work();
  for (std::size_t before = 0; given_.size() < kLaunches; before = given_.size(), work()) {
    ASSERT_TRUE(fw::run_iteration(card_.card()));
    ASSERT_EQ(card_.card().contended(), !given_.empty()) << "from when the launches were found on";
    EXPECT_EQ(neighbour.collect().size(), 1u) << "it waited for more than a quantum";
    EXPECT_LE(given_.size() - before, 2u);
    expect_shares_of(fw::kQuantumTicks, before);
  }
  card_.run_until_idle();
  EXPECT_EQ(driver_.collect().size(), kLaunches);
}

}  // namespace
