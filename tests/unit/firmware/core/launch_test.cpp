// SPDX-License-Identifier: Apache-2.0
// Launches on cores with played kernels: ends, faults, watchdog, barrier, kill, and what resets do to all of these.
#include "firmware/core/launches.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>

#include "firmware/core/charges.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/hal/hart.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Launch;
using fwtest::Program;
using fwtest::RawDriver;
using fwtest::StreamHandle;
using wire::Outcome;
using wire::Status;

class LaunchOnFour : public Launch {
 protected:
  LaunchOnFour() : Launch(4) {}
};

TEST_F(Launch, AKernelThatExitsWithZeroIsOk) {
  for (int i = 0; i < 20; ++i) {
    const auto end = run(Program::Exit);
    EXPECT_EQ(end.outcome, Outcome::Ok);
    EXPECT_NE(end.start_time, 0u);
  }
}

// What a campaign asks before and after each scenario: nothing may be left.
TEST_F(Launch, ManagementIsToldWhatFunctionsHoldAndNobodyElse) {
  RawDriver& manager = card_.driver(0);
  ASSERT_TRUE(manager.bring_up());
  const auto figures = [](RawDriver& driver) {
    return driver.admin(driver.admin_request(wire::AdminCommand::Query)).values.region;
  };
  const auto none = figures(manager);
  EXPECT_EQ(none.launches + none.streams + none.arena_pages + none.table_pages, 0u);

  const auto opened = driver_.open_stream();
  ASSERT_TRUE(opened);
  driver_.submit(block(stream_, Program::Endless));
  card_.run_until_idle();
  const auto held = figures(manager);
  EXPECT_EQ(held.launches, 1u);
  EXPECT_EQ(held.streams, 1u);
  EXPECT_EQ(held.arena_pages * fw::kPageBytes, card_.card().spaces.held_pages_bytes(2));
  EXPECT_EQ(held.table_pages, hal::table_pages());
  EXPECT_GT(held.table_pages, 0u);
  const auto own = figures(driver_);
  EXPECT_EQ(own.launches + own.streams + own.arena_pages + own.table_pages, 0u);

  // The page that kernels of a fault point jump to is the card's, and stays.
  ASSERT_TRUE(card_.card().spaces.prepare_planted());
  EXPECT_EQ(figures(manager).arena_pages, held.arena_pages);
  while (card_.card().launches.active(2)) slice(), card_.run_until_idle();
  driver_.set_status(0);
  const auto left = figures(manager);
  EXPECT_EQ(left.launches + left.streams + left.arena_pages + left.table_pages, 0u);
}

// A driver that sleeps until the launch ends has nothing else to wake it: neither another block nor an admin command.
TEST_F(Launch, TheLastLaunchToEndRingsTheDoorbellThatTheDriverAskedFor) {
  auto& ring = driver_.ring(wire::kControlBlockQueue);
  for (int i = 0; i < 3; ++i) {
    driver_.submit(block(stream_, Program::Exit));
    card_.run_until_idle();
    ring.ask_for_next(false);
    const auto before = card_.rings(2);
    ASSERT_TRUE(slice());
    card_.run_until_idle();
    EXPECT_EQ(card_.rings(2), before + 1);
    EXPECT_EQ(driver_.collect().size(), 1u);
    ring.ask({0, false, wire::EventFlags::Disable});
  }
}

TEST_F(Launch, EveryWayToFailIsTyped) {
  const struct {
    Program program;
    Outcome outcome;
    Status status;
    std::uint64_t argument;
  } kCases[] = {{Program::ExitWithFive, Outcome::Fault, Status::KernelStatus, 5},
                {Program::Strays, Outcome::Fault, Status::LoadFault, 0},
                {Program::BadCall, Outcome::Fault, Status::BadEnvironmentCall, 99},
                {Program::Endless, Outcome::Timeout, Status::WatchdogExpired, 0},
                {Program::Touches, Outcome::Fault, Status::StoreFault, 0}};  // no region 0: stray
  for (const auto& c : kCases) {
    const auto end = run(c.program);
    EXPECT_EQ(end.outcome, c.outcome) << wire::name(c.status);
    EXPECT_EQ(end.status, c.status) << wire::name(end.status);
    EXPECT_EQ(end.fault.argument, c.argument);
    EXPECT_EQ(run(Program::Exit).outcome, Outcome::Aborted);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  }
}

