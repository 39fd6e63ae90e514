// SPDX-License-Identifier: Apache-2.0
// The card breaks where M told it to, finds it, and nobody else notices; with that check disabled it finds nothing.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>

#include "firmware/core/dispatcher.hpp"
#include "firmware/hal/hart.hpp"
#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::FaultAction;
using wire::FaultOperation;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kHost = wire::kHostMemoryOffset;
constexpr std::uint32_t kVf1 = 2;  // wire::Target

class BrokenCard : public testing::Test {
 protected:
  explicit BrokenCard(std::string boot_arguments = {})
      : card_({.virtual_functions = 2,
               .window_bytes = 8 * wire::kMiB,
               .region_bytes = 128 * wire::kMiB,
               .boot_arguments = std::move(boot_arguments)}) {
    EXPECT_TRUE(management_.bring_up());
    EXPECT_TRUE(driver_.bring_up());
    EXPECT_TRUE(neighbour_.bring_up());
  }

  static wire::FaultSpec spec(FaultPoint point, FaultAction action) {
    wire::FaultSpec s{};
    s.point = point;
    s.action = action;
    s.trigger.function = kVf1;
    s.trigger.stream = wire::kAnyStream;
    s.trigger.opcode = wire::kAnyOpcode;
    s.trigger.progress = wire::kAnyProgress;
    s.trigger.core = wire::kAnyCore;
    s.trigger.first = 1;
    return s;
  }
  wire::AdminReply fault(const wire::FaultSpec& s) {
    auto request = management_.admin_request(wire::AdminCommand::FaultArm);
    request.arguments.fault = s;
    return management_.admin(request);
  }
  void arm(const wire::FaultSpec& s) {
    const auto reply = fault(s);
    ASSERT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
    EXPECT_EQ(reply.values.fault.armed, 1u);
  }
  wire::FaultEvidence evidence(std::uint32_t row = 0) {
    wire::FaultSpec s{};
    s.operation = FaultOperation::Query;
    s.fault = row;
    const auto reply = fault(s);
    EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
    return reply.values.fault;
  }
  void disarm_all() {
    wire::FaultSpec s{};
    s.operation = FaultOperation::DisarmAll;
    EXPECT_EQ(fault(s).outcome, Outcome::Ok);
  }

  // `bytes` of a pattern to the start of a region, or back.
  wire::ControlBlock to_card(RawDriver& driver, StreamHandle& stream, const RegionHandle& region, std::uint64_t bytes) {
    for (std::uint64_t i = 0; i < bytes; ++i) driver.window()[kHost + i] = static_cast<std::byte>(i * 7 + i / 251);
    return driver.dma(stream, RawDriver::host(kHost), RawDriver::device(region, 0), bytes);
  }
  wire::ControlBlock from_card(RawDriver& driver, StreamHandle& stream, const RegionHandle& region,
                               std::uint64_t bytes) {
    return driver.dma(stream, RawDriver::device(region, 0), RawDriver::host(kHost + wire::kMiB), bytes);
  }
  std::uint64_t wrong_bytes(RawDriver& driver, std::uint64_t bytes) {
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < bytes; ++i) {
      wrong += driver.window()[kHost + i] != driver.window()[kHost + wire::kMiB + i] ? 1 : 0;
    }
    return wrong;
  }
  void expect_neighbour_well() {
    StreamHandle stream = neighbour_.open_stream().value();
    EXPECT_EQ(neighbour_.run(neighbour_.nop(stream)).outcome, Outcome::Ok);
  }
  std::vector<wire::DeviceEvent> events_of(RawDriver& driver, wire::EventKind kind) {
    std::vector<wire::DeviceEvent> found;
    for (const auto& event : driver.events()) {
      if (event.kind == kind) found.push_back(event);
    }
    return found;
  }

  fwtest::TestCard card_;
  RawDriver& management_ = card_.driver(0);
  RawDriver& driver_ = card_.driver(2);
  RawDriver& neighbour_ = card_.driver(3);
  StreamHandle stream_;
};

