// SPDX-License-Identifier: Apache-2.0
// P4: batches. A rate per second, of everything from the first submission to the last completion.
#include <algorithm>

#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/measured_limits.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr unsigned kBatch = 2'000;
constexpr unsigned kBatches = 20;
constexpr unsigned kOfACall = 50;  // kernels

// The fastest of several batches, of ours and of every limit alike. A batch lasts longer than a time slice: a median
// would tell how busy the machine is with others.
double batch_rate(unsigned batches, auto&& batch) {
  double fastest = 0;
  for (unsigned i = 0; i < batches; ++i) {
    const auto start = Clock::now();
    batch();
    fastest = std::max(fastest, kBatch / ns_since(start) * 1e9);
  }
  return fastest;
}

double opencl_rate(OpenClPeer& peer, unsigned batches) {
  return batch_rate(batches, [&] {
    for (unsigned i = 0; i < kBatch; ++i) peer.enqueue();
    peer.finish();
  });
}

}  // namespace

void measure_throughput(Session& session) {
  auto& card = session.card();
  OpenClPeer* const opencl = session.opencl();
  const unsigned batches = session.amount(kBatches);
  BlockClient client(card.device());
  const auto job = load_empty_kernel(card);
  const auto compute = compute_block(job, card.runtime().allocator());
  const auto nop = svp::test::Blocks::nop();
  const auto prepared = call_block(card, compute, 1);
  const auto call = call_block(card, compute, kOfACall);
  const Apart apart(card);
  const auto nop_rate = [&] { return batch_rate(batches, [&] { client.run_many(nop, kBatch); }); };
  const auto compute_rate = [&] { return batch_rate(batches, [&] { client.run_many(compute, kBatch); }); };
  const auto prepared_rate = [&] { return batch_rate(batches, [&] { client.run_many(prepared, kBatch); }); };
  const auto call_rate = [&] { return batch_rate(batches, [&] { client.run_many(call, kBatch / kOfACall); }); };

  Row nops{.id = "P4",
           .what = "empty control blocks, best batch of 2000",
           .unit = Unit::PerSecond,
           .limit = "PoCL, 2000 empty kernels",
           .goal = at_least(3),
           .checked = "outcomes, count"};
  Row kernels{.id = "P4",
              .what = "empty kernels, best batch of 2000",
              .unit = Unit::PerSecond,
              .limit = "mret/ecall pairs",
              .goal = at_least(0.5),
              .checked = "outcomes, count"};
  Row kernels_peer{.id = "P4",
                   .what = "empty kernels, best batch of 2000",
                   .unit = Unit::PerSecond,
                   .limit = "PoCL, 2000 empty kernels",
                   .goal = at_least(1),
                   .checked = "outcomes, count"};
  Row prepared_kernels{.id = "P4",
                       .what = "empty kernels, PREPARED, best batch of 2000",
                       .unit = Unit::PerSecond,
                       .limit = "mret/ecall pairs",
                       .goal = at_least(0.5),
                       .checked = "outcomes, count"};
  Row replayed_kernels{.id = "P4",
                       .what = "empty kernels, CALLs of 50, best batch of 2000",
                       .unit = Unit::PerSecond,
                       .limit = "mret/ecall pairs",
                       .goal = at_least(0.5),
                       .checked = "outcomes, count"};
  nop_rate();
  compute_rate();
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    double pair = enter_exit_pair(card.device(), kBatch);
    for (unsigned i = 1; i < batches; ++i) pair = std::min(pair, enter_exit_pair(card.device(), kBatch));
    const double compute_now = compute_rate();
    kernels.add(compute_now, 1e9 / pair);
    prepared_kernels.add(prepared_rate(), 1e9 / pair);
    replayed_kernels.add(call_rate(), 1e9 / pair);
    nops.ours.push_back(nop_rate());
    kernels_peer.ours.push_back(compute_now);
    if (opencl == nullptr) continue;
    const double peer = opencl_rate(*opencl, batches);
    nops.limits.push_back(peer);
    kernels_peer.limits.push_back(peer);
  }
  session.add(std::move(nops));
  session.add(std::move(kernels));
  session.add(std::move(prepared_kernels));
  session.add(std::move(replayed_kernels));
  session.add(std::move(kernels_peer));
}

}  // namespace bench
