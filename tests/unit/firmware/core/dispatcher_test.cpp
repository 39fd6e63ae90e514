// SPDX-License-Identifier: Apache-2.0
// From the ring to the completion: order, poison, sequence, credits, transfers, and chains that carry no block.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "firmware/core/dispatcher.hpp"
#include "tests/support/bytes.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawBuffer;
using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kHost = wire::kHostMemoryOffset;

void put(std::byte* at, std::uint64_t value) { std::memcpy(at, &value, sizeof value); }

class Dispatcher : public testing::Test {
 protected:
  Dispatcher() { EXPECT_TRUE(driver_.bring_up()); }

  fwtest::TestCard card_{
      {.window_bytes = 8 * wire::kMiB, .region_bytes = 128 * wire::kMiB, .boot_arguments = fwtest::kAllForTheFirst}};
  fwtest::RawDriver& driver_ = card_.driver(2);
  StreamHandle stream_;
};

TEST_F(Dispatcher, ANopEndsOnce) {
  const auto block = driver_.nop(stream_);
  const auto end = driver_.run(block);
  EXPECT_EQ(end.outcome, Outcome::Ok);
  EXPECT_EQ(end.status, Status::None);
  EXPECT_EQ(end.stream, 0u);
  EXPECT_EQ(end.incarnation, 1u);
  EXPECT_EQ(end.sequence, 1u);
  EXPECT_EQ(end.cookie, block.header.cookie);
  EXPECT_EQ(end.generation, driver_.generation());
  EXPECT_NE(end.start_time, 0u);
  EXPECT_GE(end.end_time, end.start_time);
  card_.pump();
  EXPECT_TRUE(driver_.collect().empty());
}

TEST_F(Dispatcher, StartedSequenceIsPublished) {
  for (int i = 0; i < 5; ++i) driver_.run(driver_.nop(stream_));
  auto other = driver_.open_stream().value();
  driver_.run(driver_.nop(other));
  const auto* started = driver_.at<std::uint64_t>(wire::kStartedSequences.offset);
  EXPECT_EQ(started[0], 5u);
  EXPECT_EQ(started[other.id], 1u);
}

TEST_F(Dispatcher, BlocksOfAStreamEndInOrder) {
  std::vector<StreamHandle> streams{stream_};
  for (int i = 0; i < 10; ++i) streams.push_back(driver_.open_stream(i % 2 == 0).value());
  const auto region = driver_.acquire(32 * wire::kMiB).value();
  std::mt19937 random(7);
  std::vector<std::uint64_t> last(wire::kStreamsPerFunction, 0);
  std::size_t submitted = 0, ended = 0;
  while (ended < 3000) {
    while (submitted < 3000 && driver_.block_slot_free() && random() % 20 != 0) {
      auto& s = streams[random() % streams.size()];
      driver_.submit(random() % 3 == 0 ? driver_.fill(s, region, random() % 8 * wire::kMiB, 1 + random() % 700'000, 1)
                                       : driver_.nop(s));
      ++submitted;
    }
    fw::run_iteration(card_.card());
    for (const auto& end : driver_.collect()) {
      ASSERT_EQ(end.completion.outcome, Outcome::Ok);
      ASSERT_EQ(end.completion.sequence, ++last[end.completion.stream]);
      ++ended;
    }
  }
}

TEST_F(Dispatcher, TheFirstErrorPoisonsAndWhatCameBeforeStillRuns) {
  auto other = driver_.open_stream().value();
  driver_.post_event_buffers(4);
  for (int i = 0; i < 3; ++i) driver_.submit(driver_.nop(stream_));
  auto bad = driver_.nop(stream_);
  bad.header.flags = 1;
  driver_.submit(bad);
  for (int i = 0; i < 3; ++i) driver_.submit(driver_.nop(stream_));
  driver_.submit(driver_.nop(other));
  const auto ended = driver_.wait_for(8);
  std::vector<Outcome> outcomes;
  for (const auto& end : ended) {
    if (end.completion.stream == 0) outcomes.push_back(end.completion.outcome);
    if (end.completion.stream != 0) EXPECT_EQ(end.completion.outcome, Outcome::Ok);
  }
  const std::vector<Outcome> expected{Outcome::Ok,      Outcome::Ok,      Outcome::Ok,     Outcome::Rejected,
                                      Outcome::Aborted, Outcome::Aborted, Outcome::Aborted};
  EXPECT_EQ(outcomes, expected);
  const auto events = driver_.events();
  ASSERT_EQ(events.size(), 1u) << "one event per poisoned stream";
  EXPECT_EQ(events[0].kind, wire::EventKind::StreamPoisoned);
  EXPECT_EQ(events[0].stream, 0u);
  EXPECT_EQ(events[0].status, Status::BadFlags);
}

TEST_F(Dispatcher, SequenceStartsAtOneAndStepsByOne) {
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{2}, ~std::uint64_t{0}}) {
    stream_.next_sequence = first;
    const auto end = driver_.run(driver_.nop(stream_));
    EXPECT_EQ(end.status, Status::BadSequence);
    EXPECT_EQ(end.field, wire::Field::Sequence);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok);
  stream_.next_sequence = 1;
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).status, Status::BadSequence) << "a number is good once";
}