// ---- the command ----------------------------------------------------------------------------------------------------

TEST_F(BrokenCard, OnlyTheManagementFunctionArms) {
  for (const unsigned slot : {1u, 2u}) {
    RawDriver& other = card_.driver(slot);
    if (slot == 1) ASSERT_TRUE(other.bring_up());
    auto request = other.admin_request(wire::AdminCommand::FaultArm);
    request.arguments.fault = spec(FaultPoint::DmaStep, FaultAction::Abort);
    const auto reply = other.admin(request);
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, Status::NotPermitted);
  }
  EXPECT_FALSE(card_.card().faults.armed_any(~std::uint64_t{0}));
}

TEST_F(BrokenCard, WhatMakesNoSenseIsRefusedAndArmsNothing) {
  auto bad = fault(spec(FaultPoint::Heartbeat, FaultAction::Corrupt));
  EXPECT_EQ(bad.status, Status::Unsupported);
  EXPECT_EQ(bad.field, wire::Field::AdminFault);
  auto s = spec(FaultPoint::DmaStep, FaultAction::Abort);
  s.operation = static_cast<FaultOperation>(9);
  EXPECT_EQ(fault(s).status, Status::BadOpcode);
  s = spec(FaultPoint::Memory, FaultAction::Corrected);
  s.region_id = 3;
  EXPECT_EQ(fault(s).status, Status::UnknownRegion) << "nothing is granted";
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  s.region_id = region.id;
  s.offset = region.bytes;
  EXPECT_EQ(fault(s).status, Status::OutOfBounds);
  EXPECT_FALSE(card_.card().faults.armed_any(~std::uint64_t{0}));
}

TEST_F(BrokenCard, NothingIsArmedAfterAWarmReset) {
  arm(spec(FaultPoint::DmaStep, FaultAction::Abort));
  card_.warm_reset();
  EXPECT_FALSE(card_.card().faults.armed_any(~std::uint64_t{0}));
}

// ---- transfers ------------------------------------------------------------------------------------------------------

TEST_F(BrokenCard, AnAbortedTransferEndsFaultAndPoisonsItsStreamOnly) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  StreamHandle other = driver_.open_stream().value();
  auto s = spec(FaultPoint::DmaStep, FaultAction::Abort);
  s.trigger.stream = 0;
  s.trigger.first = 2;
  arm(s);
  const auto end = driver_.run(to_card(driver_, stream_, region, wire::kMiB));
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::TransferAborted);
  EXPECT_GT(end.bytes, 0u) << "one step had been made";
  EXPECT_LT(end.bytes, wire::kMiB);
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Aborted);
  EXPECT_EQ(driver_.run(to_card(driver_, other, region, wire::kMiB)).outcome, Outcome::Ok);
  expect_neighbour_well();
  const auto e = evidence();
  EXPECT_EQ(e.fired, 1u);
  EXPECT_EQ(e.counted, 2u);
  EXPECT_EQ(e.function, kVf1);
  EXPECT_EQ(e.sequence, 1u);
}

TEST_F(BrokenCard, AStalledTransferStallsItsOwnStreamUntilItIsReset) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  StreamHandle other = driver_.open_stream().value();
  auto s = spec(FaultPoint::DmaStep, FaultAction::Stall);
  s.trigger.stream = 0;
  arm(s);
  driver_.submit(to_card(driver_, stream_, region, wire::kMiB));
  card_.pump();
  EXPECT_TRUE(driver_.collect().empty());
  EXPECT_EQ(driver_.run(to_card(driver_, other, region, wire::kMiB)).outcome, Outcome::Ok);
  expect_neighbour_well();
  EXPECT_EQ(evidence().fired, 1u) << "M is served";
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  const auto ended = driver_.wait_for(1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[0].completion.status, Status::Stopped);
  EXPECT_EQ(driver_.run(to_card(driver_, stream_, region, wire::kMiB)).outcome, Outcome::Ok);
}

