// SPDX-License-Identifier: Apache-2.0
// P2 and P3: one thing at a time, both sides awake. Medians over many round trips in each round.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "host_driver/transport/pause.hpp"
#include "shared/timeouts.hpp"
#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/measured_limits.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bounds.hpp"

namespace bench {

namespace {

constexpr unsigned kRoundTrips = 20'000;
constexpr unsigned kPeerRoundTrips = 2'000;
constexpr std::size_t kEnoughSamples = 500;

wire::AdminReply self_test(svp::Device& device, wire::SelfTestKind kind, unsigned rounds, std::uint64_t offset) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::SelfTest;
  request.arguments.self_test = {.kind = kind, .rounds = rounds, .offset = offset};
  const wire::AdminReply reply = svp::value_or_throw(device.admin(request));
  require(reply.outcome == wire::Outcome::Ok, "the self-test was refused: " + std::string(wire::name(reply.status)));
  return reply;
}

// Spins until the card has answered with `word`. Bounded: the card gives up after kSelfTestTicks.
void await_echo(const std::atomic_ref<std::uint64_t>& answer, std::uint64_t word) {
  constexpr unsigned kSpinsPerClock = 1024;
  Clock::time_point deadline{};
  for (unsigned spins = 1; answer.load(std::memory_order_acquire) != word; ++spins) {
    svp::cpu_pause();
    if (spins % kSpinsPerClock != 0) continue;
    if (deadline == Clock::time_point{}) deadline = Clock::now() + bench_bounds::kRounds;
    require(Clock::now() < deadline, "the card does not echo");
  }
}

// The card answers an empty block, and the completion is the block's own: BlockClient checks it.
double nop_round_trip(BlockClient& client, unsigned count) {
  const auto block = svp::test::Blocks::nop();
  return median_time(count, [&] { client.run(block); });
}

}  // namespace

double echo_round_trip(svp::Context& card, unsigned count) {
  constexpr std::size_t kWords = wire::kStickBytes / sizeof(std::uint64_t);
  const auto memory = card.host_memory().allocate(2 * wire::kStickBytes);
  std::memset(memory.data(), 0, memory.size());
  auto* words = reinterpret_cast<std::uint64_t*>(memory.data());
  const std::atomic_ref request(words[0]);
  const std::atomic_ref answer(words[kWords]);
  request = 1;
  // The admin call sleeps in a thread of its own while this one plays.
  std::string failure;
  wire::AdminReply reply{};
  std::thread admin([&] {
    try {
      reply = self_test(card.device(), wire::SelfTestKind::Echo, count, memory.window_offset());
    } catch (const std::exception& error) {
      failure = error.what();
    }
  });
  std::vector<double> samples;
  std::string stuck;
  try {
    await_echo(answer, 1);
    std::this_thread::sleep_for(bench_bounds::kSpinEnds);  // bounded: until the admin caller has stopped spinning
    for (std::uint64_t word = 2; word < count + 2; ++word) {
      const auto start = Clock::now();
      request.store(word, std::memory_order_release);
      await_echo(answer, word);
      samples.push_back(ns_since(start));
    }
  } catch (const std::exception& error) {
    stuck = error.what();
  }
  admin.join();  // bounded: the self-test of the card ends after wire::kSelfTestTicks
  require(failure.empty(), failure);
  // On a busy machine the card's time may be over before the last round; what was measured until then counts.
  require(stuck.empty() || samples.size() >= kEnoughSamples, stuck);
  require(!stuck.empty() || reply.values.self_test.rounds == count, "the card counted another number of echoes");
  return median(std::move(samples));
}

namespace {

double mean_round(svp::Device& physical, wire::SelfTestKind kind, unsigned count) {
  const auto reply = self_test(physical, kind, count, 0);
  require(reply.values.self_test.rounds == count, "the card did not come to the end of its self-test");
  return static_cast<double>(reply.values.self_test.ticks) * 1e9 / wire::kTicksPerSecond / count;
}

}  // namespace

double enter_exit_pair(svp::Device& physical, unsigned count) {
  return mean_round(physical, wire::SelfTestKind::EnterExit, count);
}

double translation_flush(svp::Device& physical, unsigned count) {
  // Of the fastest, as what it is added to: a mean would tell how busy the machine is.
  constexpr unsigned kTries = 20;
  const unsigned each = std::max(1U, count / kTries);
  double pair = std::numeric_limits<double>::max(), switching = pair;
  for (unsigned i = 0; i < kTries; ++i) {
    switching = std::min(switching, mean_round(physical, wire::SelfTestKind::Switch, each));
    pair = std::min(pair, enter_exit_pair(physical, each));
  }
  return switching - pair;
}

double opencl_round_trip(OpenClPeer& peer, unsigned count) {
  return median_time(count, [&] {
    peer.enqueue();
    peer.finish();
  });
}

void measure_round_trips(Session& session) {
  auto& card = session.card();
  OpenClPeer* const opencl = session.opencl();
  const unsigned count = session.amount(kRoundTrips);
  BlockClient client(card.device());
  const Apart apart(card);
  Row against_echo{.id = "P2",
                   .what = "empty control block, both sides awake",
                   .limit = "word echoed by the card",
                   .goal = at_most(6),
                   .checked = "outcome, order"};
  Row against_opencl{.id = "P2",
                     .what = "empty control block, both sides awake",
                     .limit = "PoCL enqueue + finish",
                     .goal = at_most(0.2),
                     .checked = "outcome, order"};
  nop_round_trip(client, count);  // translated, cached, awake
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double echo = echo_round_trip(card, count);
    const double ours = nop_round_trip(client, count);
    against_echo.add(ours, echo);
    against_opencl.ours.push_back(ours);
    if (opencl != nullptr) against_opencl.limits.push_back(opencl_round_trip(*opencl, session.amount(kPeerRoundTrips)));
  }
  session.add(std::move(against_echo));
  session.add(std::move(against_opencl));
}

void measure_empty_kernel(Session& session) {
  auto& card = session.card();
  const unsigned count = session.amount(kRoundTrips);
  BlockClient client(card.device());
  const auto job = load_empty_kernel(card);
  const auto block = compute_block(job, card.runtime().allocator());
  const Apart apart(card);
  const auto round_trip = [&] { return median_time(count, [&] { client.run(block); }); };
  auto& stream = card.default_stream().flex_stream();
  const auto through_stream = [&] {
    return median_time(count, [&] {
      stream.Launch(job, {});
      stream.Synchronize();
    });
  };
  Row raw{.id = "P3",
          .what = "empty kernel, submit to completion",
          .limit = "mret/ecall pair + empty control block",
          .goal = at_most(1.3),
          .checked = "outcome"};
  Row full{.id = "P3",
           .what = "empty kernel, FlexStream Launch to Synchronize",
           .limit = "submit to completion",
           .checked = "outcome"};
  round_trip();
  through_stream();
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double pair = enter_exit_pair(card.device(), count);
    const double empty = nop_round_trip(client, count);
    const double ours = round_trip();
    raw.add(ours, pair + empty);
    full.add(through_stream(), ours);
  }
  session.add(std::move(raw));
  session.add(std::move(full));
}

}  // namespace bench
