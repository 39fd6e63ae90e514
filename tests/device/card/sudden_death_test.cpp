// SPDX-License-Identifier: Apache-2.0
// The card dies, or is reset, at a random moment under load (scenario F38): every waiter returns within a bound, every
// accepted block ends exactly once, LOST or INDETERMINATE by what its stream had started, and every later call fails at
// once with an error that names the cause.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include "host_driver/base/timeouts.hpp"
#include "tests/bounds.hpp"
#include "tests/device/card/card_support.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;
using test::Workbench;
using wire::Outcome;

constexpr std::uint64_t kSeed = 20260121;

enum class Load { NopFlood, Dma, OneCoreKernel, TwoCoreKernel, Admin };
constexpr Load kLoads[] = {Load::NopFlood, Load::Dma, Load::OneCoreKernel, Load::TwoCoreKernel, Load::Admin};
constexpr const char* kLoadNames[] = {"NOP flood", "DMA", "kernel on one core", "kernel on two cores", "admin"};

// Keeps one stream of a device full until the device refuses.
class Flood {
 public:
  Flood(Workbench& bench, std::uint32_t stream, std::vector<wire::ControlBlock> cycle)
      : device_(bench.device()), stream_(stream), cycle_(std::move(cycle)), thread_([this] { run(); }) {}
  void join() { thread_.join(); }  // bounded: the card has ended, and with it every wait of the thread

  std::uint64_t accepted() const { return accepted_; }
  std::uint32_t stream() const { return stream_; }
  // After the end: in order of completion.
  std::vector<wire::Completion> ended() const { return recorder_.all(); }
  std::size_t count() const { return recorder_.ended(); }
  const std::optional<ErrorInfo>& refusal() const { return refusal_; }

 private:
  void run() {
    std::vector<wire::ControlBlock> blocks(8);
    std::vector<ControlBlockRequest> requests;
    requests.reserve(blocks.size());
    for (auto& block : blocks) requests.push_back({&block, &recorder_});
    for (;;) {
      for (auto& block : blocks) {
        block = cycle_[next_++ % cycle_.size()];
        block.header.cookie = next_;
      }
      for (std::size_t sent = 0; sent < requests.size();) {
        const auto taken = device_.submit(stream_, std::span(requests).subspan(sent));
        if (!taken) {
          refusal_ = taken.error();
          return;
        }
        sent += *taken;
        accepted_ += *taken;
        if (*taken == 0) (void)device_.wait_until([&] { return device_.outstanding(stream_) < 64; }, test::soon());
      }
    }
  }

  Device& device_;
  const std::uint32_t stream_;
  const std::vector<wire::ControlBlock> cycle_;
  std::uint64_t next_ = 0;
  std::uint64_t accepted_ = 0;
  test::CompletionRecorder recorder_;
  std::optional<ErrorInfo> refusal_;
  std::thread thread_;
};

// Asks the card for something, again and again.
class AdminFlood {
 public:
  explicit AdminFlood(Device& device)
      : thread_([this, &device] {
          for (;;) {  // bounded: ends with the card, at the latest with Timeouts::admin
            const auto stream = device.open_stream(StreamPriority::Low);
            if (!stream) return void(refusal_ = stream.error());
            if (const auto closed = device.close_stream(*stream); !closed) return void(refusal_ = closed.error());
            if (const auto stats = device.card_statistics(); !stats) return void(refusal_ = stats.error());
            ++rounds_;
          }
        }) {}
  void join() { thread_.join(); }  // bounded: the card has ended, and with it every wait of the thread
  const std::optional<ErrorInfo>& refusal() const { return refusal_; }

 private:
  std::optional<ErrorInfo> refusal_;
  std::uint64_t rounds_ = 0;
  std::thread thread_;
};