TEST_F(Dispatcher, AStreamHoldsItsCreditsAndNoMore) {
  const auto region = driver_.acquire(120 * wire::kMiB).value();
  // Long enough that everything behind it is fetched while it moves.
  driver_.submit(driver_.fill(stream_, region, 0, region.bytes, 1));
  for (unsigned i = 0; i < wire::kStreamCredits + 9; ++i) driver_.submit(driver_.nop(stream_));
  const auto ended = driver_.wait_for(wire::kStreamCredits + 10);
  ASSERT_EQ(ended.size(), wire::kStreamCredits + 10);
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const auto& end = ended[i].completion;
    ASSERT_EQ(end.sequence, i + 1);
    if (i < wire::kStreamCredits) ASSERT_EQ(end.outcome, Outcome::Ok) << i;
    if (i == wire::kStreamCredits) ASSERT_EQ(end.status, Status::StreamCreditsExceeded);
    if (i > wire::kStreamCredits) ASSERT_EQ(end.outcome, Outcome::Aborted) << i;
  }
}

TEST_F(Dispatcher, AWholeRingOfBlocksIsServed) {
  std::vector<StreamHandle> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(driver_.open_stream().value());
  for (int lap = 0; lap < 5; ++lap) {
    for (unsigned i = 0; i < wire::kControlBlockSlots; ++i) driver_.submit(driver_.nop(streams[i % 4]));
    EXPECT_FALSE(driver_.block_slot_free());
    for (const auto& end : driver_.wait_for(wire::kControlBlockSlots)) ASSERT_EQ(end.completion.outcome, Outcome::Ok);
  }
}

// ---- transfers ------------------------------------------------------------------------------------------------------

// A progress that is not what a step has written: the card stops instead of moving what lies behind the transfer.
TEST_F(Dispatcher, ATransferThatHasMovedMoreThanItsBytesIsFound) {
  const auto region = driver_.acquire(16 * wire::kMiB).value();
  constexpr std::uint64_t kBytes = 8 * wire::kMiB;
  auto& streams = card_.function(2).streams;
  for (const bool fill : {true, false}) {
    auto stream = driver_.open_stream().value();
    driver_.submit(fill ? driver_.fill(stream, region, 0, kBytes, 1)
                        : driver_.dma(stream, RawDriver::device(region, 0), RawDriver::device(region, kBytes), kBytes));
    fw::run_iteration(card_.card());
    ASSERT_EQ(streams[stream.id].phase, fw::Stream::Phase::Moving);
    const std::uint64_t moved = std::exchange(streams.head(stream.id).progress, kBytes + 1);
    EXPECT_DEATH(card_.run_until_idle(), "more than its bytes") << (fill ? "FILL" : "DMA");
    streams.head(stream.id).progress = moved;
    EXPECT_EQ(driver_.wait_for(1).at(0).completion.outcome, Outcome::Ok);
  }
}

