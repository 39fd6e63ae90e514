// SPDX-License-Identifier: Apache-2.0
// No wake-up is ever lost (protocol §8): round trips between two sides that go to sleep at random moments, with every
// timer off that could hide a lost wake-up, on both sides: one that is lost lasts until the bound that ends the wait.
//
// SPYRE_ROUND_TRIPS says how many; scripts/soak-wakeups runs the same program with millions and shows its progress
// (SPYRE_ROUND_TRIPS_PROGRESS=1).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "host_driver/transport/pause.hpp"
#include "tests/bounds.hpp"
#include "tests/device/card/card_support.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kDefaultRoundTrips = 100'000;
constexpr auto kStall = test_bounds::kStalledRoundTrip;
// Mostly as short as a busy program thinks; one in four long enough for the card to fall asleep, or nearly so: the
// moment between its last look and its sleep is what this is about.
constexpr unsigned kShortThinkNanoseconds = 50'000;
constexpr unsigned kLongThinkNanoseconds = 300'000;
constexpr std::uint64_t kSeed = 20260121;
constexpr std::uint64_t kMostTimes = 20;    // as many round trips as wanted, until both sides slept often
constexpr std::uint64_t kLookAfter = 1000;  // round trips; a look is a round trip of its own

std::uint64_t wanted_round_trips() {
  const char* text = std::getenv("SPYRE_ROUND_TRIPS");
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : kDefaultRoundTrips;
}

struct Result {
  std::uint64_t done = 0;
  std::uint64_t host_sleeps = 0;
  std::uint64_t card_sleeps = 0;
  std::chrono::nanoseconds worst{};
  std::chrono::nanoseconds total{};
};

class Progress {
 public:
  explicit Progress(const char* name, std::uint64_t total) : name_(name), total_(total) {}
  void show(std::uint64_t done, std::chrono::nanoseconds worst) {
    if (!wanted_ || (done % 4096 != 0 && done != total_)) return;
    const auto now = Device::Clock::now();
    if (now - shown_ < 2s && done != total_) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    std::fprintf(stderr, "%s: %llu of %llu round trips, %.0f per second, worst %.2f ms\n", name_,
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(total_),
                 static_cast<double>(done) / seconds, std::chrono::duration<double, std::milli>(worst).count());
  }

 private:
  const char* name_;
  const std::uint64_t total_;
  const bool wanted_ = std::getenv("SPYRE_ROUND_TRIPS_PROGRESS") != nullptr;
  const Device::TimePoint start_ = Device::Clock::now();
  Device::TimePoint shown_ = start_;
};

// Busy, so that it is as long as it says.
void think(std::chrono::nanoseconds time) {
  for (const auto until = Device::Clock::now() + time; Device::Clock::now() < until;) cpu_pause();
}

std::uint64_t card_sleeps(Device& device) { return value_or_throw(device.card_statistics()).values.stats.sleeps; }

// The proof that there was something to lose: both sides slept, often.
bool slept_often(const Result& result, bool spinning, std::uint64_t count) {
  return result.card_sleeps >= count / 50 && (spinning || result.host_sleeps >= count / 2);
}

// `count` round trips, and more until both sides slept often: how often is the scheduler's.
void go_round(Card& card, const char* name, bool spinning, std::uint64_t count, Result& result) {
  OpenOptions options;
  options.faults.no_timers = true;
  options.faults.no_spinning = !spinning;
  const auto device = value_or_throw(card.open_physical(options));
  std::mt19937 random(kSeed);
  Progress progress(name, count);
  const std::uint64_t card_slept = card_sleeps(*device);
  const std::uint64_t slept = device->statistics().sleeps;
  const auto block = test::Blocks::nop();
  const auto start = Device::Clock::now();
  const auto count_sleeps = [&] {
    result.host_sleeps = device->statistics().sleeps - slept;
    result.card_sleeps = card_sleeps(*device) - card_slept;
  };
  while (result.done < kMostTimes * count) {
    if (result.done >= count && (result.done - count) % kLookAfter == 0) {
      count_sleeps();
      if (slept_often(result, spinning, count)) break;
    }
    const unsigned longest = random() % 4 == 0 ? kLongThinkNanoseconds : kShortThinkNanoseconds;
    think(std::chrono::nanoseconds{random() % longest});
    test::CompletionCounter counter;
    const ControlBlockRequest request{&block, &counter};
    const auto begun = Device::Clock::now();
    ASSERT_EQ(value_or_throw(device->submit(0, {&request, 1})), 1u);
    const auto status = device->wait_until([&] { return counter.ended() == 1; }, begun + kStall);
    // A sleep that nothing ends lasts until its deadline, and the last look finds what was there all the time.
    if (status != WaitStatus::Done || device->statistics().late_finds != 0) {
      const std::size_t found = device->poll();
      ADD_FAILURE() << name << ": round trip " << result.done << " stalled (status " << static_cast<int>(status)
                    << "); "
                    << (found != 0 || counter.ended() != 0 ? "the completion was there, the host slept on"
                                                           : "the card has not completed it")
                    << "; started_seq " << test::started_sequence(*device, 0)
                    << ", console: " << card.machine().console();
      ASSERT_TRUE(card.shutdown());  // nothing calls the counter any more once it is gone
      (void)device->wait_until([] { return false; }, test::soon());
      return;
    }
    result.worst = std::max<std::chrono::nanoseconds>(result.worst, Device::Clock::now() - begun);
    progress.show(++result.done, result.worst);
  }
  result.total = Device::Clock::now() - start;
  count_sleeps();
  EXPECT_EQ(device->statistics().late_finds, 0u) << "something else than a doorbell ended a sleep";
  EXPECT_EQ(device->statistics().doorbells_dropped_to_card + device->statistics().doorbells_dropped_from_card, 0u);
}

void report(const char* name, const Result& result) {
  const double each =
      std::chrono::duration<double, std::micro>(result.total).count() / static_cast<double>(result.done);
  std::printf(
      "  %s: %llu round trips, %.1f us each with thinking, worst %.2f ms; the host slept %llu times, the card %llu\n",
      name, static_cast<unsigned long long>(result.done), each,
      std::chrono::duration<double, std::milli>(result.worst).count(),
      static_cast<unsigned long long>(result.host_sleeps), static_cast<unsigned long long>(result.card_sleeps));
}

class RoundTrips : public testing::Test {
 protected:
  static void SetUpTestSuite() { card_ = test::boot(test::small_card("timers=0")); }
  static void TearDownTestSuite() { card_.reset(); }

  static void expect_no_stall(const char* name, bool spinning, std::uint64_t count) {
    Result result;
    go_round(*card_, name, spinning, count, result);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    report(name, result);
    EXPECT_TRUE(slept_often(result, spinning, count)) << "in " << kMostTimes << " times as many round trips";
  }

  static inline std::unique_ptr<Card> card_;
};

TEST_F(RoundTrips, AHostThatAlwaysSleepsIsAlwaysWoken) {
  expect_no_stall("sleeping host", false, wanted_round_trips() / 2);
}
TEST_F(RoundTrips, AHostThatSpinsAndThenSleepsIsAlwaysWoken) {
  expect_no_stall("spinning host", true, wanted_round_trips() - wanted_round_trips() / 2);
}

}  // namespace
}  // namespace svp