// A mapping that was made while the hart ran another launch on the same root may be unknown to it at first.
TEST_F(Launch, AStaleTranslationOfAKernelsOwnPagesIsTriedAgain) {
  EXPECT_EQ(run(Program::StaleStack).outcome, Outcome::Ok);
  kernels_.slices = 0;
  const auto broken = run(Program::BrokenStack);
  EXPECT_EQ(broken.status, Status::StoreFault) << "what faults again and again is no stale translation";
  EXPECT_LE(kernels_.slices, 10u);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  kernels_.slices = 0;
  EXPECT_EQ(run(Program::WritesText).status, Status::StoreFault);
  EXPECT_EQ(kernels_.slices, 1u) << "the tables do not allow it: there is nothing to try again";
}

TEST_F(Launch, AFaultRecordNamesRegionOffsetAndPcAndNoAddress) {
  auto end = run(Program::Strays);
  EXPECT_EQ(end.fault.access, wire::FaultAccess::Load);
  EXPECT_EQ(end.fault.region_ordinal, wire::kNoRegionOrdinal);
  EXPECT_EQ(end.fault.offset, 8u);
  EXPECT_EQ(end.fault.pc, static_cast<std::uint64_t>(Program::Strays) * 2 + 12);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  end = run(Program::Touches);
  EXPECT_EQ(end.fault.access, wire::FaultAccess::Store);
  EXPECT_EQ(end.fault.region_ordinal, 0u);
  EXPECT_EQ(end.fault.offset, wire::kGranuleBytes + 5);
}

TEST_F(Launch, TheWatchdogKillsAtTwiceTheBudget) {
  const auto end = run(Program::Endless);
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_EQ(end.slices, 7u) << "twice three and the one that was too much";
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  auto own = block(stream_, Program::Endless);
  own.header.budget = 1;
  driver_.submit(own);
  for (int i = 0; i < 3; ++i) card_.run_until_idle(), slice();
  card_.run_until_idle();
  EXPECT_EQ(driver_.collect().at(0).completion.slices, 3u);
}

TEST_F(Launch, AFirstTouchIsServedAndMarksTheGranuleDirty) {
  ASSERT_TRUE(driver_.acquire(8 * wire::kMiB));
  const auto before = card_.card().pool.dirty_granules(card_.function(2).id());
  EXPECT_EQ(run(Program::Touches).outcome, Outcome::Ok);
  EXPECT_EQ(card_.card().pool.dirty_granules(card_.function(2).id()), before + 1);
  const auto offset = card_.function(2).regions.at(0).base - hal::region_memory().begin;
  EXPECT_EQ(card_.board().region_memory()[offset + wire::kGranuleBytes + 5], std::byte{0x5a});
}

TEST_F(Launch, AnOverwrittenImageIsLoadedAnew) {
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  const auto other = fwtest::image_of(Program::ExitWithFive);
  std::memcpy(driver_.at<std::byte>(wire::kHostMemoryOffset), other.data(), other.size());
  ASSERT_EQ(driver_
                .run(driver_.dma(stream_, fwtest::RawDriver::host(wire::kHostMemoryOffset),
                                 fwtest::RawDriver::device(programs_, 0), other.size()))
                .outcome,
            Outcome::Ok);
  EXPECT_EQ(run(Program::Exit).status, Status::KernelStatus);
}