TEST_F(Dispatcher, TransfersMoveExactlyTheirBytes) {
  const auto region = driver_.acquire(8 * wire::kMiB).value();
  std::byte* host = driver_.window().data() + kHost;
  std::mt19937_64 random(3);
  constexpr std::uint64_t kStep = fw::kDmaStepBytes;
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{127}, std::uint64_t{128},
                                    std::uint64_t{129}, kStep - 1, kStep, kStep + 1, 3 * kStep + 5, 2 * wire::kMiB}) {
    for (std::uint64_t i = 0; i < 4 * wire::kMiB; i += 8) put(host + i, random());
    const std::vector<std::byte> sent(host + 3, host + 3 + bytes);
    constexpr std::uint64_t kLow = 1152, kHigh = 4 * wire::kMiB + 128;
    ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 0, region.bytes, 0xa5a5a5a5a5a5a5a5)).outcome, Outcome::Ok);
    auto end = driver_.run(driver_.dma(stream_, RawDriver::host(kHost + 3), RawDriver::device(region, kLow), bytes));
    ASSERT_EQ(end.outcome, Outcome::Ok);
    ASSERT_EQ(end.bytes, bytes);
    ASSERT_EQ(
        driver_.run(driver_.dma(stream_, RawDriver::device(region, kLow), RawDriver::device(region, kHigh), bytes))
            .outcome,
        Outcome::Ok);
    ASSERT_EQ(driver_
                  .run(driver_.dma(stream_, RawDriver::device(region, kHigh - 128),
                                   RawDriver::host(kHost + 9 * wire::kMiB / 2), bytes + 256))
                  .outcome,
              Outcome::Ok);
    const std::byte* back = host + 9 * wire::kMiB / 2;
    ASSERT_EQ(std::memcmp(back + 128, sent.data(), bytes), 0);
    for (int i = 0; i < 128; ++i) {
      ASSERT_EQ(back[i], std::byte{0xa5});
      ASSERT_EQ(back[128 + bytes + static_cast<std::uint64_t>(i)], std::byte{0xa5});
    }
  }
}

TEST_F(Dispatcher, AFillRepeatsItsPatternAcrossSteps) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  const std::uint64_t bytes = fw::kDmaStepBytes + 13;
  ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 128, bytes, 0x0807060504030201)).outcome, Outcome::Ok);
  const auto memory = card_.board().region_memory();
  for (std::uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[128 + i], static_cast<std::byte>(1 + i % 8)) << i;
  EXPECT_EQ(memory[127], std::byte{0});
  EXPECT_EQ(memory[128 + bytes], std::byte{0});
}

TEST_F(Dispatcher, ATransferBeyondItsBudgetIsATimeoutAndSaysHowFarItCame) {
  const auto region = driver_.acquire(64 * wire::kMiB).value();
  auto block = driver_.fill(stream_, region, 0, region.bytes, 1);
  block.header.budget = 1;
  const auto end = driver_.run(block);
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_EQ(end.status, Status::BudgetExpired);
  EXPECT_EQ(end.field, wire::Field::Budget);
  EXPECT_GT(end.bytes, 0u);
  EXPECT_LT(end.bytes, region.bytes);
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Aborted);
}

// A reset of a full stream is no longer than a quantum: the others are served in between.
TEST_F(Dispatcher, AResetEndsTheBlocksOfAFullStreamInParts) {
  StreamHandle awaited = driver_.open_stream().value();
  driver_.submit(driver_.event_wait(stream_, awaited, 1));
  for (unsigned i = 1; i < wire::kStreamCredits; ++i) driver_.submit(driver_.nop(stream_));
  card_.run_until_idle();
  ASSERT_TRUE(driver_.collect().empty());
  const auto slot = driver_.send_admin(driver_.stream_request(wire::AdminCommand::StreamReset, stream_));
  std::size_t ended = 0;
  for (int i = 0; !driver_.take_admin(slot); ++i) {
    ASSERT_LT(i, 100);
    fw::run_iteration(card_.card());
    const auto now = driver_.collect();
    EXPECT_LE(now.size(), fw::kEndedInAStep);
    for (const auto& end : now) EXPECT_EQ(end.completion.outcome, Outcome::Aborted);
    ended += now.size();
  }
  EXPECT_EQ(ended, wire::kStreamCredits);
}

