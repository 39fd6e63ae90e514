// SPDX-License-Identifier: Apache-2.0
// What functions share of cores and firmware memory: slices in turn, launches and pages of their own. Kernels are
// played and slices are taken one by one, so every count is exact.
#include "firmware/hal/hart.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Program;
using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kNoWatchdog = 1'000'000;  // slices
constexpr unsigned kSlicesOfSlices = 21;          // that Program::Slices takes

// One more function of the card, ready to launch.
struct Neighbour {
  Neighbour(fwtest::TestCard& card, unsigned slot) : driver(card.driver(slot)) {
    EXPECT_TRUE(driver.bring_up(wire::kMandatoryFeatures));
    programs = fwtest::load_programs(driver, stream);
  }
  void launch(Program program, std::uint64_t mask = 0) {
    StreamHandle own = driver.open_stream().value();
    auto block = fwtest::launch_of(driver, own, programs, program, mask);
    block.header.budget = kNoWatchdog;
    driver.submit(block);
  }

  RawDriver& driver;
  StreamHandle stream;
  RegionHandle programs{};
};

class FairCores : public fwtest::Launch {
 protected:
  using Launch::Launch;

  // Returns the stream.
  std::uint32_t launch(Program program, std::uint64_t mask = 0, bool high = false) {
    StreamHandle own = driver_.open_stream(high).value();
    auto launch = block(own, program, mask);
    launch.header.budget = kNoWatchdog;
    driver_.submit(launch);
    return own.id;
  }
  // Slices of core 0 until the driver's only launch has ended.
  unsigned slices_until_end(RawDriver& driver) {
    for (unsigned slices = 1; slices < 1000; ++slices) {
      slice();
      card_.run_until_idle();
      if (!driver.collect().empty()) return slices;
    }
    ADD_FAILURE() << "it never ended";
    return 0;
  }
};

TEST_F(FairCores, AFunctionWithFourKernelsGetsOneSliceOutOfTwo) {
  Neighbour other(card_, 3);
  for (unsigned i = 0; i < fw::kContextsPerCore; ++i) launch(Program::Endless);
  card_.run_until_idle();
  other.launch(Program::Slices);
  card_.run_until_idle();
  EXPECT_LE(slices_until_end(other.driver), 2 * kSlicesOfSlices);
}

TEST_F(FairCores, ThreeFunctionsGetOneSliceOutOfThreeEach) {
  Neighbour second(card_, 3), third(card_, 1);
  for (unsigned i = 0; i < fw::kContextsPerCore; ++i) launch(Program::Endless), second.launch(Program::Endless);
  card_.run_until_idle();
  third.launch(Program::Slices);
  card_.run_until_idle();
  const unsigned slices = slices_until_end(third.driver);
  EXPECT_LE(slices, 3 * kSlicesOfSlices);
  EXPECT_GE(slices, 3 * (kSlicesOfSlices - 1)) << "the others had theirs";
}

TEST_F(FairCores, AWeightIsANumberOfSlicesPerRound) {
  Neighbour other(card_, 3);
  launch(Program::Endless);
  card_.run_until_idle();
  card_.card().run_queues.set_weight(3, 3);
  other.launch(Program::Slices);
  card_.run_until_idle();
  const unsigned slices = slices_until_end(other.driver);
  EXPECT_LE(slices, kSlicesOfSlices * 4 / 3 + 1);
  EXPECT_GE(slices, kSlicesOfSlices * 4 / 3 - 1);
}

// ---- priority -------------------------------------------------------------------------------------------------------

TEST_F(FairCores, AKernelOfHighPriorityGoesFirstAndLeavesTheOthersAFifth) {
  for (unsigned i = 0; i + 1 < fw::kContextsPerCore; ++i) launch(Program::Endless);
  card_.run_until_idle();
  for (unsigned i = 0; i < 10; ++i) slice();
  launch(Program::Slices, 0, true);
  card_.run_until_idle();
  const unsigned slices = slices_until_end(driver_);
  EXPECT_LE(slices, kSlicesOfSlices + kSlicesOfSlices / fw::kHighInARow);
  EXPECT_GE(slices, kSlicesOfSlices + kSlicesOfSlices / fw::kHighInARow - 1) << "low priority starves";
}