TEST_F(Launch, ADamagedImageIsRejectedByItsField) {
  const auto upload = [&](std::vector<std::byte> image) {
    std::memcpy(driver_.at<std::byte>(wire::kHostMemoryOffset), image.data(), image.size());
    driver_.run(driver_.dma(stream_, fwtest::RawDriver::host(wire::kHostMemoryOffset),
                            fwtest::RawDriver::device(programs_, 0), image.size()));
  };
  auto image = fwtest::image_of(Program::Exit);
  for (const std::size_t at : {std::size_t{0}, std::size_t{8}, std::size_t{12}, std::size_t{16}, std::size_t{24},
                               std::size_t{200}, image.size() - 1}) {
    auto spoilt = image;
    spoilt[at] ^= std::byte{1};
    upload(spoilt);
    const auto end = run(Program::Exit);
    EXPECT_EQ(end.outcome, Outcome::Rejected) << at;
    EXPECT_EQ(end.field, wire::Field::ImageHeaderField) << at;
    EXPECT_EQ(end.start_time, 0u);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
  upload(image);
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
}

TEST_F(Launch, AFunctionResetGivesAllPagesBack) {
  for (const auto program : {Program::Exit, Program::Slices, Program::Barriers}) run(program);
  EXPECT_GT(card_.board().pages_in_use(), 0u);
  ASSERT_EQ(driver_.set_status(0), 0u);
  EXPECT_EQ(card_.board().pages_in_use(), 0u);
  EXPECT_EQ(hal::table_pages(), 0u);
}

TEST_F(Launch, MoreImagesThanAreasAllRun) {
  for (int lap = 0; lap < 3; ++lap) {
    for (unsigned i = 0; i < wire::kExecutionAreas + 5; ++i) {
      // The same program at ever new places.
      const auto image = fwtest::image_of(Program::Exit);
      std::memcpy(driver_.at<std::byte>(wire::kHostMemoryOffset), image.data(), image.size());
      const std::uint64_t at = wire::kMiB + i * fwtest::kImageStride;
      driver_.run(driver_.dma(stream_, fwtest::RawDriver::host(wire::kHostMemoryOffset),
                              fwtest::RawDriver::device(programs_, at), image.size()));
      driver_.submit(driver_.compute(stream_, programs_, at, image.size(), 1));
      card_.run_until_idle();
      slice();
      ASSERT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok) << i;
    }
  }
}

// ---- resets ---------------------------------------------------------------------------------------------------------

TEST_F(Launch, AStreamResetStopsItsKernelAndAnswersWhenItHasStopped) {
  driver_.submit(block(stream_, Program::UntilReleased));
  for (int i = 0; i < 3; ++i) driver_.submit(driver_.nop(stream_));
  card_.run_until_idle();
  slice();
  const auto slot = driver_.send_admin(driver_.stream_request(wire::AdminCommand::StreamReset, stream_));
  card_.run_until_idle();
  driver_.poll_admin();
  EXPECT_TRUE(driver_.collect().empty()) << "the kernel has not stopped yet";
  slice();
  card_.run_until_idle();
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 4u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[0].completion.status, Status::Stopped);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(ended[i].completion.outcome, Outcome::Aborted);
  const auto reply = driver_.wait_admin(slot).value();
  EXPECT_EQ(reply.outcome, Outcome::Ok);
  stream_ = {0, reply.values.stream.incarnation, 1};
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
}

// The stopped kernel's end must not set the dropped blocks of other streams going again.
TEST_F(Launch, AFunctionResetRunsNothingThatWasQueued) {
  const auto region = driver_.acquire(60 * wire::kMiB).value();
  auto other = driver_.open_stream().value();
  driver_.submit(block(stream_, Program::UntilReleased));
  card_.run_until_idle();
  slice();
  driver_.submit(driver_.fill(other, region, 0, region.bytes, ~0ull));
  fw::run_iteration(card_.card());
  driver_.send(driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0}));
  fw::run_iteration(card_.card());
  EXPECT_FALSE(driver_.receive()) << "a kernel still runs";
  const auto begin = card_.function(2).regions.at(0).base - hal::region_memory().begin;
  const auto memory = card_.board().region_memory().subspan(begin, region.bytes);
  const std::vector<std::byte> before(memory.begin(), memory.end());
  ASSERT_NE(before.back(), std::byte{0xff}) << "the transfer is not through";
  slice();
  card_.run_until_idle();  // no scrub
  EXPECT_TRUE(driver_.receive());
  EXPECT_TRUE(std::equal(memory.begin(), memory.end(), before.begin())) << "a block ran after the reset had begun";
  EXPECT_TRUE(driver_.bring_up());
}