TEST_F(Dispatcher, TheLargestBudgetIsNoTimeout) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  auto block = driver_.fill(stream_, region, 0, region.bytes, 1);
  block.header.budget = ~std::uint64_t{0};
  EXPECT_EQ(driver_.run(block).outcome, Outcome::Ok);
}

TEST_F(Dispatcher, AStreamResetStopsTheRunningTransferAndAbortsTheQueuedOnes) {
  const auto region = driver_.acquire(64 * wire::kMiB).value();
  driver_.submit(driver_.fill(stream_, region, 0, region.bytes, 1));
  for (int i = 0; i < 3; ++i) driver_.submit(driver_.nop(stream_));
  fw::run_iteration(card_.card());
  ASSERT_TRUE(driver_.collect().empty()) << "the transfer is under way";
  const auto slot = driver_.send_admin(driver_.stream_request(wire::AdminCommand::StreamReset, stream_));
  fw::run_iteration(card_.card());
  fw::run_iteration(card_.card());  // blocks that have not started end in a step of their stream
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 4u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[0].completion.status, Status::Stopped);
  EXPECT_GT(ended[0].completion.bytes, 0u);
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(ended[static_cast<std::size_t>(i)].completion.outcome, Outcome::Aborted);
    EXPECT_EQ(ended[static_cast<std::size_t>(i)].completion.start_time, 0u);
  }
  const auto reply = driver_.wait_admin(slot).value();
  EXPECT_EQ(reply.outcome, Outcome::Ok);
  EXPECT_EQ(reply.values.stream.incarnation, stream_.incarnation + 1);
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).status, Status::StaleIncarnation);
  stream_ = {0, reply.values.stream.incarnation, 1};
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok);
}

TEST(DispatcherBudget, PopulatedMemoryBeyondTheBudgetIsATypedFault) {
  fwtest::TestCard card({.boot_arguments = std::string("budget_mib=4 ") + fwtest::kAllForTheFirst});
  auto& driver = card.driver(2);
  ASSERT_TRUE(driver.bring_up());
  EXPECT_EQ(driver.config().budget_bytes, 4 * wire::kMiB);
  const auto region = driver.acquire(8 * wire::kMiB).value();
  StreamHandle stream;
  const auto end = driver.run(driver.fill(stream, region, 0, region.bytes, 1));
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::MemoryBudget);
  EXPECT_EQ(end.bytes, 4 * wire::kMiB);
  ASSERT_EQ(driver.reset_stream(stream).outcome, Outcome::Ok);
  EXPECT_EQ(driver.run(driver.fill(stream, region, 0, 4 * wire::kMiB, 2)).outcome, Outcome::Ok);
}

// ---- chains that carry no block -------------------------------------------------------------------------------------