TEST_F(FairCores, AKernelOfLowPriorityEndsBesideHighOnesThatNeverDo) {
  for (unsigned i = 0; i + 1 < fw::kContextsPerCore; ++i) launch(Program::Endless, 0, true);
  card_.run_until_idle();
  launch(Program::Slices);
  card_.run_until_idle();
  EXPECT_LE(slices_until_end(driver_), kSlicesOfSlices * (fw::kHighInARow + 1));
}

// Priority orders the streams of one function. What the functions get of a core is not changed by it.
TEST_F(FairCores, PriorityTakesNothingFromAnotherFunction) {
  Neighbour other(card_, 3);
  for (unsigned i = 0; i < fw::kContextsPerCore; ++i) launch(Program::Endless, 0, true);
  card_.run_until_idle();
  other.launch(Program::Slices);
  card_.run_until_idle();
  EXPECT_LE(slices_until_end(other.driver), 2 * kSlicesOfSlices);
}

TEST_F(FairCores, RoomOnACoreGoesToHighPriorityFirst) {
  for (unsigned i = 0; i < fw::kContextsPerCore; ++i) launch(Program::Slices);
  card_.run_until_idle();
  launch(Program::Exit);
  launch(Program::Exit);
  const std::uint32_t high = launch(Program::Exit, 0, true);
  card_.run_until_idle();
  ASSERT_TRUE(card_.function(2).streams.any_waiting());
  std::vector<std::uint32_t> order;
  for (unsigned i = 0; i < 1000 && order.size() < fw::kContextsPerCore + 3; ++i) {
    slice();
    card_.run_until_idle();
    for (const auto& end : driver_.collect()) order.push_back(end.completion.stream);
  }
  ASSERT_EQ(order.size(), fw::kContextsPerCore + 3);
  EXPECT_EQ(order[1], high) << "the first that ended made room";
}

TEST_F(FairCores, TheKernelsOfOneFunctionAlternate) {
  launch(Program::Slices);
  launch(Program::Slices);
  card_.run_until_idle();
  EXPECT_EQ(slices_until_end(driver_), 2 * kSlicesOfSlices - 1);
  EXPECT_EQ(slices_until_end(driver_), 1u);
}

// A kernel that ends and is launched again at once does not push a slice of another function back.
TEST_F(FairCores, ABurstOfShortKernelsGetsNoMoreThanItsShare) {
  Neighbour other(card_, 3);
  other.launch(Program::Slices);
  card_.run_until_idle();
  unsigned ended = 0, slices = 0;
  while (other.driver.collect().empty()) {
    ASSERT_LT(slices, 1000u);
    auto block = fwtest::launch_of(driver_, stream_, programs_, Program::Exit);
    driver_.submit(block);
    card_.run_until_idle();
    slice();
    card_.run_until_idle();
    ++slices;
    ended += static_cast<unsigned>(driver_.collect().size());
  }
  EXPECT_LE(slices, 2 * kSlicesOfSlices);
  EXPECT_GE(ended, kSlicesOfSlices - 1);
}

class FairCoresOnEight : public FairCores {
 protected:
  FairCoresOnEight() : FairCores(8) {}
};