TEST_F(BrokenCard, AStallHasAnEndAndTheTransferIsGoodAfterIt) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  auto s = spec(FaultPoint::DmaStep, FaultAction::Stall);
  s.argument = 20'000;  // 2 ms
  arm(s);
  const auto end = driver_.run(to_card(driver_, stream_, region, wire::kMiB));
  EXPECT_EQ(end.outcome, Outcome::Ok);
  EXPECT_GE(end.end_time - end.start_time, 20'000u);
  EXPECT_EQ(driver_.run(from_card(driver_, stream_, region, wire::kMiB)).outcome, Outcome::Ok);
  EXPECT_EQ(wrong_bytes(driver_, wire::kMiB), 0u);
}

TEST_F(BrokenCard, AStalledOrSlowTransferRunsOutOfItsBudget) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  for (const auto action : {FaultAction::Stall, FaultAction::Slow}) {
    auto s = spec(FaultPoint::DmaStep, action);
    s.argument = action == FaultAction::Slow ? 1'000'000 : 0;
    arm(s);
    auto block = to_card(driver_, stream_, region, wire::kMiB);
    block.header.budget = 20'000;
    const auto end = driver_.run(block);
    EXPECT_EQ(end.outcome, Outcome::Timeout) << wire::name(action);
    EXPECT_EQ(end.status, Status::BudgetExpired);
    disarm_all();
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
}

// Nothing is left to move behind it, and yet the transfer has not ended before its time is over.
TEST_F(BrokenCard, ASlowLastStepRunsOutOfTheBudgetAsWell) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  auto s = spec(FaultPoint::DmaStep, FaultAction::Slow);
  s.argument = 1'000'000;
  arm(s);
  auto block = to_card(driver_, stream_, region, fw::kContendedStepBytes);  // one step
  block.header.budget = 20'000;
  const auto end = driver_.run(block);
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_EQ(end.status, Status::BudgetExpired);
}

TEST_F(BrokenCard, ASlowLastStepWithoutABudgetEndsWell) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  for (const std::uint64_t bytes : {fw::kContendedStepBytes, 3 * fw::kDmaStepBytes + wire::kStickBytes}) {
    auto s = spec(FaultPoint::DmaStep, FaultAction::Slow);
    s.argument = 100;
    s.trigger.every = 1;
    s.trigger.shots = 0;
    arm(s);
    const auto end = driver_.run(to_card(driver_, stream_, region, bytes));
    EXPECT_EQ(end.outcome, Outcome::Ok) << bytes;
    EXPECT_EQ(end.bytes, bytes);
    disarm_all();
    EXPECT_EQ(driver_.run(from_card(driver_, stream_, region, bytes)).outcome, Outcome::Ok);
    EXPECT_EQ(wrong_bytes(driver_, bytes), 0u);
  }
}

// A clock that work alone moves on: what the campaign (F30) can only bound from below on a machine's clock is exact
// here.
TEST(SlowTransfer, TakesAHundredTimesTheTicksThatItsStepsTake) {
  constexpr std::uint64_t kTimes = 100, kSteps = 8, kBytes = kSteps * fw::kDmaStepBytes;
  fwtest::TestCard card({.virtual_functions = 1, .clock = native::WorkClock{}});
  RawDriver& driver = card.driver(2);
  ASSERT_TRUE(driver.bring_up());
  StreamHandle stream;
  const auto region = driver.acquire(kBytes).value();
  const auto ticks = [&] {
    const auto end = driver.run(driver.fill(stream, region, 0, kBytes, 1));
    EXPECT_EQ(end.outcome, Outcome::Ok);
    return end.end_time - end.start_time;
  };
  const std::uint64_t undisturbed = ticks();
  auto slow = wire::FaultSpec{};
  slow.point = FaultPoint::DmaStep;
  slow.action = FaultAction::Slow;
  slow.argument = kTimes;
  slow.trigger.first = slow.trigger.every = 1;
  slow.trigger.function = wire::kAnyFunction;
  slow.trigger.stream = wire::kAnyStream;
  slow.trigger.opcode = wire::kAnyOpcode;
  slow.trigger.progress = wire::kAnyProgress;
  slow.trigger.core = wire::kAnyCore;
  ASSERT_TRUE(card.card().faults.arm(slow, 0).ok());
  const std::uint64_t slowed = ticks();
  EXPECT_GE(slowed, kTimes * undisturbed * 99 / 100);
  EXPECT_LE(slowed, kTimes * undisturbed * 101 / 100);
}

