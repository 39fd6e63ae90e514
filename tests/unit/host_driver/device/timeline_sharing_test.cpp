// SPDX-License-Identifier: Apache-2.0
// Tokens for timelines, and the grants that M makes of them: on the firmware itself, natively.
#include "host_driver/device/timeline_sharing.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

Timeline timeline(std::uint32_t stream, std::uint64_t generation = 7, wire::Target function = wire::kTargetPhysical) {
  return {.function = function, .generation = generation, .stream = stream, .incarnation = 1};
}

TEST(TimelineTokens, AreReadAsTheyAreWritten) {
  TimelineOffers offers;
  const TimelineToken token = offers.offer(timeline(1));
  EXPECT_EQ(token_from(to_text(token)), token);
  EXPECT_EQ(token_from(to_text(token).substr(1)), std::nullopt);
  EXPECT_EQ(token_from(std::string(32, 'x')), std::nullopt);
}

TEST(TimelineTokens, NameOneTimelineEachUntilItsFunctionIsAnotherOne) {
  TimelineOffers offers;
  std::set<TimelineToken> all;
  for (std::uint32_t stream = 0; stream < 100; ++stream) {
    const TimelineToken token = offers.offer(timeline(stream));
    EXPECT_EQ(offers.offer(timeline(stream)), token);
    EXPECT_EQ(offers.find(token), timeline(stream));
    all.insert(token);
  }
  EXPECT_EQ(all.size(), 100u);
  EXPECT_EQ(offers.find(TimelineToken{}), std::nullopt);
  const TimelineToken other = offers.offer(timeline(1, 7, wire::target_of_virtual(1)));
  const TimelineToken next = offers.offer(timeline(1, 8));
  EXPECT_EQ(offers.find(*all.begin()), std::nullopt) << "the function was reset";
  EXPECT_EQ(offers.find(next), timeline(1, 8));
  offers.forget(wire::kTargetPhysical);
  EXPECT_EQ(offers.find(next), std::nullopt);
  EXPECT_NE(offers.find(other), std::nullopt) << "of another function";
}

TEST(TimelineTokens, AreSoManyPerFunctionAndTheLastOnesStay) {
  TimelineOffers offers;
  const TimelineToken other = offers.offer(timeline(0, 7, wire::target_of_virtual(1)));
  const auto nth = [](std::uint32_t n) {
    return Timeline{.function = wire::kTargetPhysical, .generation = 7, .stream = 1, .incarnation = n};
  };
  const TimelineToken first = offers.offer(nth(0));
  TimelineToken last{};
  for (std::uint32_t n = 1; n <= TimelineOffers::kMostTimelines; ++n) last = offers.offer(nth(n));
  EXPECT_EQ(offers.find(first), std::nullopt);
  EXPECT_EQ(offers.find(last), nth(TimelineOffers::kMostTimelines));
  EXPECT_NE(offers.find(other), std::nullopt);
}

class TimelineGrants : public testing::Test {
 protected:
  Timeline of(Device& device, std::uint32_t stream) const {
    return {.function = wire::kTargetPhysical,
            .generation = device.config().generation,
            .stream = stream,
            .incarnation = device.stream_incarnation(stream)};
  }
  Expected<TimelineGrant> ask(const Timeline& timeline) {
    return grant_timeline(*management_, timeline, wire::target_of_virtual(1), virtual_->config().generation);
  }

  test::NativeCard card_;
  std::unique_ptr<Device> management_ = card_.attach(0);
  std::unique_ptr<Device> physical_ = card_.attach(1);
  std::unique_ptr<Device> virtual_ = card_.attach(2);
};

TEST_F(TimelineGrants, AreTheSameForTheSameTimeline) {
  const std::uint32_t stream = *physical_->open_stream(StreamPriority::Low);
  const auto granted = ask(of(*physical_, stream));
  ASSERT_TRUE(granted) << describe(granted.error());
  EXPECT_EQ(*ask(of(*physical_, stream)), *granted);
  EXPECT_NE(*ask(of(*physical_, 0)), *granted);
}

TEST_F(TimelineGrants, ThatTheCardRefusesSayWhatToDoNext) {
  const auto expect = [&](const Timeline& timeline, wire::Status status) {
    const auto refused = ask(timeline);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, status) << refused.error().message;
    EXPECT_EQ(refused.error().layer, Layer::Firmware);
    EXPECT_FALSE(refused.error().next_step.empty());
  };
  Timeline timeline = of(*physical_, 0);
  ++timeline.generation;
  expect(timeline, wire::Status::StaleGeneration);
  expect(of(*physical_, 99), wire::Status::UnknownStream);
  timeline = of(*physical_, 0);
  timeline.function = wire::target_of_virtual(9);
  expect(timeline, wire::Status::UnknownFunction);
  for (std::uint32_t n = 0; n < wire::kGrantsPerFunction; ++n) {
    ASSERT_TRUE(ask(of(*physical_, *physical_->open_stream(StreamPriority::Low))));
  }
  expect(of(*physical_, *physical_->open_stream(StreamPriority::Low)), wire::Status::OutOfGrants);
  management_->close();
  EXPECT_FALSE(ask(of(*physical_, 0))) << "M is gone";
}

}  // namespace
}  // namespace svp
