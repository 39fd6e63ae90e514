// SPDX-License-Identifier: Apache-2.0
// P12: what a job costs when many streams, or many functions, take turns; against the same number of jobs of one. A job
// is an empty kernel and an empty control block, handed over by one call. One thread goes round; the same number of
// jobs is under way whatever their streams.
#include <fmt/format.h>

#include <algorithm>
#include <array>

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

// A stream and its job.
struct StreamOfJobs {
  BlockClient* client;
  std::array<wire::ControlBlock, 2> job;
};

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

  void add(unsigned count, std::vector<StreamOfJobs>& streams) {
    const auto kernel = compute_block(kernel_, tenant_->runtime().allocator());
    for (unsigned i = 0; i < count; ++i) {
      clients_.push_back(std::make_unique<BlockClient>(tenant_->device()));
      streams.push_back({clients_.back().get(), {kernel, svp::test::Blocks::nop()}});
    }
  }

 private:
  std::unique_ptr<svp::Context> tenant_;
  svp::Job kernel_;  // keeps the image where it is
  std::vector<std::unique_ptr<BlockClient>> clients_;
};

void measure(Session& session, const char* of, std::span<const StreamOfJobs> streams,
             std::span<const unsigned> counts) {
  const unsigned batches = session.amount(kBatches);
  std::vector<Row> rows;
  for (const unsigned count : counts) {
    rows.push_back({.id = "P12",
                    .what = fmt::format("cost per job, {} {} in turn, best batch of {}", count, of, kJobs),
                    .limit = fmt::format("1 {}", std::string_view(of).substr(0, std::string_view(of).size() - 1)),
                    .goal = at_most(1.2),
                    .checked = "outcomes, count"});
  }
  cost(streams, 1);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double one = cost(streams.first(1), batches);
    for (std::size_t i = 0; i < counts.size(); ++i) rows[i].add(cost(streams.first(counts[i]), batches), one);
  }
  for (Row& row : rows) session.add(std::move(row));
}

}  // namespace

void measure_many(Session& session) {
  session.end_card();
  const std::shared_ptr<svp::Card> card = value_or_throw(svp::Card::boot(tenant_card_options(session.options().cores)));
  std::vector<StreamOfJobs> streams;
  TenantStreams first(card, 1);
  first.add(kMostStreams, streams);
  {
    const Apart apart(*card);
    measure(session, "streams", streams, std::array{8u, kMostStreams});
  }
  std::vector<StreamOfJobs> functions{streams.front()};
  std::vector<std::unique_ptr<TenantStreams>> others;
  for (unsigned vf = 2; vf <= kTenants; ++vf) {
    others.push_back(std::make_unique<TenantStreams>(card, vf));
    others.back()->add(1, functions);
  }
  const Apart apart(*card);
  measure(session, "functions", functions, std::array{4u, kTenants});
}

}  // namespace bench