// ---- checksums ------------------------------------------------------------------------------------------------------

class Checksums : public BrokenCard {
 protected:
  using BrokenCard::BrokenCard;
  wire::ControlBlock summed(wire::ControlBlock block) {
    auto& dma = block.payload.dma;
    dma.flags = wire::kDmaChecksum;
    if (dma.source.kind == wire::EndpointKind::HostMemory) {
      dma.checksum = wire::crc32c(0, driver_.window().data() + dma.source.offset, dma.bytes);
    }
    driver_.seal(block);
    return block;
  }
};

TEST_F(Checksums, ACompletionTellsTheSumOfTheSource) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{127}, std::uint64_t{33'000}, wire::kMiB}) {
    const auto in = driver_.run(summed(to_card(driver_, stream_, region, bytes)));
    ASSERT_EQ(in.outcome, Outcome::Ok) << wire::name(in.status);
    const auto sum = wire::crc32c(0, driver_.window().data() + kHost, bytes);
    EXPECT_EQ(in.checksum, sum);
    const auto out = driver_.run(summed(from_card(driver_, stream_, region, bytes)));
    ASSERT_EQ(out.outcome, Outcome::Ok);
    EXPECT_EQ(out.checksum, sum);
    EXPECT_EQ(driver_.run(from_card(driver_, stream_, region, bytes)).checksum, 0u) << "nobody asked";
  }
}

TEST_F(Checksums, ACorruptedPayloadIsMovedAgainAndArrives) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  auto s = spec(FaultPoint::DmaStep, FaultAction::Corrupt);
  s.argument = 77;
  arm(s);
  const auto end = driver_.run(summed(to_card(driver_, stream_, region, 64 * 1024)));
  EXPECT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
  EXPECT_EQ(evidence().fired, 1u);
  driver_.run(from_card(driver_, stream_, region, 64 * 1024));
  EXPECT_EQ(wrong_bytes(driver_, 64 * 1024), 0u);
}

TEST_F(Checksums, WhatIsCorruptedEveryTimeEndsFaultAfterTheRetries) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  auto s = spec(FaultPoint::DmaStep, FaultAction::Corrupt);
  s.trigger.every = 1;
  arm(s);
  const auto end = driver_.run(summed(to_card(driver_, stream_, region, 8192)));
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::ChecksumMismatch);
  EXPECT_EQ(end.field, wire::Field::DmaChecksum);
  EXPECT_EQ(evidence().fired, 1u + wire::kDmaRetries);
}

TEST_F(Checksums, ACorruptedPayloadOnTheWayOutIsNotWhatTheCompletionSays) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  driver_.run(to_card(driver_, stream_, region, 8192));
  arm(spec(FaultPoint::DmaStep, FaultAction::Corrupt));
  const auto end = driver_.run(summed(from_card(driver_, stream_, region, 8192)));
  EXPECT_EQ(end.outcome, Outcome::Ok);
  EXPECT_EQ(wrong_bytes(driver_, 8192), 1u);
  EXPECT_NE(end.checksum, wire::crc32c(0, driver_.window().data() + kHost + wire::kMiB, 8192));
}