struct LoadedCard {
  explicit LoadedCard(Card& card) : device(value_or_throw(card.open_physical())), bench(*device) {
    const auto empty = test::kernel_image(card, "empty");
    const auto spin = test::kernel_image(card, "spin");
    bench.load(0, empty);
    bench.load(kSpinAt, spin);
    empty_bytes = empty.size();
    spin_bytes = spin.size();
  }

  std::vector<wire::ControlBlock> cycle(Load load) const {
    switch (load) {
      case Load::NopFlood: return {Workbench::nop()};
      case Load::Dma:
        return {Workbench::dma(bench.host(0), bench.tensor(0), 1 * wire::kMiB),
                Workbench::dma(bench.tensor(0), bench.host(2 * wire::kMiB), 4096),
                Workbench::fill(bench.tensor(4096), 64 * wire::kKiB, 1)};
      // Short ones, then a long one that the card dies in the middle of, unless it does so earlier.
      case Load::OneCoreKernel: return kernels(1, 1000);
      case Load::TwoCoreKernel: return kernels(3, 200);
      case Load::Admin: break;
    }
    return {Workbench::nop()};
  }

  std::vector<wire::ControlBlock> kernels(std::uint64_t core_mask, std::size_t before) const {
    std::vector<wire::ControlBlock> cycle(before, bench.compute(0, empty_bytes, core_mask));
    cycle.push_back(bench.compute(kSpinAt, spin_bytes, core_mask, 1'000'000));
    return cycle;
  }

  static constexpr std::uint64_t kSpinAt = 64 * wire::kKiB;
  std::unique_ptr<Device> device;
  Workbench bench;
  std::uint64_t empty_bytes = 0;
  std::uint64_t spin_bytes = 0;
};

// A round: load, an end of the card at a random moment, and everybody home.
struct Round {
  Load load;
  std::chrono::microseconds after;
  std::function<void(Card&)> end_it;
};

struct Homecoming {
  std::chrono::nanoseconds last_return{};
  std::uint64_t ok = 0, lost = 0, indeterminate = 0;
  std::string message;
};

void expect_each_block_ended_once(const Flood& flood, Homecoming& home) {
  const auto ended = flood.ended();
  ASSERT_EQ(ended.size(), flood.accepted()) << "stream " << flood.stream();
  const auto count = [&](Outcome outcome) {
    return static_cast<std::uint64_t>(std::ranges::count(ended, outcome, &wire::Completion::outcome));
  };
  for (std::size_t i = 0; i < ended.size(); ++i) {
    ASSERT_EQ(ended[i].cookie, i + 1) << "out of order, twice or never";
    ASSERT_EQ(ended[i].sequence, i + 1);
  }
  const std::uint64_t ok = count(Outcome::Ok), lost = count(Outcome::Lost), unknown = count(Outcome::Indeterminate);
  EXPECT_EQ(ok + lost + unknown, ended.size()) << "another outcome";
  home.ok += ok, home.lost += lost, home.indeterminate += unknown;
}

// What a dead card had started is not known to have ended; what it had not started is lost.
void expect_told_apart_by_what_had_started(const Device& device, const Flood& flood) {
  const std::uint64_t started = test::started_sequence(device, flood.stream());
  for (const auto& end : flood.ended()) {
    if (end.outcome == Outcome::Ok) ASSERT_LE(end.sequence, started);
    if (end.outcome == Outcome::Lost) ASSERT_GT(end.sequence, started) << "it had started";
    if (end.outcome == Outcome::Indeterminate) ASSERT_LE(end.sequence, started) << "it had not started";
  }
}

