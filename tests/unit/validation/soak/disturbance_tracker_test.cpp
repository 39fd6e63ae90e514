// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/soak/disturbance_tracker.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace svp::soak {
namespace {

constexpr FunctionMask only(unsigned function) { return FunctionMask{1} << function; }

TEST(DisturbanceTracker, IsUndisturbedUntilAScopeBegins) {
  DisturbanceTracker tracker;
  const auto mark = tracker.mark(1);
  EXPECT_TRUE(tracker.undisturbed_since(1, mark));
  const DisturbanceTracker::Scope scope(tracker, only(1));
  EXPECT_FALSE(tracker.undisturbed_since(1, mark));
}

TEST(DisturbanceTracker, AScopeThatIsOverStillExcuses) {
  DisturbanceTracker tracker;
  const auto before = tracker.mark(1);
  {
    const DisturbanceTracker::Scope scope(tracker, only(1));
  }
  EXPECT_FALSE(tracker.undisturbed_since(1, before));
  EXPECT_TRUE(tracker.undisturbed_since(1, tracker.mark(1))) << "and not what comes after it";
}

TEST(DisturbanceTracker, AMarkTakenInAScopeExcusesForEver) {
  DisturbanceTracker tracker;
  auto scope = std::make_unique<DisturbanceTracker::Scope>(tracker, only(1));
  const auto mark = tracker.mark(1);
  scope.reset();
  EXPECT_FALSE(tracker.undisturbed_since(1, mark));
}

TEST(DisturbanceTracker, ScopesOverOthersExcuseNobody) {
  DisturbanceTracker tracker;
  const auto mark = tracker.mark(2);
  const DisturbanceTracker::Scope scope(tracker, only(1) | only(3));
  EXPECT_TRUE(tracker.undisturbed_since(2, mark));
}

TEST(DisturbanceTracker, ScopesOverlap) {
  DisturbanceTracker tracker;
  auto everybody = std::make_unique<DisturbanceTracker::Scope>(tracker, kEverybody);
  const DisturbanceTracker::Scope one(tracker, only(1));
  everybody.reset();
  EXPECT_FALSE(tracker.undisturbed_since(1, tracker.mark(1)));
  EXPECT_TRUE(tracker.undisturbed_since(2, tracker.mark(2)));
}

// What is disturbed between begin and end of a disturbance is never seen in undisturbed time, whatever the
// interleaving.
TEST(DisturbanceTracker, AnEventInAScopeIsNeverTakenForUndisturbed) {
  constexpr int kScopes = 1'000'000;
  DisturbanceTracker tracker;
  std::atomic<std::uint64_t> disturbed{0};
  std::atomic<bool> over{false};
  std::thread disturbances([&] {
    for (int i = 0; i < kScopes; ++i) {
      const DisturbanceTracker::Scope scope(tracker, only(1));
      disturbed.fetch_add(1);
    }
    over = true;
  });
  std::uint64_t seen = 0;
  while (!over) {
    const auto mark = tracker.mark(1);
    const std::uint64_t before = disturbed.load();
    std::this_thread::yield();
    const std::uint64_t after = disturbed.load();
    if (tracker.undisturbed_since(1, mark)) seen += before != after ? 1 : 0;
  }
  disturbances.join();  // bounded: so many disturbances
  EXPECT_EQ(seen, 0u);
}

}  // namespace
}  // namespace svp::soak
