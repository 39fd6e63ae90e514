// SPDX-License-Identifier: Apache-2.0
// Faults that the card is told to make in the middle of a strided DMA.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "firmware/core/dispatcher.hpp"
#include "tests/support/random_nests.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using svp::test::Nest;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kHost = wire::kHostMemoryOffset;
constexpr std::uint64_t kBytes = 256 * wire::kKiB;  // of either memory

class StridedFaults : public testing::Test {
 protected:
  StridedFaults() {
    EXPECT_TRUE(driver_.bring_up());
    region_ = driver_.acquire(4 * wire::kMiB).value();
    for (std::uint64_t i = 0; i < kBytes; ++i) driver_.window()[kHost + i] = static_cast<std::byte>(i * 7 + i / 251);
  }

  static wire::FaultSpec spec(FaultPoint point, FaultAction action) {
    wire::FaultSpec s{};
    s.point = point;
    s.action = action;
    s.trigger.function = 2;
    s.trigger.stream = wire::kAnyStream;
    s.trigger.opcode = wire::kAnyOpcode;
    s.trigger.progress = wire::kAnyProgress;
    s.trigger.core = wire::kAnyCore;
    s.trigger.first = 1;
    return s;
  }
  void arm(const wire::FaultSpec& s, std::uint64_t place = 0) { ASSERT_TRUE(card_.card().faults.arm(s, place).ok()); }
  std::uint64_t address() {
    return card_.function(2).regions.resolve(region_.id, region_.generation, 0, 1).value().address;
  }

  // Every other element of two bytes, rows of 100 of them transposed: several steps.
  Nest nest() const { return {2, {{100, 640, 2}, {640, 1, 200}}, 0, 64}; }
  wire::ControlBlock to_card() {
    const Nest n = nest();
    return driver_.strided(stream_, RawDriver::host(kHost), RawDriver::device(region_, n.destination), n.element_bytes,
                           n.levels);
  }
  wire::ControlBlock summed(wire::ControlBlock block) {
    block.payload.dma.flags |= wire::kDmaChecksum;
    block.payload.dma.checksum = svp::test::sum(nest(), driver_.window().subspan(kHost, kBytes));
    driver_.seal(block);
    return block;
  }
  std::uint64_t wrong_bytes() {
    std::vector<std::byte> expected(2 * kBytes);
    svp::test::move(nest(), driver_.window().subspan(kHost, kBytes), expected);
    const std::byte* is = hal::pointer(address());
    std::uint64_t wrong = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) wrong += is[i] != expected[i] ? 1 : 0;
    return wrong;
  }

  fwtest::TestCard card_{{.virtual_functions = 1,
                          .window_bytes = 8 * wire::kMiB,
                          .region_bytes = 128 * wire::kMiB,
                          .clock = native::WorkClock{}}};
  RawDriver& driver_ = card_.driver(2);
  RegionHandle region_{};
  StreamHandle stream_;
};

TEST_F(StridedFaults, WithoutAFaultEveryByteArrives) {
  EXPECT_EQ(driver_.run(to_card()).outcome, Outcome::Ok);
  EXPECT_EQ(wrong_bytes(), 0u);
}

TEST_F(StridedFaults, AnAbortedTransferSaysHowFarItCame) {
  auto s = spec(FaultPoint::DmaStep, FaultAction::Abort);
  s.trigger.first = 3;
  arm(s);
  const auto end = driver_.run(to_card());
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::TransferAborted);
  EXPECT_GT(end.bytes, 0u);
  EXPECT_LT(end.bytes, nest().bytes());
  EXPECT_EQ(end.bytes % 2, 0u);
}

TEST_F(StridedFaults, AStalledTransferGoesOnWhereItWas) {
  auto s = spec(FaultPoint::DmaStep, FaultAction::Stall);
  s.trigger.first = 2;
  s.argument = 5000;
  arm(s);
  const auto end = driver_.run(to_card());
  EXPECT_EQ(end.outcome, Outcome::Ok);
  EXPECT_GT(end.end_time - end.start_time, 5000u);
  EXPECT_EQ(wrong_bytes(), 0u);
}