TEST_F(FairCoresOnEight, AFunctionAtItsLaunchLimitStopsNobodyElse) {
  Neighbour other(card_, 3);
  constexpr unsigned kLaunches = fw::kLaunchesPerFunction + 3;
  for (unsigned i = 0; i < kLaunches; ++i) launch(Program::UntilReleased, std::uint64_t{1} << i % 8);
  card_.run_until_idle();
  EXPECT_TRUE(card_.function(2).streams.any_waiting());
  other.launch(Program::Exit);
  card_.run_until_idle();
  slice();
  slice();
  card_.run_until_idle();
  const auto ended = other.driver.collect();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Ok);
  EXPECT_TRUE(driver_.collect().empty());
  // What waited gets its room when one of the same function ends.
  kernels_.released = true;
  for (int i = 0; i < 5; ++i) slice(), card_.run_until_idle();
  EXPECT_EQ(driver_.collect().size(), kLaunches);
}

// Launches wait in the order of their streams; each that ends calls one. One that is called, or would be, and is reset
// instead keeps nobody from being called.
TEST_F(FairCoresOnEight, EveryLaunchThatWaitsIsCalledWhoeverIsResetMeanwhile) {
  constexpr unsigned kWaiting = 5;
  for (unsigned i = 0; i < fw::kLaunchesPerFunction; ++i) launch(Program::Slices, std::uint64_t{1} << i % 8);
  std::vector<StreamHandle> streams;
  for (unsigned i = 0; i < kWaiting; ++i) {
    streams.push_back(driver_.open_stream().value());
    driver_.submit(block(streams.back(), Program::Slices, 1));
  }
  card_.run_until_idle();
  ASSERT_TRUE(card_.function(2).streams.any_waiting());
  std::size_t ok = 0;
  std::size_t aborted = 0;
  for (int i = 0; i < 400 && ok + aborted < fw::kLaunchesPerFunction + kWaiting; ++i) {
    for (unsigned core = 0; core < 8; ++core) card_.card().launches.run_slice(core, fw::kSliceTicks);
    if (i == 1 || i == 2) EXPECT_EQ(driver_.reset_stream(streams[i == 1 ? 0 : 4]).outcome, Outcome::Ok);
    card_.run_until_idle();
    for (const auto& end : driver_.collect()) ++(end.completion.outcome == Outcome::Ok ? ok : aborted);
  }
  EXPECT_EQ(ok + aborted, fw::kLaunchesPerFunction + kWaiting);
  EXPECT_EQ(aborted, 2u);
  EXPECT_FALSE(card_.function(2).streams.any_waiting());
}

// As many launches as a card can have, all on one core: eight of each function, on two address spaces.
class FairCoresOfAll : public FairCores {
 protected:
  static constexpr unsigned kVirtual = wire::boot::kMaxVirtualFunctions;
  FairCoresOfAll() : FairCores(1, 1024 * wire::kMiB, kVirtual) {}
};

TEST_F(FairCoresOfAll, EveryLaunchOfEveryFunctionFindsItsPlaceInAQueue) {
  std::vector<std::unique_ptr<Neighbour>> functions;
  for (unsigned slot = 1; slot <= kVirtual + 1; ++slot) {
    functions.push_back(std::make_unique<Neighbour>(card_, slot));
    Neighbour& f = *functions.back();
    const auto region = f.driver.acquire(2 * wire::kMiB).value();
    for (unsigned i = 0; i < fw::kContextsPerCore; ++i) f.launch(Program::UntilReleased);
    card_.run_until_idle();
    ASSERT_EQ(f.driver.release(region).outcome, Outcome::Ok);
    for (unsigned i = fw::kContextsPerCore; i < fw::kLaunchesPerFunction; ++i) f.launch(Program::UntilReleased);
    card_.run_until_idle();
    EXPECT_FALSE(card_.function(slot).streams.any_waiting());
  }
  const unsigned all = (kVirtual + 1) * fw::kLaunchesPerFunction;
  kernels_.slices = 0;
  for (unsigned i = 0; i < 3 * all; ++i) slice();
  EXPECT_EQ(kernels_.slices, 3 * all);
  kernels_.released = true;
  for (unsigned i = 0; i < all; ++i) slice();
  card_.run_until_idle();  // collects them all at once
  EXPECT_FALSE(slice()) << "a part was queued twice";
  for (auto& f : functions) {
    const auto ended = f->driver.collect();
    EXPECT_EQ(ended.size(), fw::kLaunchesPerFunction);
    for (const auto& end : ended) EXPECT_EQ(end.completion.outcome, Outcome::Ok);
  }
}