void expect_everything_fails_at_once(Device& device, const std::string& message) {
  test::CompletionRecorder recorder;
  const auto block = test::Blocks::nop();
  const ControlBlockRequest request{&block, &recorder};
  const auto expect_refusal = [&](const auto& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().message, message);
    EXPECT_FALSE(result.error().next_step.empty());
    // Of an emulator that ended Context::recover() boots another one.
    const bool dead = device.health() == Health::Dead;
    EXPECT_EQ(result.error().recoverable, dead);
    if (dead) EXPECT_TRUE(result.error().next_step.contains("Context::recover()")) << result.error().next_step;
  };
  expect_refusal(device.submit(0, {&request, 1}));
  expect_refusal(device.open_stream(StreamPriority::Low));
  expect_refusal(device.reset_stream(0));
  expect_refusal(device.acquire_region(RegionType::Tensor, 2 * wire::kMiB));
  expect_refusal(device.card_statistics());
  EXPECT_EQ(device.wait_until([] { return false; }, test::soon()), WaitStatus::Failed);
  EXPECT_EQ(recorder.ended(), 0u) << "a block that was not accepted ended";
}

Homecoming play(Card& card, LoadedCard& loaded, const Round& round) {
  Device& device = *loaded.device;
  Homecoming home;
  const std::uint32_t second = value_or_throw(device.open_stream(StreamPriority::Low));
  const std::uint32_t main = value_or_throw(device.open_stream(StreamPriority::Low));
  std::optional<AdminFlood> admin;
  if (round.load == Load::Admin) admin.emplace(device);
  Flood first(loaded.bench, main, loaded.cycle(round.load));
  Flood other(loaded.bench, second, loaded.cycle(Load::NopFlood));
  std::atomic<unsigned> failed{0};
  constexpr std::size_t kWaiters = 2;
  std::vector<std::thread> waiters;
  waiters.reserve(kWaiters);
  for (std::size_t i = 0; i < kWaiters; ++i) {
    waiters.emplace_back(
        [&] { failed += device.wait_until([] { return false; }, test::soon()) == WaitStatus::Failed ? 1 : 0; });
  }
  std::this_thread::sleep_for(round.after);  // bounded: the moment of the death is what the test varies
  const auto start = Device::Clock::now();
  round.end_it(card);
  for (auto& waiter : waiters) waiter.join();  // bounded: each waits until soon() at most
  first.join();                                // bounded: as void join() says
  other.join();                                // bounded: as void join() says
  if (admin) admin->join();                    // bounded: as void join() says
  // The last block may still be on its way to its sink, on the event loop's thread.
  EXPECT_NE(device.wait_until([&] { return first.count() == first.accepted() && other.count() == other.accepted(); },
                              test::soon()),
            WaitStatus::TimedOut);
  home.last_return = Device::Clock::now() - start;
  EXPECT_EQ(failed.load(), 2u) << "a waiter returned without having been told";
  const auto failure = device.failure();
  if (!failure) {
    ADD_FAILURE() << "the device does not know that it failed";
    return home;
  }
  home.message = failure->message;
  for (const Flood* flood : {&first, &other}) {
    expect_each_block_ended_once(*flood, home);
    EXPECT_TRUE(flood->refusal() && flood->refusal()->message == home.message);
  }
  if (admin) EXPECT_TRUE(admin->refusal());
  if (device.health() == Health::Dead) {
    expect_told_apart_by_what_had_started(device, first);
    expect_told_apart_by_what_had_started(device, other);
  } else {
    EXPECT_EQ(home.lost, 0u) << "a card that was restarted proves nothing";
  }
  expect_everything_fails_at_once(device, home.message);
  return home;
}

struct Tally {
  std::chrono::nanoseconds worst{};
  std::uint64_t ok = 0, lost = 0, indeterminate = 0;
  void add(const Homecoming& home) {
    worst = std::max(worst, home.last_return);
    ok += home.ok, lost += home.lost, indeterminate += home.indeterminate;
  }
  void print(const char* what) const {
    std::printf("  %s: last waiter home after at most %.1f ms; %llu OK, %llu LOST, %llu INDETERMINATE\n", what,
                std::chrono::duration<double, std::milli>(worst).count(), static_cast<unsigned long long>(ok),
                static_cast<unsigned long long>(lost), static_cast<unsigned long long>(indeterminate));
  }
};