TEST_F(StridedFaults, ASlowTransferTakesSoManyTimesTheTicks) {
  const auto ticks = [&] {
    const auto end = driver_.run(to_card());
    EXPECT_EQ(end.outcome, Outcome::Ok);
    return end.end_time - end.start_time;
  };
  (void)ticks();
  const std::uint64_t undisturbed = ticks();
  auto s = spec(FaultPoint::DmaStep, FaultAction::Slow);
  s.argument = 10;  // each tick of the work clock takes the host some work
  s.trigger.every = 1;
  arm(s);
  const std::uint64_t slowed = ticks();
  EXPECT_GE(slowed, undisturbed * 9);
  EXPECT_LE(slowed, undisturbed * 11);
  EXPECT_EQ(wrong_bytes(), 0u);
}

TEST_F(StridedFaults, ACorruptedByteIsOneOfTheElements) {
  auto s = spec(FaultPoint::DmaStep, FaultAction::Corrupt);
  s.trigger.first = 2;
  s.argument = 12345;
  arm(s);
  EXPECT_EQ(driver_.run(to_card()).outcome, Outcome::Ok) << "nobody asked for a checksum";
  EXPECT_EQ(wrong_bytes(), 1u);
}

TEST_F(StridedFaults, WithAChecksumItIsMovedAgainAndArrives) {
  auto s = spec(FaultPoint::DmaStep, FaultAction::Corrupt);
  s.trigger.first = 2;
  s.argument = 777;
  arm(s);
  const auto end = driver_.run(summed(to_card()));
  EXPECT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
  EXPECT_EQ(wrong_bytes(), 0u);
  EXPECT_EQ(end.bytes, nest().bytes());
}

TEST_F(StridedFaults, WhatIsCorruptedEveryTimeEndsFaultAfterTheRetries) {
  auto s = spec(FaultPoint::DmaStep, FaultAction::Corrupt);
  s.trigger.every = 1;
  arm(s);
  const auto end = driver_.run(summed(to_card()));
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::ChecksumMismatch);
  EXPECT_EQ(end.field, wire::Field::DmaChecksum);
}

// ---- memory that fails ----------------------------------------------------------------------------------------------

TEST_F(StridedFaults, AFailingByteOfAnElementEndsItAndIsNamed) {
  auto s = spec(FaultPoint::Memory, FaultAction::Uncorrectable);
  const std::uint64_t byte = 64 + 200 * 2 * 300 + 4 * 7 + 1;  // the second byte of an element
  arm(s, address() + byte);
  const auto end = driver_.run(to_card());
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::UncorrectableMemory);
  EXPECT_EQ(end.fault.access, wire::FaultAccess::Store);
  EXPECT_EQ(end.fault.offset, byte);
  EXPECT_EQ(end.fault.region_ordinal, 0u);
  EXPECT_EQ(end.bytes, (300 * 100 + 7) * 2u) << "all elements before it";
  EXPECT_EQ(card_.function(2).counters().bytes_to_device, end.bytes);
}

TEST_F(StridedFaults, AFailingByteBetweenElementsIsNotTouched) {
  arm(spec(FaultPoint::Memory, FaultAction::Uncorrectable), address() + 64 + 200 * 2 * 300 + 4 * 7 + 2);
  EXPECT_EQ(driver_.run(to_card()).outcome, Outcome::Ok);
  EXPECT_EQ(wrong_bytes(), 0u);
}

TEST_F(StridedFaults, AFailingByteOfTheSourceIsALoad) {
  ASSERT_EQ(driver_.run(to_card()).outcome, Outcome::Ok);
  arm(spec(FaultPoint::Memory, FaultAction::Uncorrectable), address() + 1000);
  const wire::StridedLevel levels[] = {{1000, -1, 1}};
  const auto end = driver_.run(
      driver_.strided(stream_, RawDriver::device(region_, 4000), RawDriver::host(kHost + wire::kMiB), 4, levels));
  EXPECT_EQ(end.status, Status::UncorrectableMemory);
  EXPECT_EQ(end.fault.access, wire::FaultAccess::Load);
  EXPECT_EQ(end.fault.offset, 1000u);
  EXPECT_EQ(end.bytes, 3000u);
}

}  // namespace