// ---- firmware memory ------------------------------------------------------------------------------------------------

class FairPages : public FairCores {
 protected:
  static constexpr unsigned kCores = 4;
  // Room for three functions with the smallest share each, and a little that is nobody's.
  FairPages() : FairCores(kCores, 3 * fw::AddressSpaces::smallest_share(kCores) + 3 * wire::kMiB) {}
  static constexpr std::uint64_t kAll = (std::uint64_t{1} << kCores) - 1;
};

TEST_F(FairPages, AFunctionThatTakesAllItCanLeavesTheOthersTheirShare) {
  Neighbour second(card_, 3), third(card_, 1);
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  for (unsigned i = 0; i < fw::kContextsPerCore; ++i) launch(Program::UntilReleased, kAll);
  card_.run_until_idle();
  // A new address space would be more of the same.
  ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  for (unsigned i = 0; i < fw::kContextsPerCore; ++i) launch(Program::UntilReleased, kAll);
  card_.run_until_idle();
  auto& spaces = card_.card().spaces;
  EXPECT_TRUE(card_.function(2).streams.any_waiting());
  EXPECT_LE(spaces.held_pages_bytes(2), spaces.share_bytes());
  for (Neighbour* other : {&second, &third}) {
    other->launch(Program::Barriers, kAll);
    card_.run_until_idle();
    for (unsigned i = 0; i < 20; ++i) slice(), card_.run_until_idle();
    const auto ended = other->driver.collect();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].completion.outcome, Outcome::Ok);
  }
  // All that waited runs in the end, one after the other.
  kernels_.released = true;
  for (int i = 0; i < 100; ++i) slice(), card_.run_until_idle();
  const auto ended = driver_.collect();
  EXPECT_EQ(ended.size(), 2 * fw::kContextsPerCore);
  for (const auto& end : ended) EXPECT_EQ(end.completion.outcome, Outcome::Ok);
}

// Contexts that launches left behind on one core are in the way of the next launch on others: they make room.
TEST_F(FairPages, WhatIsOnlyCachedMakesRoom) {
  auto& spaces = card_.card().spaces;
  for (int lap = 0; lap < 3; ++lap) {
    for (unsigned i = 0; i < fw::kContextsPerCore; ++i) launch(Program::Slices, 1);
    card_.run_until_idle();
    for (int i = 0; i < 100; ++i) slice(), card_.run_until_idle();
    ASSERT_EQ(driver_.collect().size(), fw::kContextsPerCore);
    ASSERT_GT(spaces.held_pages_bytes(2) + 3 * wire::kScratchpadBytes, spaces.share_bytes());
    EXPECT_EQ(run(Program::Barriers, kAll & ~std::uint64_t{1}).outcome, Outcome::Ok);
  }
}

TEST_F(FairCores, PagesComeToTheNextFunctionAsZeros) {
  ASSERT_EQ(run(Program::Scribbles).outcome, Outcome::Ok);
  ASSERT_EQ(run(Program::FindsBytes).status, Status::KernelStatus) << "the probe finds nothing";
  const std::uint64_t used = card_.board().pages_in_use();
  ASSERT_EQ(driver_.set_status(0), 0u);
  Neighbour next(card_, 3);
  next.launch(Program::FindsBytes);
  next.launch(Program::FindsBytes);
  card_.run_until_idle();
  slice();
  slice();
  for (const auto& end : next.driver.wait_for(2)) EXPECT_EQ(end.completion.outcome, Outcome::Ok);
  EXPECT_GE(card_.board().pages_in_use(), used / 2) << "the same pages";
}

}  // namespace
