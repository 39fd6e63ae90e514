// SPDX-License-Identifier: Apache-2.0
#include "host_driver/trace/clock_fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "shared/units.hpp"

namespace svp::trace {
namespace {

constexpr double kTick = 1e9 / static_cast<double>(wire::kTicksPerSecond);

// Blocks of a card whose clock stood at 0 when the host's stood at `offset` nanoseconds: sent, started, ended and found
// at random distances.
std::vector<ClockSample> blocks(std::mt19937_64& random, std::uint64_t offset, std::uint64_t from, unsigned count) {
  std::vector<ClockSample> samples;
  std::uint64_t now = from;
  for (unsigned i = 0; i < count; ++i) {
    const std::uint64_t sent = now += random() % 20'000;
    const std::uint64_t start = now += random() % 5'000;
    const std::uint64_t end = now += random() % 50'000;
    const std::uint64_t found = now += random() % 9'000;
    const auto ticks = [&](std::uint64_t at) {
      return static_cast<std::uint64_t>(static_cast<double>(at - offset) / kTick);
    };
    samples.push_back({sent, ticks(start), ticks(end), found});
  }
  return samples;
}

TEST(ClockFit, WithoutABlockNothingIsKnown) {
  EXPECT_FALSE(ClockFit({}).host_time(1, 1).has_value());
  EXPECT_EQ(ClockFit({}).error(), 0);
}

TEST(ClockFit, IsExactWithinTheErrorThatItTells) {
  std::mt19937_64 random(1);
  for (unsigned round = 0; round < 300; ++round) {
    const std::uint64_t offset = 1'000'000'000 + random() % 1'000'000'000'000;
    const auto samples = blocks(random, offset, offset + 10'000, 1 + static_cast<unsigned>(random() % 200));
    const ClockFit fit(samples);
    ASSERT_EQ(fit.segments(), 1u);
    for (const ClockSample& sample : samples) {
      const double exact = static_cast<double>(sample.device_start) * kTick + static_cast<double>(offset);
      ASSERT_NEAR(*fit.host_time(sample.device_start, sample.found), exact, fit.error() + 2 * kTick);
    }
  }
}

TEST(ClockFit, ManyBlocksBoundTheClockCloselyThanOne) {
  std::mt19937_64 random(2);
  const auto samples = blocks(random, 5'000'000, 6'000'000, 2000);
  EXPECT_LT(ClockFit(samples).error(), 2'000);
  EXPECT_GT(ClockFit(std::span(samples).first(1)).error(), ClockFit(samples).error());
}

TEST(ClockFit, AClockThatWasSetBeginsASegment) {
  std::mt19937_64 random(3);
  auto samples = blocks(random, 5'000'000, 6'000'000, 100);
  const std::uint64_t restart = samples.back().found + 1'000'000;  // a new boot: the counter begins at 0 again
  for (const ClockSample& sample : blocks(random, restart, restart + 50'000, 100)) samples.push_back(sample);
  const ClockFit fit(samples);
  ASSERT_EQ(fit.segments(), 2u);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double exact =
        static_cast<double>(samples[i].device_start) * kTick + static_cast<double>(i < 100 ? 5'000'000 : restart);
    ASSERT_NEAR(*fit.host_time(samples[i].device_start, samples[i].found), exact, fit.error() + 2 * kTick) << i;
  }
}

TEST(ClockFit, BlocksThatNoOrderExplainsAreNoBounds) {
  // 1 ms of work within 10 µs of the host's time.
  const std::vector<ClockSample> impossible = {{1000, 0, wire::kTicksPerSecond / 1000, 11'000}};
  EXPECT_EQ(ClockFit(impossible).segments(), 0u);
}

}  // namespace
}  // namespace svp::trace