TEST_F(Dispatcher, ChainsThatCarryNoBlockAreRefusedAndTheRingGoesOn) {
  const std::uint64_t cb = wire::kControlBlocks.offset, completion = wire::kCompletions.offset;
  const std::uint64_t spare = completion + 511 * wire::kStickBytes;
  struct Case {
    std::vector<RawBuffer> chain;
    bool told;  // whether a completion can carry the reason
  };
  const std::vector<Case> kCases = {
      {{{cb, 128, false}}, false},
      {{{spare, 128, true}}, true},
      {{{cb, 64, false}, {spare, 128, true}}, true},
      {{{cb, 129, false}, {spare, 128, true}}, true},
      {{{cb, 640, false}, {spare, 128, true}}, true},
      {{{cb + 64, 128, false}, {spare, 128, true}}, true},
      {{{0, 128, false}, {spare, 128, true}}, true},
      {{{kHost, 128, false}, {spare, 128, true}}, true},
      {{{wire::kControlBlocks.end() - 128, 256, false}, {spare, 128, true}}, true},
      {{{~std::uint64_t{127}, 128, false}, {spare, 128, true}}, true},
      {{{cb, 0xffffff80, false}, {spare, 128, true}}, true},
      {{{cb, 128, false}, {0, 128, true}}, false},
      {{{cb, 128, false}, {kHost, 128, true}}, false},
      {{{cb, 128, false}, {cb, 128, true}}, false},
      {{{cb, 128, false}, {wire::kStartedSequences.offset, 128, true}}, false},
      {{{cb, 128, false}, {spare + 64, 128, true}}, false},
      {{{cb, 128, false}, {spare, 127, true}}, false},
      {{{cb, 128, false}, {~std::uint64_t{127}, 128, true}}, false},
      {{{cb, 128, false}, {spare, 128, true}, {spare, 128, true}}, true},
      {{{cb, 128, false}, {cb, 128, false}, {spare, 128, true}}, true},
  };
  RawDriver& d = driver_;
  auto& ring = d.ring(wire::kControlBlockQueue);
  d.post_event_buffers(8);
  for (std::size_t i = 0; i < kCases.size(); ++i) {
    SCOPED_TRACE(i);
    const auto block = d.nop(stream_);
    std::memcpy(d.at<std::byte>(cb), &block, sizeof block);
    const std::vector<std::byte> before(d.window().begin(), d.window().end());
    ring.add(700, kCases[i].chain);
    card_.run_until_idle();
    const auto used = ring.poll();
    ASSERT_TRUE(used);
    EXPECT_EQ(used->id, 700);
    EXPECT_EQ(used->written, kCases[i].told ? 128u : 0u);
    if (kCases[i].told) {
      const auto& end = *d.at<wire::Completion>(spare);
      EXPECT_EQ(end.outcome, Outcome::Rejected);
      EXPECT_EQ(end.field, wire::Field::Chain);
    }
    const auto host = d.window().subspan(kHost);
    ASSERT_EQ(svp::test::first_difference(host, std::span(before).subspan(kHost)), host.size());
    for (std::uint64_t at = wire::kStartedSequences.offset; at < wire::kAdminReplies.end(); ++at) {
      ASSERT_EQ(d.window()[at], before[at]) << at;
    }
    --stream_.next_sequence;
    EXPECT_EQ(d.run(d.nop(stream_)).outcome, Outcome::Ok);
  }
  const auto events = d.events();
  ASSERT_EQ(events.size(), 1u) << "a burst of them costs one event a heartbeat";
  EXPECT_EQ(events[0].kind, wire::EventKind::RingViolation);
  EXPECT_EQ(d.header().events_lost, 0u);
  EXPECT_EQ(d.admin(d.admin_request(wire::AdminCommand::Stats)).values.stats.ring_violations, kCases.size());
}

// A flood costs counters: no event each, and no line on the console (hal::log is for boot and rare things).
TEST_F(Dispatcher, AThousandBadJobsAreCountedOneByOneAndToldOnce) {
  RawDriver& d = driver_;
  auto& ring = d.ring(wire::kControlBlockQueue);
  d.post_event_buffers(32);
  constexpr unsigned kBurst = 1000;
  for (unsigned i = 0; i < kBurst; ++i) {
    auto bad = d.nop(stream_);
    bad.header.flags = 0x8000;
    d.submit(bad);
    const RawBuffer chain[] = {{0, 128, false}, {0, 128, true}};
    ring.add(700, chain);
    card_.run_until_idle();
    while (ring.poll()) {  // bounded: there are no more descriptors than the ring holds
    }
    d.forget_blocks();
  }
  const auto events = d.events();
  EXPECT_LE(events.size(), 2u) << "one of the poisoned stream, one of the ring";
  const auto stats = d.admin(d.admin_request(wire::AdminCommand::Stats)).values.stats;
  EXPECT_EQ(stats.ring_violations, kBurst);
  EXPECT_EQ(stats.rejected, kBurst + 1) << "the chains, and the block that poisoned the stream";
  EXPECT_EQ(stats.aborted, kBurst - 1);
  EXPECT_EQ(stats.completed, 0u);
  EXPECT_EQ(d.header().events_lost, 0u);
}

