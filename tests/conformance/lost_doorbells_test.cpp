// SPDX-License-Identifier: Apache-2.0
// Doorbells are hints: with any part of them lost, in any direction, everything completes, only later.
#include <random>
#include <thread>

#include "tests/bounds.hpp"
#include "tests/conformance/provider.hpp"

namespace svp::conformance {
namespace {

using test::Workbench;
using wire::Outcome;

enum class Way { ToCard, FromCard, Both };
struct Loss {
  const char* name;
  double share;
  Way way;
  unsigned round_trips;  // a lost doorbell costs up to 5 ms (card's timer) or 1 ms (host's re-check)
};
constexpr Loss kLosses[] = {{"all to the card", 1, Way::ToCard, 100},
                            {"all from the card", 1, Way::FromCard, 200},
                            {"all both ways", 1, Way::Both, 100},
                            {"half to the card", 0.5, Way::ToCard, 200},
                            {"half from the card", 0.5, Way::FromCard, 300},
                            {"half both ways", 0.5, Way::Both, 200},
                            {"1 % to the card", 0.01, Way::ToCard, 1500},
                            {"1 % from the card", 0.01, Way::FromCard, 1500},
                            {"1 % both ways", 0.01, Way::Both, 1500}};

FaultHooks hooks_of(const Loss& loss) {
  FaultHooks hooks;
  if (loss.way != Way::FromCard) hooks.drop_doorbells_to_card = loss.share;
  if (loss.way != Way::ToCard) hooks.drop_doorbells_from_card = loss.share;
  hooks.seed = 43;           // at 1 % it fires at the 5th and 43rd doorbell to the card, at the 16th and 43rd from it
  hooks.no_spinning = true;  // a host that sleeps is one that needs the doorbell
  return hooks;
}

// How many doorbells are signalled is up to the machine: a side that is awake needs none.
constexpr unsigned kMostTimesLonger = 50;

// Work of every kind with pauses in which both sides fall asleep: so many round trips, and more until `met`. The worst
// of them.
template <typename Met>
std::chrono::nanoseconds work_with_pauses(Workbench& bench, unsigned round_trips, Met met) {
  std::mt19937 random(3);
  std::chrono::nanoseconds worst{};
  for (unsigned i = 0; i < round_trips || (!met() && i < kMostTimesLonger * round_trips); ++i) {
    const auto start = Device::Clock::now();
    const auto end = i % 10 == 9 ? bench.run(Workbench::dma(bench.host(0), bench.tensor(0), 64 * wire::kKiB))
                                 : bench.run(Workbench::nop());
    EXPECT_EQ(end.outcome, Outcome::Ok);
    EXPECT_EQ(end.sequence, i + 1);
    worst = std::max(worst, Device::Clock::now() - start);
    const auto until = Device::Clock::now() + std::chrono::microseconds{random() % 200};
    while (Device::Clock::now() < until) std::this_thread::yield();
  }
  return worst;
}

// Many in flight, and nobody waits: the event loop and its tick alone bring the ends in.
void flood_without_waiter(Workbench& bench) {
  Device& device = bench.device();
  const std::uint32_t stream = value_or_throw(device.open_stream(StreamPriority::Low));
  test::CompletionCounter counter;
  const auto block = test::Blocks::nop();
  const std::vector<ControlBlockRequest> requests(64, {&block, &counter});
  for (std::uint64_t round = 1; round <= 5; ++round) {
    ASSERT_EQ(value_or_throw(device.submit(stream, requests)), requests.size());
    const auto limit = test::soon();
    while (counter.ended() < round * requests.size() && Device::Clock::now() < limit)
      std::this_thread::sleep_for(test_bounds::kBriefLook);  // bounded: a pause of the loop above
    ASSERT_EQ(counter.ended(), round * requests.size()) << "lost";
  }
  EXPECT_EQ(counter.not_ok(), 0u);
  value_or_throw(device.close_stream(stream));
}

TEST(LostDoorbells, EverythingCompletesLaterAndNothingIsLost) {
  for (const Loss& loss : kLosses) {
    SCOPED_TRACE(loss.name);
    OpenOptions options;
    options.faults = hooks_of(loss);
    const auto device = provider().open(options);
    Workbench bench(*device);
    const auto start = Device::Clock::now();
    const auto worst = work_with_pauses(bench, loss.round_trips, [&] {
      const auto so_far = device->statistics();
      return (loss.way == Way::FromCard || so_far.doorbells_dropped_to_card != 0) &&
             (loss.way == Way::ToCard || so_far.doorbells_dropped_from_card != 0);
    });
    const std::chrono::duration<double, std::micro> mean = (Device::Clock::now() - start) / loss.round_trips;
    flood_without_waiter(bench);
    const auto stats = device->statistics();
    std::printf(
        "  %-20s %4llu doorbells dropped to the card, %4llu from it; round trip %6.0f us mean, %6.0f us worst\n",
        loss.name, static_cast<unsigned long long>(stats.doorbells_dropped_to_card),
        static_cast<unsigned long long>(stats.doorbells_dropped_from_card), mean.count(),
        std::chrono::duration<double, std::micro>(worst).count());
    // The fault fired, and only the fault that was ordered.
    EXPECT_EQ(stats.doorbells_dropped_to_card != 0, loss.way != Way::FromCard);
    EXPECT_EQ(stats.doorbells_dropped_from_card != 0, loss.way != Way::ToCard);
    if (loss.share == 1 && loss.way != Way::FromCard) EXPECT_EQ(stats.doorbells_signalled, 0u);
    EXPECT_EQ(stats.submitted, stats.completed);
    expect_healthy(*device);
  }
}

TEST(LostDoorbells, WithoutTheFaultNothingIsDropped) {
  const auto device = provider().open();
  Workbench bench(*device);
  work_with_pauses(bench, 200, [] { return true; });
  EXPECT_EQ(device->statistics().doorbells_dropped_to_card, 0u);
  EXPECT_EQ(device->statistics().doorbells_dropped_from_card, 0u);
}

// The test's own test: without the timers that replace a lost doorbell a sleep does not end by itself, so what
// completes above is their merit.
TEST(LostDoorbells, WithoutTimersALostDoorbellStalls) {
  OpenOptions options;
  options.faults.drop_doorbells_from_card = 0.2;
  options.faults.no_spinning = true;
  options.faults.no_timers = true;
  const auto device = provider().open(options);
  // A sleep that no doorbell ended lasts until the deadline; the last look finds what was there all the time.
  const auto stalls = [&] { return device->statistics().late_finds; };
  // A doorbell that is dropped while the host does not sleep stalls nobody: on a busy machine it takes some until one
  // does.
  const auto limit = test::soon();
  for (int i = 0; i < 100 || (stalls() == 0 && Device::Clock::now() < limit); ++i) {
    test::CompletionRecorder recorder;
    const auto block = test::Blocks::nop();
    const ControlBlockRequest request{&block, &recorder};
    ASSERT_EQ(value_or_throw(device->submit(0, {&request, 1})), 1u);
    auto status = WaitStatus::TimedOut;
    for (const auto end = test::soon(); status == WaitStatus::TimedOut && Device::Clock::now() < end;) {
      status = device->wait_until([&] { return recorder.ended() == 1; }, Device::Clock::now() + test_bounds::kExpires);
    }
    ASSERT_EQ(status, WaitStatus::Done);
  }
  EXPECT_GT(stalls(), 0u);
  EXPECT_LE(stalls(), device->statistics().doorbells_dropped_from_card);
}

}  // namespace
}  // namespace svp::conformance