// The driver whose reset it is may have ended: the next one comes while a kernel still runs.
TEST_F(Launch, TheNextDriverAttachesWhileTheLastOnesResetRuns) {
  driver_.submit(block(stream_, Program::UntilReleased));
  card_.run_until_idle();
  slice();
  const auto ended = driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0});
  driver_.send(ended);
  card_.run_until_idle();
  ASSERT_FALSE(driver_.receive()) << "a kernel still runs";
  const auto refused = driver_.call(driver_.request(wire::MessageOp::GetDeviceFeatures, wire::FeatureBlocks{0, 2, {}}));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->header.size, sizeof(wire::MessageHeader)) << "nothing is built on what is torn down";
  const auto identity = driver_.call(driver_.request(wire::MessageOp::GetDeviceInfo, wire::StatusValue{}));
  wire::DeviceInfo info{};
  ASSERT_TRUE(identity && wire::read_payload(*identity, info));
  EXPECT_EQ(info.device_id, wire::kDeviceId);
  const auto next = driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0});
  driver_.send(next);
  card_.run_until_idle();
  const auto dropped = driver_.receive();
  ASSERT_TRUE(dropped);
  EXPECT_EQ(dropped->header.token, ended.header.token) << "the request that nobody waits for any more";
  EXPECT_FALSE(driver_.receive());
  slice();
  card_.run_until_idle();
  const auto answer = driver_.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.token, next.header.token);
  EXPECT_TRUE(driver_.bring_up());
}

TEST_F(Launch, TheResetOfTheAdminQueueDoesNotWaitForKernels) {
  driver_.submit(block(stream_, Program::UntilReleased));
  card_.run_until_idle();
  slice();
  driver_.send(driver_.request(wire::MessageOp::ResetVirtqueue, wire::QueueIndex{wire::kAdminQueue}));
  card_.run_until_idle();
  EXPECT_TRUE(driver_.receive());
  kernels_.released = true;
  slice();
  EXPECT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok) << "the kernel was left alone";
}

TEST_F(Launch, AFunctionResetOvertakesTheResetOfAQueue) {
  driver_.submit(block(stream_, Program::UntilReleased));
  card_.run_until_idle();
  slice();
  const auto queue = driver_.request(wire::MessageOp::ResetVirtqueue, wire::QueueIndex{wire::kControlBlockQueue});
  driver_.send(queue);
  card_.run_until_idle();
  ASSERT_FALSE(driver_.receive());
  const auto whole = driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0});
  driver_.send(whole);
  card_.run_until_idle();
  const auto first = driver_.receive();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->header.token, queue.header.token);
  EXPECT_EQ(first->header.size, sizeof(wire::MessageHeader)) << "refused";
  EXPECT_FALSE(driver_.receive());
  slice();
  card_.run_until_idle();
  const auto second = driver_.receive();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->header.token, whole.header.token);
  EXPECT_FALSE(driver_.receive());
  EXPECT_TRUE(driver_.bring_up());
}

TEST_F(Launch, AQueueResetStopsKernelsAndEndsEverything) {
  auto other = driver_.open_stream().value();
  driver_.submit(block(stream_, Program::UntilReleased));
  driver_.submit(block(other, Program::Endless));
  driver_.submit(driver_.nop(other));
  card_.run_until_idle();
  slice();
  driver_.send(driver_.request(wire::MessageOp::ResetVirtqueue, wire::QueueIndex{wire::kControlBlockQueue}));
  for (int i = 0; i < 10; ++i) card_.run_until_idle(), slice();
  ASSERT_TRUE(driver_.receive());
  EXPECT_EQ(driver_.collect().size(), 3u);
}

// ---- room -----------------------------------------------------------------------------------------------------------