TEST_F(Checksums, WithoutThemCorruptionGoesUnseen) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  arm(spec(FaultPoint::DmaStep, FaultAction::Corrupt));
  EXPECT_EQ(driver_.run(to_card(driver_, stream_, region, 8192)).outcome, Outcome::Ok);
  driver_.run(from_card(driver_, stream_, region, 8192));
  EXPECT_EQ(wrong_bytes(driver_, 8192), 1u);
}

// ---- region entries -------------------------------------------------------------------------------------------------

TEST_F(BrokenCard, ADamagedEntryResolvesToNothingAndAFunctionResetHealsIt) {
  const std::uint64_t free_before = card_.card().pool.free_bytes();
  for (const std::uint64_t byte : {0u, 3u, 9u, 17u, 20u}) {
    const auto region = driver_.acquire(2 * wire::kMiB).value();
    auto s = spec(FaultPoint::RegionEntry, FaultAction::Corrupt);
    s.argument = byte;
    arm(s);
    auto end = driver_.run(to_card(driver_, stream_, region, 4096));
    EXPECT_EQ(end.outcome, Outcome::Rejected);
    EXPECT_EQ(end.status, Status::RegionEntryDamaged) << byte;
    EXPECT_EQ(evidence().fired, 1u);
    EXPECT_EQ(driver_.release(region).status, Status::RegionEntryDamaged);
    expect_neighbour_well();
    disarm_all();
    ASSERT_TRUE(driver_.bring_up());
    stream_ = {};
    card_.pump();
    EXPECT_EQ(card_.card().pool.free_bytes(), free_before) << "what it held went back, whatever the entry said";
  }
}

TEST_F(BrokenCard, AnEntryDamagedUnderATransferEndsItFault) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  auto s = spec(FaultPoint::DmaStep, FaultAction::Stall);
  s.argument = 0;  // until the test ends it, however long the rest takes
  arm(s);
  driver_.submit(to_card(driver_, stream_, region, wire::kMiB));
  card_.run_until_idle();
  StreamHandle other = driver_.open_stream().value();
  auto entry = spec(FaultPoint::RegionEntry, FaultAction::Corrupt);
  entry.fault = 1;
  arm(entry);
  driver_.submit(driver_.fill(other, region, 0, 128, 1));
  const auto refused = driver_.wait_for(1);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].completion.status, Status::RegionEntryDamaged);
  EXPECT_EQ(refused[0].completion.outcome, Outcome::Rejected) << "it had not begun";
  card_.function(2).streams.end_stall(stream_.id);
  const auto broken = driver_.wait_for(1);
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].completion.status, Status::RegionEntryDamaged);
  EXPECT_EQ(broken[0].completion.outcome, Outcome::Fault);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

TEST_F(BrokenCard, ACorrectedMemoryErrorIsToldAndTheDataIsRight) {
  driver_.post_event_buffers(4);
  management_.post_event_buffers(4);
  const auto region = driver_.acquire(4 * wire::kMiB).value();
  auto s = spec(FaultPoint::Memory, FaultAction::Corrected);
  s.region_id = region.id;
  s.offset = 5000;
  arm(s);
  EXPECT_EQ(driver_.run(to_card(driver_, stream_, region, 8192)).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(from_card(driver_, stream_, region, 8192)).outcome, Outcome::Ok);
  EXPECT_EQ(wrong_bytes(driver_, 8192), 0u);
  EXPECT_EQ(evidence().fired, 1u);
  for (RawDriver* who : {&driver_, &management_}) {
    const auto events = events_of(*who, wire::EventKind::MemoryCorrected);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].argument, 1u);
    EXPECT_EQ(events[0].target, kVf1);
  }
  EXPECT_EQ(card_.card().pool.retired_granules(), 0u);
}