TEST_F(Dispatcher, AnEventBufferInTheWrongPlaceIsGivenBackEmpty) {
  auto& ring = driver_.ring(wire::kEventQueue);
  const RawBuffer wrong[] = {{0, 128, true}};
  const RawBuffer readable[] = {{wire::kEvents.offset, 128, false}};
  for (const auto& buffer : {wrong, readable}) {
    ring.add(5, {buffer, 1});
    auto bad = driver_.nop(stream_);
    bad.header.flags = 1;
    driver_.run(bad);
    const auto used = ring.poll();
    ASSERT_TRUE(used);
    EXPECT_EQ(used->written, 0u);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
  EXPECT_EQ(driver_.header().magic, wire::kWindowMagic);
  EXPECT_EQ(driver_.header().events_lost, 2u);
}

TEST_F(Dispatcher, AFaultBurstIsCountedExactly) {
  std::uint64_t rejected = 0, aborted = 0;
  for (int i = 0; i < 1000; ++i) {
    auto bad = driver_.nop(stream_);
    bad.header.flags = 1;
    const auto end = driver_.run(bad);
    rejected += end.outcome == Outcome::Rejected;
    aborted += end.outcome == Outcome::Aborted;
    if (i % 3 == 0) ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
  const auto stats = driver_.admin(driver_.admin_request(wire::AdminCommand::Stats)).values.stats;
  EXPECT_EQ(rejected + aborted, 1000u);
  EXPECT_EQ(stats.rejected, rejected);
  EXPECT_EQ(stats.aborted, aborted);
  EXPECT_EQ(stats.completed, 0u);
  EXPECT_EQ(driver_.header().events_lost, rejected);
}

TEST_F(Dispatcher, BytesAreCountedByDirection) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  driver_.run(driver_.dma(stream_, RawDriver::host(kHost), RawDriver::device(region, 0), 1000));
  driver_.run(driver_.dma(stream_, RawDriver::device(region, 0), RawDriver::host(kHost), 200));
  driver_.run(driver_.dma(stream_, RawDriver::device(region, 0), RawDriver::device(region, 4096), 30));
  driver_.run(driver_.fill(stream_, region, 0, 4, 0));
  const auto stats = driver_.admin(driver_.admin_request(wire::AdminCommand::Stats)).values.stats;
  EXPECT_EQ(stats.bytes_to_device, 1000u);
  EXPECT_EQ(stats.bytes_from_device, 200u);
  EXPECT_EQ(stats.bytes_on_device, 34u);
  EXPECT_EQ(stats.completed, 4u);
  EXPECT_EQ(stats.dirty_granules, 1u);
}

// High priority goes first, and inside a priority everybody is served.
TEST(StreamSet, AgreesWithAListOfPriorities) {
  fw::StreamSet runnable;
  EXPECT_FALSE(runnable.any());
  for (const unsigned s : {0u, 3u, 63u, 64u, 127u}) runnable.add(s, false);
  std::vector<unsigned> order;
  for (int i = 0; i < 10; ++i) order.push_back(runnable.next());
  const std::vector<unsigned> expected{3, 63, 64, 127, 0, 3, 63, 64, 127, 0};
  EXPECT_EQ(order, expected);
  runnable.add(5, true);
  EXPECT_EQ(runnable.next(), 5u);
  EXPECT_EQ(runnable.next(), 5u);
  runnable.remove(5, true);
  for (const unsigned s : {0u, 3u, 63u, 127u}) runnable.remove(s, false);
  EXPECT_EQ(runnable.next(), 64u);
  EXPECT_EQ(runnable.next(), 64u);
  runnable.remove(64, false);
  EXPECT_FALSE(runnable.any());
}

TEST(StreamSet, LowPriorityIsServedOnceAfterSoManyOfHigh) {
  fw::StreamSet runnable;
  runnable.add(1, true);
  runnable.add(2, true);
  runnable.add(8, false);
  runnable.add(9, false);
  std::vector<unsigned> order;
  for (int i = 0; i < 11; ++i) order.push_back(runnable.next());
  const std::vector<unsigned> expected{1, 2, 1, 2, 8, 1, 2, 1, 2, 9, 1};
  EXPECT_EQ(order, expected);
  // Nobody of high priority waits: its share is not saved up.
  runnable.remove(1, true);
  runnable.remove(2, true);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(runnable.next(), i % 2 == 0 ? 8u : 9u);
}

}  // namespace
