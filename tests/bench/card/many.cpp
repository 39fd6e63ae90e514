// SPDX-License-Identifier: Apache-2.0
// P12: what a job costs when many streams, or many functions, take turns; against the same number of jobs of one. Of
// streams a job is an empty kernel and an empty control block, handed over by one call; of functions it is either. Each
// function has an address space of its own, so a kernel of another one costs a flush of the translations more, which is
// measured beside it. One thread goes round; the same number of jobs is under way whatever their streams.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "tests/bench/card/measured_limits.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/bench/card/tenant_card.hpp"
#include "tests/bench/card/victim.hpp"

namespace bench {

namespace {

constexpr unsigned kJobs = 2'000;
constexpr unsigned kBatches = 20;
constexpr unsigned kUnderWay = 48;  // jobs: less than a stream has credits for
constexpr unsigned kMostStreams = 65;
constexpr unsigned kSwitches = 20'000;

// A stream and its job.
struct StreamOfJobs {
  BlockClient* client;
  std::vector<wire::ControlBlock> job;
};

// What a job is made of.
enum class Kind { KernelAndBlock, Block, Kernel };

void wait_for_job(const StreamOfJobs& stream, std::uint64_t jobs) {
  stream.client->wait_ended(jobs * stream.job.size());
  require(stream.client->not_ok() == 0, "a job ended badly");
}

void batch(std::span<const StreamOfJobs> streams, std::vector<std::uint64_t>& done) {
  // Job j is the (j / n)th of stream j % n, behind what the stream has done in earlier batches.
  const std::size_t n = streams.size();
  for (std::size_t j = 0; j < kJobs; ++j) {
    if (j >= kUnderWay) wait_for_job(streams[(j - kUnderWay) % n], done[(j - kUnderWay) % n] + (j - kUnderWay) / n + 1);
    streams[j % n].client->submit(streams[j % n].job);
  }
  for (std::size_t s = 0; s < n; ++s) {
    done[s] = streams[s].client->submitted() / streams[s].job.size();
    wait_for_job(streams[s], done[s]);
  }
}

// Of the fastest batch, per job: a median would tell how busy the machine is (throughput.cpp).
double cost(std::span<const StreamOfJobs> streams, unsigned batches) {
  std::vector<std::uint64_t> done;
  for (const StreamOfJobs& stream : streams) done.push_back(stream.client->submitted() / stream.job.size());
  double fastest = 0;
  for (unsigned i = 0; i < batches; ++i) {
    const auto start = Clock::now();
    batch(streams, done);
    const double ns = ns_since(start) / kJobs;
    fastest = fastest == 0 ? ns : std::min(fastest, ns);
  }
  return fastest;
}

// The streams of one function.
class TenantStreams {
 public:
  TenantStreams(const std::shared_ptr<svp::Card>& card, unsigned vf)
      : tenant_(open_tenant(card, vf, Waits::Polled)), kernel_(load_empty_kernel(*tenant_)) {}

  void add(unsigned count, Kind kind, std::vector<StreamOfJobs>& streams) {
    for (unsigned i = 0; i < count; ++i) {
      clients_.push_back(std::make_unique<BlockClient>(tenant_->device()));
      streams.push_back({clients_.back().get(), job(kind)});
    }
  }

 private:
  std::vector<wire::ControlBlock> job(Kind kind) const {
    std::vector<wire::ControlBlock> blocks;
    if (kind != Kind::Block) blocks.push_back(compute_block(kernel_, tenant_->runtime().allocator()));
    if (kind != Kind::Kernel) blocks.push_back(svp::test::Blocks::nop());
    return blocks;
  }

  std::unique_ptr<svp::Context> tenant_;
  svp::Job kernel_;  // keeps the image where it is
  std::vector<std::unique_ptr<BlockClient>> clients_;
};

struct Comparison {
  std::string what;   // "8 streams"
  std::string limit;  // "1 stream"
  unsigned count;     // of streams
  double goal;
};

// `added` comes to the cost of one: measured anew in each round.
void measure(
    Session& session, std::span<const StreamOfJobs> streams, std::span<const Comparison> comparisons,
    const std::function<double()>& added = [] { return 0.0; }) {
  const unsigned batches = session.amount(kBatches);
  std::vector<Row> rows;
  for (const Comparison& comparison : comparisons) {
    rows.push_back({.id = "P12",
                    .what = fmt::format("{} in turn, cost per job, best batch of {}", comparison.what, kJobs),
                    .limit = comparison.limit,
                    .goal = at_most(comparison.goal),
                    .checked = "outcomes, count"});
  }
  cost(streams, 1);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double limit = cost(streams.first(1), batches) + added();
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i].add(cost(streams.first(comparisons[i].count), batches), limit);
  }
  for (Row& row : rows) session.add(std::move(row));
}

// One stream of each function.
void measure_functions(Session& session, const std::shared_ptr<svp::Card>& card,
                       std::span<const std::unique_ptr<TenantStreams>> tenants) {
  const auto physical = value_or_throw(card->open_physical());
  std::vector<StreamOfJobs> blocks, kernels;
  for (const auto& tenant : tenants) {
    tenant->add(1, Kind::Block, blocks);
    tenant->add(1, Kind::Kernel, kernels);
  }
  const Apart apart(*card);
  const Comparison of_blocks[] = {{"empty blocks, 4 functions", "1 function", 4, 1.2},
                                  {"empty blocks, 8 functions", "1 function", kTenants, 1.2}};
  measure(session, blocks, of_blocks);
  const Comparison of_kernels[] = {{"empty kernels, 4 functions", "1 function and a flush", 4, 1.0},
                                   {"empty kernels, 8 functions", "1 function and a flush", kTenants, 1.0}};
  measure(session, kernels, of_kernels, [&] { return translation_flush(*physical, session.amount(kSwitches)); });
}

}  // namespace

void measure_many(Session& session) {
  session.end_card();
  const std::shared_ptr<svp::Card> card = value_or_throw(svp::Card::boot(tenant_card_options(session.options().cores)));
  {
    TenantStreams tenant(card, 1);
    std::vector<StreamOfJobs> streams;
    tenant.add(kMostStreams, Kind::KernelAndBlock, streams);
    const Apart apart(*card);
    const Comparison of_streams[] = {{"8 streams", "1 stream", 8, 1.2}, {"65 streams", "1 stream", kMostStreams, 1.2}};
    measure(session, streams, of_streams);
  }
  std::vector<std::unique_ptr<TenantStreams>> tenants;
  for (unsigned vf = 1; vf <= kTenants; ++vf) tenants.push_back(std::make_unique<TenantStreams>(card, vf));
  measure_functions(session, card, tenants);
}

}  // namespace bench