TEST_F(Launch, MoreLaunchesThanContextsWaitForRoom) {
  std::vector<StreamHandle> streams;
  for (unsigned i = 0; i < 4 * fw::kContextsPerCore; ++i) {
    streams.push_back(driver_.open_stream().value());
    driver_.submit(block(streams.back(), Program::Slices));
  }
  std::size_t ended = 0;
  for (int i = 0; i < 1000 && ended < streams.size(); ++i) {
    card_.run_until_idle();
    slice();
    for (const auto& end : driver_.collect()) {
      EXPECT_EQ(end.completion.outcome, Outcome::Ok);
      ++ended;
    }
  }
  EXPECT_EQ(ended, streams.size());
}

class LaunchWithoutPages : public Launch {
 protected:
  LaunchWithoutPages() : Launch(1, wire::kMiB) {}
};

TEST_F(LaunchWithoutPages, NoPagesIsATypedRefusalEachTime) {
  for (int i = 0; i < 3; ++i) {
    const auto end = run(Program::Exit);
    EXPECT_EQ(end.outcome, Outcome::Rejected);
    EXPECT_EQ(end.status, Status::OutOfExecutionAreas);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
  EXPECT_TRUE(driver_.bring_up());
  EXPECT_EQ(card_.board().pages_in_use(), 0u);
}

// ---- hart 0 ---------------------------------------------------------------------------------------------------------

TEST_F(Launch, ABurstOfTraceMarksLeavesHartZeroItsOtherWork) {
  auto& second = card_.driver(3);
  ASSERT_TRUE(second.bring_up());
  driver_.submit(block(stream_, Program::TraceBurst));
  card_.start_loop();
  StreamHandle s;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(second.run(second.nop(s)).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.wait_for(1)[0].completion.status, Status::Stopped);
}

// More chains than blocks: the ring stays ready while nothing can be taken from it. The kernel that everything waits
// for must run on.
TEST_F(Launch, ARingThatWaitsForBlocksDoesNotStarveTheKernelItWaitsFor) {
  driver_.submit(block(stream_, Program::Slices));
  auto& ring = driver_.ring(wire::kControlBlockQueue);
  const auto nop = driver_.nop(stream_);
  const std::uint64_t cb = wire::kControlBlocks.offset + 511 * std::uint64_t{wire::kControlBlockSlotBytes};
  std::memcpy(driver_.at<std::byte>(cb), &nop, wire::kStickBytes);
  const fwtest::RawBuffer chain[] = {{cb, wire::kStickBytes, false},
                                     {wire::kCompletions.offset + 511 * wire::kStickBytes, wire::kStickBytes, true}};
  unsigned chains = 1;
  for (; ring.room_for(1); ++chains) {
    ring.add_indirect(static_cast<std::uint16_t>(1000 + chains), wire::kHostMemoryOffset, chain);
  }
  ASSERT_GT(chains, wire::kControlBlockSlots + 2);
  card_.start_loop();
  unsigned ended = 0;
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kAnswer;
  while (ended < chains && std::chrono::steady_clock::now() < limit) {
    if (ring.poll()) ++ended;
  }
  EXPECT_EQ(ended, chains);
}

// ---- several cores --------------------------------------------------------------------------------------------------

TEST_F(LaunchOnFour, ABarrierHoldsUntilAllHaveCome) {
  const auto end = run(Program::Barriers, 0xf);
  EXPECT_EQ(end.outcome, Outcome::Ok);
  EXPECT_EQ(kernels_.slices.load(), 4u * (fwtest::kBarriers + 1));
}

// What a launch is charged with beyond one with a tensor of kFreeCorrectionBytes.
TEST_F(LaunchOnFour, ALargeCorrectionIsChargedOnEachCore) {
  const auto charged = [&](std::uint64_t correction_bytes) {
    wire::ControlBlock block = this->block(stream_, Program::Exit, 0xf);
    block.payload.compute.correction = block.payload.compute.image;
    block.payload.compute.correction_bytes = correction_bytes;
    const std::uint64_t before = card_.card().spaces.prepared_bytes();
    driver_.submit(block);
    std::size_t ended = 0;
    for (int i = 0; i < 1000 && ended == 0; ++i) {
      card_.run_until_idle();
      for (const auto& end : driver_.collect()) {
        EXPECT_EQ(end.completion.outcome, Outcome::Ok);
        ++ended;
      }
      slice();
    }
    EXPECT_EQ(ended, 1u);
    return card_.card().spaces.prepared_bytes() - before;
  };
  (void)charged(0);  // loads the image
  const std::uint64_t small = charged(fw::kFreeCorrectionBytes);
  EXPECT_EQ(charged(wire::kMaxCorrectionBytes) - small, 4 * wire::kMaxCorrectionBytes);
}

// Parts at a barrier take no slices, so no watchdog would ever find them.
TEST_F(LaunchOnFour, ABarrierThatOneHasLeftIsAFault) {
  for (const std::uint64_t mask : {0x3ull, 0xfull, 0xeull}) {
    const auto end = run(Program::OneLeaves, mask);
    EXPECT_EQ(end.outcome, Outcome::Fault);
    EXPECT_EQ(end.status, Status::BadEnvironmentCall);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
  EXPECT_EQ(run(Program::Barriers, 0xf).outcome, Outcome::Ok);
}

TEST_F(LaunchOnFour, OneFaultStopsAllPartsAndTheFirstErrorWins) {
  for (const auto& [program, status] :
       {std::pair{Program::Strays, Status::LoadFault}, std::pair{Program::ExitWithFive, Status::KernelStatus}}) {
    const auto end = run(program, 0xf);
    EXPECT_EQ(end.outcome, Outcome::Fault);
    EXPECT_EQ(end.status, status);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
}

TEST_F(LaunchOnFour, EachItemIsHandedOutOnceInEachEpoch) {
  card_.start_loop();
  unsigned launches = 0;
  for (const std::uint64_t mask : {0x0ull, 0x1ull, 0x2ull, 0x3ull, 0xfull, 0xeull}) {
    driver_.submit(block(stream_, Program::Claims, mask));
    EXPECT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok);
    ++launches;
    for (const auto& epoch : kernels_.claimed) {
      for (const auto& count : epoch) EXPECT_EQ(count.load(), launches);
    }
  }
}

// The real thing: harts as threads, launches of all kinds, and resets that kill them at any moment. Every block ends
// once, every reset is answered, nothing oversleeps.
TEST_F(LaunchOnFour, RandomLaunchesAndKillsLoseNoPart) {
  ASSERT_TRUE(driver_.acquire(8 * wire::kMiB));
  std::vector<StreamHandle> streams;
  streams.reserve(6);
  for (int i = 0; i < 6; ++i) streams.push_back(driver_.open_stream().value());
  card_.start_loop();
  std::mt19937_64 random(2026);
  constexpr Program kPrograms[] = {Program::Exit,      Program::Barriers, Program::Slices,   Program::Touches,
                                   Program::OneLeaves, Program::Strays,   Program::Barriers, Program::Claims};
  std::size_t submitted = 0, ended = 0;
  std::map<Outcome, unsigned> outcomes;
  const auto collect = [&] {
    for (const auto& end : driver_.collect()) {
      ++outcomes[end.completion.outcome];
      ++ended;
    }
  };
  for (int step = 0; step < 3000; ++step) {
    auto& s = streams[random() % streams.size()];
    if (random() % 8 == 0) {
      ASSERT_EQ(driver_.reset_stream(s).outcome, Outcome::Ok);
    } else if (submitted - ended < 60) {
      driver_.submit(block(s, kPrograms[random() % std::size(kPrograms)], random() % 16));
      ++submitted;
    }
    if (random() % 4 == 0) card_.board().doorbell();
    collect();
  }
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kAnswer;
  while (ended < submitted && std::chrono::steady_clock::now() < limit) {
    card_.board().doorbell();
    collect();
  }
  EXPECT_EQ(ended, submitted);
  EXPECT_GT(outcomes[Outcome::Ok], 0u);
  EXPECT_GT(outcomes[Outcome::Fault], 0u);
  EXPECT_GT(outcomes[Outcome::Aborted], 0u);
  EXPECT_EQ(driver_.set_status(0), 0u);
  card_.stop_loop();
  EXPECT_EQ(card_.board().pages_in_use(), 0u);
}

}  // namespace