TEST(SuddenDeath, AKilledEmulatorSendsEveryWaiterHomeAndEndsEveryBlockOnce) {
  std::mt19937_64 random(kSeed);
  Tally tally;
  for (int number = 0; number < 30; ++number) {
    const Load load = kLoads[number % std::size(kLoads)];
    const bool by_pid = number % 2 == 0;
    Round round{load, std::chrono::microseconds{random() % 12000}, [&](Card& card) {
                  if (by_pid) {
                    ASSERT_EQ(::kill(card.machine().pid(), SIGKILL), 0);
                  } else {
                    ASSERT_TRUE(card.machine().kill());
                  }
                }};
    SCOPED_TRACE(std::string("round ") + std::to_string(number) + ", " + kLoadNames[static_cast<int>(load)] +
                 ", after " + std::to_string(round.after.count()) + " us, seed " + std::to_string(kSeed));
    const test::NothingIsLeft nothing;
    const auto card = test::boot();
    LoadedCard loaded(*card);
    const Homecoming home = play(*card, loaded, round);
    EXPECT_NE(home.message.find("signal 9"), std::string::npos) << home.message;
    EXPECT_EQ(loaded.device->health(), Health::Dead);
    EXPECT_FALSE(card->open_virtual(1)) << "a dead card was attached";
    tally.add(home);
    if (HasFailure()) break;
  }
  tally.print("30 kills");
  EXPECT_GT(tally.ok, 0u);
  EXPECT_GT(tally.lost, 0u);
  EXPECT_GT(tally.indeterminate, 0u);
}

TEST(SuddenDeath, AnEmulatorThatQuitsOrAGuestThatPowersOffIsToldByItsExitCode) {
  const auto card = test::boot();
  LoadedCard loaded(*card);
  const Homecoming home = play(*card, loaded, {Load::NopFlood, 2ms, [](Card& c) { EXPECT_TRUE(c.machine().quit()); }});
  EXPECT_NE(home.message.find("exit code 0"), std::string::npos) << home.message;
}

TEST(SuddenDeath, AStoppedEmulatorThatIsKilledSendsEveryWaiterHome) {
  const auto card = test::boot();
  LoadedCard loaded(*card);
  const Homecoming home =
      play(*card, loaded, {Load::Dma, 2ms, [](Card& c) {
                             EXPECT_TRUE(c.machine().stop());
                             std::this_thread::sleep_for(test_bounds::kExpires);  // bounded: so long it stands still
                             EXPECT_TRUE(c.machine().kill());
                           }});
}

// The whole machine begins anew while the windows stay: what was in flight is nobody's any more.
TEST(SuddenDeath, ASystemResetEndsEveryBlockOnceAndTheCardCanBeAttachedAgain) {
  std::mt19937_64 random(kSeed + 1);
  const auto card = test::boot();
  Tally tally;
  std::uint64_t epoch = 0;
  for (int number = 0; number < 10; ++number) {
    const Load load = kLoads[number % std::size(kLoads)];
    SCOPED_TRACE(std::string("round ") + std::to_string(number) + ", " + kLoadNames[static_cast<int>(load)]);
    LoadedCard loaded(*card);
    EXPECT_GT(loaded.device->config().boot_epoch, epoch) << "the boot epoch did not move on";
    epoch = loaded.device->config().boot_epoch;
    const Homecoming home = play(*card, loaded, {load, std::chrono::microseconds{random() % 12000}, [](Card& c) {
                                                   EXPECT_TRUE(c.machine().system_reset());
                                                 }});
    EXPECT_EQ(loaded.device->health(), Health::NeedsReset) << home.message;
    tally.add(home);
    if (HasFailure()) break;
  }
  tally.print("10 resets");
  const auto device = value_or_throw(card->open_physical());
  EXPECT_EQ(Workbench(*device).run(test::Blocks::nop()).outcome, Outcome::Ok);
  test::expect_healthy(*card, *device);
}

}  // namespace
}  // namespace svp
