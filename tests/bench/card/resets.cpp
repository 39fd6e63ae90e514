// SPDX-License-Identifier: Apache-2.0
// P10, first reset level: from the call of a stream's reset to the completion of the first good job after it, against a
// cold start.
#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/cold_start.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bounds.hpp"

namespace bench {

namespace {

constexpr unsigned kResets = 50;
constexpr unsigned kQueued = 8;  // blocks that wait behind the source

double reset_and_run(BlockClient& client, std::uint64_t spoiled) {
  const auto start = Clock::now();
  svp::value_or_throw(client.device().reset_stream(client.stream()));
  const std::uint64_t not_ok = client.not_ok();
  client.forgive();
  client.run(svp::test::Blocks::nop());
  const double ns = ns_since(start);
  require(not_ok == spoiled, "a reset stream reported another number of spoiled blocks");
  return ns;
}

// A refused block poisons the stream; those behind it end ABORTED.
double after_refusal(BlockClient& client) {
  wire::ControlBlock bad = svp::test::Blocks::nop();
  bad.header.flags = 0xFFFF;
  client.submit(bad);
  for (unsigned i = 0; i < kQueued; ++i) client.submit(svp::test::Blocks::nop());
  client.wait_all();
  return reset_and_run(client, 1 + kQueued);
}

// An endless kernel runs; the reset has to stop it.
double with_kernel_running(BlockClient& client, const wire::ControlBlock& endless) {
  const std::uint64_t before = client.ended();
  client.submit(endless);
  for (unsigned i = 0; i < kQueued; ++i) client.submit(svp::test::Blocks::nop());
  // Until the kernel runs: the card has taken the block, and nothing has ended.
  (void)client.device().wait_until([&] { return client.ended() != before; },
                                   Clock::now() + bench_bounds::kKernelBegins);
  require(client.ended() == before, "an endless kernel ended");
  return reset_and_run(client, 1 + kQueued);
}

}  // namespace

void measure_stream_reset(Session& session) {
  session.end_card();
  std::vector<double> cold;
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    svp::CardOptions options;
    options.cores = session.options().cores;
    cold.push_back(cold_start(options).first_nop);
  }
  auto& card = session.card();
  BlockClient client(card.device());
  svp::ExecutionPlan plan;
  plan.add(svp::Job(svp::CompiledKernel(card.kernel("spin"), {})));
  card.load(plan);
  const auto endless = compute_block(plan.jobs().front(), card.runtime().allocator());

  Row refused{.id = "P10",
              .what = "stream reset to the first good job, after a refused block",
              .limit = "cold start",
              .goal = at_most(0.02),
              .checked = "every outcome counted"};
  Row running = refused;
  running.what = "stream reset to the first good job, endless kernel running";
  const unsigned count = session.amount(kResets);
  const Apart apart(card);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    std::vector<double> times(count);
    for (double& ns : times) ns = after_refusal(client);
    refused.add(median(times), cold[round]);
    for (double& ns : times) ns = with_kernel_running(client, endless);
    running.add(median(times), cold[round]);
  }
  session.add(std::move(refused));
  session.add(std::move(running));
}

}  // namespace bench