TEST_F(BrokenCard, AnUncorrectableErrorEndsTheUnitAndItsGranuleIsNeverGrantedAgain) {
  driver_.post_event_buffers(4);
  management_.post_event_buffers(4);
  const auto region = driver_.acquire(4 * wire::kMiB).value();
  const auto granule = card_.function(2).regions.granted(0).base + wire::kGranuleBytes;
  const std::uint64_t free_before = card_.card().pool.free_bytes() + region.bytes;
  auto s = spec(FaultPoint::Memory, FaultAction::Uncorrectable);
  s.region_id = region.id;
  s.offset = wire::kGranuleBytes + 64;
  arm(s);
  EXPECT_EQ(driver_.run(to_card(driver_, stream_, region, wire::kMiB)).outcome, Outcome::Ok) << "another place";
  const auto end = driver_.run(driver_.fill(stream_, region, wire::kGranuleBytes, 4096, 1));
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::UncorrectableMemory);
  EXPECT_EQ(end.fault.region_ordinal, 0u);
  EXPECT_EQ(end.fault.offset, wire::kGranuleBytes + 64);
  EXPECT_EQ(events_of(driver_, wire::EventKind::MemoryRetired).size(), 1u);
  EXPECT_EQ(events_of(management_, wire::EventKind::MemoryRetired).size(), 1u);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  card_.pump();
  EXPECT_EQ(card_.card().pool.free_bytes(), free_before - wire::kGranuleBytes);
  for (int boot = 0; boot < 2; ++boot) {
    // All that can be granted, granule by granule, from both functions: it is not among it.
    for (RawDriver* who : {&driver_, &neighbour_}) {
      while (const auto got = who->acquire(16 * wire::kMiB)) {
        for (unsigned f : {2u, 3u}) {
          for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
            const auto& grant = card_.function(f).regions.granted(i);
            EXPECT_FALSE(granule >= grant.base && granule < grant.base + grant.bytes);
          }
        }
      }
    }
    EXPECT_EQ(card_.card().pool.retired_granules(), 1u) << "boot " << boot;
    if (boot == 1) break;
    card_.warm_reset();
    ASSERT_TRUE(driver_.bring_up());
    ASSERT_TRUE(neighbour_.bring_up());
  }
}

// ---- completions, replies, doorbells, heartbeat ---------------------------------------------------------------------

TEST_F(BrokenCard, ASuppressedCompletionNeverComesAndTheStreamGoesOn) {
  auto s = spec(FaultPoint::Completion, FaultAction::Suppress);
  s.trigger.sequence = 2;
  arm(s);
  for (int i = 0; i < 3; ++i) driver_.submit(driver_.nop(stream_));
  card_.pump();
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].completion.sequence, 1u);
  EXPECT_EQ(ended[1].completion.sequence, 3u);
  EXPECT_EQ(evidence().fired, 1u);
}

TEST_F(BrokenCard, ACorruptedCompletionDiffersInOneByte) {
  auto s = spec(FaultPoint::Completion, FaultAction::Corrupt);
  s.argument = offsetof(wire::Completion, cookie);
  arm(s);
  const auto block = driver_.nop(stream_);
  const auto end = driver_.run(block);
  EXPECT_EQ(end.cookie, block.header.cookie ^ 0xff);
  EXPECT_EQ(end.sequence, 1u);
}

TEST_F(BrokenCard, ADuplicateCompletionIsGivenBackTwice) {
  arm(spec(FaultPoint::Completion, FaultAction::Duplicate));
  driver_.submit(driver_.nop(stream_));
  card_.pump();
  auto& ring = driver_.ring(wire::kControlBlockQueue);
  const auto first = ring.poll();
  ASSERT_TRUE(first);
  EXPECT_TRUE(ring.has_used()) << "a driver that holds nothing more is told of something";
  EXPECT_EQ(evidence().fired, 1u);
}

