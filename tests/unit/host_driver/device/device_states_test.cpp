// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/device_states.hpp"

#include <gtest/gtest.h>

#include "host_driver/ras/state_log.hpp"
#include "tests/unit/host_driver/base/state_table_checks.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

TEST(DeviceStates, DeviceTakesEveryEdgeAndNoOther) { test::expect_lifecycle<DeviceState>(); }
TEST(DeviceStates, HealthTakesEveryEdgeAndNoOther) { test::expect_lifecycle<Health>(); }

TEST(DeviceStates, StreamOfTheRingTakesEveryEdgeAndNoOther) { test::expect_lifecycle<RingStreamState>(); }

TEST(DeviceStates, EveryDecisionIsAnEdge) {
  const auto allowed = [](auto from, auto to) {
    return !to || state_table(from).allows(static_cast<unsigned>(from), static_cast<unsigned>(*to));
  };
  for (unsigned i = 0; i < kDeviceStateNames.size(); ++i) {
    const auto state = static_cast<DeviceState>(i);
    SCOPED_TRACE(state_name(state));
    EXPECT_TRUE(allowed(state, begin_failing(state)));
    if (is_failing(state)) EXPECT_TRUE(allowed(state, end_failing(state)));
    EXPECT_TRUE(allowed(state, begin_detaching(state)));
  }
  for (const Health health : {Health::Alive, Health::Silent, Health::NeedsReset, Health::Dead}) {
    for (const bool quiet : {false, true}) EXPECT_TRUE(allowed(health, listened(health, quiet)));
  }
}

TEST(DeviceStates, FailureAndDetachMeetInAnyOrder) {
  const DeviceState failed_first = *begin_detaching(*end_failing(*begin_failing(DeviceState::Working)));
  const DeviceState closed_first = *end_failing(*begin_failing(*begin_detaching(DeviceState::Working)));
  EXPECT_EQ(failed_first, DeviceState::DetachingFailed);
  EXPECT_EQ(closed_first, DeviceState::DetachingFailed);
  EXPECT_EQ(begin_detaching(closed_first), std::nullopt) << "two threads would let go of one function";
}

TEST(DeviceStates, ACloseGoesThroughTheLog) {
  test::NativeCard card;
  const std::uint64_t before = ras::StateLog::process().noted();
  card.attach(1)->close();
  std::vector<std::string_view> states;
  for (const auto& change : ras::StateLog::process().changes()) {
    if (change.machine == "device") states.push_back(change.to);
  }
  EXPECT_GE(ras::StateLog::process().noted(), before + 4);
  EXPECT_EQ(states,
            (std::vector<std::string_view>{"detaching", "detaching, failing", "detaching, failed", "detached"}));
}

}  // namespace
}  // namespace svp
