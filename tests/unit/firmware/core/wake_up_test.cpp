// SPDX-License-Identifier: Apache-2.0
// Nobody sleeps while there is work (protocol §8): round trips with random think times, both sides sleeping, no idle
// timer on the card and no timeout on the host. A lost wake-up shows as a sleep that ran into its bound.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>

#include "firmware/platform/host/native_board.hpp"
#include "shared/memory_order.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::StreamHandle;

// The host's end of a doorbell: a flag that stays set until it is looked at, as a pipe stays readable.
class Doorbell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      pending_ = true;
    }
    condition_.notify_one();
  }
  bool await_ring() {
    std::unique_lock lock(mutex_);
    const bool came =
        condition_.wait_until(lock, std::chrono::steady_clock::now() + test_bounds::kThread, [&] { return pending_; });
    pending_ = false;
    return came;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool pending_ = false;
};

void think(std::mt19937_64& random) {
  // From nothing to well beyond the card's spin time, so that every interleaving with its way to sleep comes up.
  volatile unsigned spin = 0;
  for (std::uint64_t n = std::uint64_t{1} << random() % 17; n > 0; --n) spin = spin + 1;
}

class WakeUp : public testing::TestWithParam<bool> {};

TEST_P(WakeUp, RoundTripsWithBothSidesAsleepLoseNoDoorbell) {
  constexpr unsigned kRounds = 100'000;
  const bool event_idx = GetParam();
  Doorbell doorbell;
  fwtest::TestCard card({.boot_arguments = "timers=0"});
  auto& driver = card.driver(2);
  ASSERT_TRUE(
      driver.bring_up(event_idx ? wire::kOfferedFeatures & ~wire::kFeatureControlBlockCrc : wire::kMandatoryFeatures));
  card.on_ring = [&](unsigned slot) {
    if (slot == 2) doorbell.ring();
  };
  card.start_loop();
  auto& ring = driver.ring(wire::kControlBlockQueue);
  StreamHandle stream;
  std::mt19937_64 random(1);
  std::uint64_t host_sleeps = 0, doorbells = 0, ended = 0;
  for (unsigned round = 0; round < kRounds;) {
    const unsigned batch = 1 + static_cast<unsigned>(random() % 3);
    for (unsigned i = 0; i < batch; ++i) driver.submit(driver.nop(stream));
    round += batch;
    if (ring.doorbell_wanted(event_idx)) {
      ++doorbells;
      card.board().doorbell();
    }
    if (random() % 2 == 0) think(random);
    for (unsigned waiting = batch; waiting > 0;) {
      const auto some = driver.collect();
      for (const auto& end : some) ASSERT_EQ(end.completion.outcome, wire::Outcome::Ok);
      waiting -= static_cast<unsigned>(some.size());
      ended += some.size();
      if (waiting == 0 || !some.empty()) continue;
      ring.ask_for_next(event_idx);
      wire::full_fence();
      if (!ring.has_used()) {
        ++host_sleeps;
        ASSERT_TRUE(doorbell.await_ring()) << "the card's doorbell was lost after " << ended << " blocks";
      }
      ring.ask({0, false, wire::EventFlags::Disable});
    }
    if (random() % 4 == 0) think(random);
  }
  card.stop_loop();
  EXPECT_EQ(card.board().overslept(), 0u) << "the host's doorbell was lost";
  EXPECT_GT(card.card().sleeps(), 100u) << "the card never slept: nothing was tested";
  EXPECT_GT(host_sleeps, 100u);
  RecordProperty("card_sleeps", std::to_string(card.card().sleeps()));
  RecordProperty("host_sleeps", std::to_string(host_sleeps));
  RecordProperty("doorbells_to_card", std::to_string(doorbells));
}

INSTANTIATE_TEST_SUITE_P(With, WakeUp, testing::Bool(),
                         [](const auto& info) { return info.param ? "EventIndex" : "EnableAndDisable"; });

}  // namespace