TEST_F(BrokenCard, ALostReplyIsLostAfterTheCommandWasExecuted) {
  auto s = spec(FaultPoint::AdminReply, FaultAction::Suppress);
  s.trigger.opcode = static_cast<std::uint32_t>(wire::AdminCommand::RegionAcquire);
  arm(s);
  auto request = driver_.admin_request(wire::AdminCommand::RegionAcquire);
  request.arguments.region_acquire = {2 * wire::kMiB, wire::RegionType::Tensor};
  driver_.send_admin(request);
  card_.pump();
  EXPECT_FALSE(driver_.ring(wire::kAdminQueue).has_used());
  EXPECT_EQ(card_.function(2).regions.granted_bytes(), 2 * wire::kMiB);
  EXPECT_EQ(evidence().fired, 1u);
}

TEST_F(BrokenCard, ASuppressedDoorbellIsNotLevelAndADuplicateTwice) {
  auto& ring = driver_.ring(wire::kControlBlockQueue);
  const auto doorbells_of = [&] {
    ring.ask_for_next(false);
    const auto before = card_.rings(2);
    driver_.submit(driver_.nop(stream_));
    card_.run_until_idle();
    EXPECT_EQ(driver_.collect().size(), 1u);
    return card_.rings(2) - before;
  };
  EXPECT_EQ(doorbells_of(), 1u);
  arm(spec(FaultPoint::Doorbell, FaultAction::Suppress));
  EXPECT_EQ(doorbells_of(), 0u);
  disarm_all();
  arm(spec(FaultPoint::Doorbell, FaultAction::Duplicate));
  EXPECT_EQ(doorbells_of(), 2u);
}

TEST_F(BrokenCard, ASuppressedHeartbeatStopsForItsFunctionOnly) {
  auto s = spec(FaultPoint::Heartbeat, FaultAction::Suppress);
  s.trigger.every = 1;
  arm(s);
  const auto before = wire::load_relaxed(driver_.header().heartbeat);
  const auto other = wire::load_relaxed(neighbour_.header().heartbeat);
  card_.start_loop();
  const auto end = std::chrono::steady_clock::now() + test_bounds::kAnswer;
  while (wire::load_relaxed(neighbour_.header().heartbeat) < other + 3 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  card_.stop_loop();
  ASSERT_GE(wire::load_relaxed(neighbour_.header().heartbeat), other + 3);
  EXPECT_EQ(wire::load_relaxed(driver_.header().heartbeat), before);
  EXPECT_GE(evidence().fired, 2u);
}

// ---- the loop, and resets -------------------------------------------------------------------------------------------

TEST_F(BrokenCard, AStalledDispatcherStallsEverybodyForItsTime) {
  auto s = spec(FaultPoint::Dispatcher, FaultAction::Stall);
  s.trigger.function = 0;
  s.argument = 30'000;
  arm(s);
  driver_.submit(driver_.nop(stream_));
  const auto before = hal::now();
  unsigned quiet = 0;
  fw::loop_step(card_.card(), quiet);
  EXPECT_GE(hal::now() - before, 30'000u);  // elapsed: a late thread only makes it longer
  card_.pump();
  EXPECT_EQ(driver_.collect().size(), 1u);
}

TEST_F(BrokenCard, AStalledResetGoesOnWhenItsTimeIsOverOrTheFaultIsDisarmed) {
  for (const std::uint64_t argument : {20'000u, 0u}) {
    auto s = spec(FaultPoint::FunctionReset, FaultAction::Stall);
    s.argument = argument;
    arm(s);
    const auto generation = driver_.header().generation;
    driver_.send(driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{wire::kStatusReset}));
    const auto before = hal::now();
    card_.run_until_idle();
    EXPECT_EQ(driver_.header().generation, generation + 1) << "its driver may see that it is under way";
    expect_neighbour_well();
    if (argument == 0) {
      disarm_all();
    } else {
      while (hal::now() < before + argument) card_.run_until_idle();
      disarm_all();
    }
    card_.run_until_idle();
    EXPECT_EQ(driver_.header().generation, generation + 2) << "it has ended";
    driver_.receive();
    ASSERT_TRUE(driver_.bring_up());
  }
}

}  // namespace
