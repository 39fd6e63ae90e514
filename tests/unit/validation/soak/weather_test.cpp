// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/soak/weather.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace svp::soak {
namespace {

constexpr FunctionMask only(unsigned function) { return FunctionMask{1} << function; }

TEST(Weather, IsCalmUntilAStormBegins) {
  Weather weather;
  const auto mark = weather.mark(1);
  EXPECT_TRUE(weather.calm_since(1, mark));
  const Weather::Storm storm(weather, only(1));
  EXPECT_FALSE(weather.calm_since(1, mark));
}

TEST(Weather, AStormThatIsOverStillExcuses) {
  Weather weather;
  const auto before = weather.mark(1);
  {
    const Weather::Storm storm(weather, only(1));
  }
  EXPECT_FALSE(weather.calm_since(1, before));
  EXPECT_TRUE(weather.calm_since(1, weather.mark(1))) << "and not what comes after it";
}

TEST(Weather, AMarkTakenInAStormExcusesForEver) {
  Weather weather;
  auto storm = std::make_unique<Weather::Storm>(weather, only(1));
  const auto mark = weather.mark(1);
  storm.reset();
  EXPECT_FALSE(weather.calm_since(1, mark));
}

TEST(Weather, StormsOverOthersExcuseNobody) {
  Weather weather;
  const auto mark = weather.mark(2);
  const Weather::Storm storm(weather, only(1) | only(3));
  EXPECT_TRUE(weather.calm_since(2, mark));
}

TEST(Weather, StormsOverlap) {
  Weather weather;
  auto everybody = std::make_unique<Weather::Storm>(weather, kEverybody);
  const Weather::Storm one(weather, only(1));
  everybody.reset();
  EXPECT_FALSE(weather.calm_since(1, weather.mark(1)));
  EXPECT_TRUE(weather.calm_since(2, weather.mark(2)));
}

// What is disturbed between begin and end of a storm is never seen in calm weather, whatever the interleaving.
TEST(Weather, NothingThatHappensInAStormIsSeenInCalmWeather) {
  constexpr int kStorms = 1'000'000;
  Weather weather;
  std::atomic<std::uint64_t> disturbed{0};
  std::atomic<bool> over{false};
  std::thread storms([&] {
    for (int i = 0; i < kStorms; ++i) {
      const Weather::Storm storm(weather, only(1));
      disturbed.fetch_add(1);
    }
    over = true;
  });
  std::uint64_t seen = 0;
  while (!over) {
    const auto mark = weather.mark(1);
    const std::uint64_t before = disturbed.load();
    std::this_thread::yield();
    const std::uint64_t after = disturbed.load();
    if (weather.calm_since(1, mark)) seen += before != after ? 1 : 0;
  }
  storms.join();  // bounded: so many storms
  EXPECT_EQ(seen, 0u);
}

}  // namespace
}  // namespace svp::soak
