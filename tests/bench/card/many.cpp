// SPDX-License-Identifier: Apache-2.0
// P12: what a job costs when many streams, or many functions, take turns; against the same number of jobs of one. A job is
// an empty kernel and an empty control block, handed over by one call. One thread goes round; the same number of jobs is
// under way whatever their streams.
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
struct Lane {
  BlockClient* client;
  std::array<wire::ControlBlock, 2> job;
};

void wait_for_job(const Lane& lane, std::uint64_t jobs) {
  lane.client->wait_ended(jobs * lane.job.size());
  require(lane.client->not_ok() == 0, "a job ended badly");
}

void batch(std::span<const Lane> lanes, std::vector<std::uint64_t>& done) {
  // Job j is the (j / n)th of lane j % n, behind what the lane has done in earlier batches.
  const std::size_t n = lanes.size();
  for (std::size_t j = 0; j < kJobs; ++j) {
    if (j >= kUnderWay) wait_for_job(lanes[(j - kUnderWay) % n], done[(j - kUnderWay) % n] + (j - kUnderWay) / n + 1);
    lanes[j % n].client->submit(lanes[j % n].job);
  }
  for (std::size_t l = 0; l < n; ++l) {
    done[l] = lanes[l].client->submitted() / lanes[l].job.size();
    wait_for_job(lanes[l], done[l]);
  }
}

// Of the fastest batch, per job: a median would tell how busy the machine is (throughput.cpp).
double cost(std::span<const Lane> lanes, unsigned batches) {
  std::vector<std::uint64_t> done;
  for (const Lane& lane : lanes) done.push_back(lane.client->submitted() / lane.job.size());
  double fastest = 0;
  for (unsigned i = 0; i < batches; ++i) {
    const auto start = Clock::now();
    batch(lanes, done);
    const double ns = ns_since(start) / kJobs;
    fastest = fastest == 0 ? ns : std::min(fastest, ns);
  }
  return fastest;
}

// The streams of one function.
class TenantLanes {
 public:
  TenantLanes(const std::shared_ptr<svp::Card>& card, unsigned vf)
      : tenant_(open_tenant(card, vf, Waits::Polled)), kernel_(load_empty_kernel(*tenant_)) {}

  void add(unsigned count, std::vector<Lane>& lanes) {
    const auto kernel = compute_block(kernel_, tenant_->runtime().allocator());
    for (unsigned i = 0; i < count; ++i) {
      clients_.push_back(std::make_unique<BlockClient>(tenant_->device()));
      lanes.push_back({clients_.back().get(), {kernel, nop_block()}});
    }
  }

 private:
  std::unique_ptr<svp::Context> tenant_;
  svp::Job kernel_;  // keeps the image where it is
  std::vector<std::unique_ptr<BlockClient>> clients_;
};

void measure(Session& session, const char* of, std::span<const Lane> lanes, std::span<const unsigned> counts) {
  const unsigned batches = session.amount(kBatches);
  std::vector<Row> rows;
  for (const unsigned count : counts) {
    rows.push_back({.id = "P12",
                    .what = fmt::format("cost per job, {} {} in turn, best batch of {}", count, of, kJobs),
                    .limit = fmt::format("1 {}", std::string_view(of).substr(0, std::string_view(of).size() - 1)),
                    .goal = at_most(1.2),
                    .checked = "outcomes, count"});
  }
  cost(lanes, 1);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double one = cost(lanes.first(1), batches);
    for (std::size_t i = 0; i < counts.size(); ++i) rows[i].add(cost(lanes.first(counts[i]), batches), one);
  }
  for (Row& row : rows) session.add(std::move(row));
}

}  // namespace

void measure_many(Session& session) {
  session.end_card();
  const std::shared_ptr<svp::Card> card = value_or_throw(svp::Card::boot(tenant_card_options(session.options().cores)));
  std::vector<Lane> streams;
  TenantLanes first(card, 1);
  first.add(kMostStreams, streams);
  {
    const Apart apart(*card);
    measure(session, "streams", streams, std::array{8u, kMostStreams});
  }
  std::vector<Lane> functions{streams.front()};
  std::vector<std::unique_ptr<TenantLanes>> others;
  for (unsigned vf = 2; vf <= kTenants; ++vf) {
    others.push_back(std::make_unique<TenantLanes>(card, vf));
    others.back()->add(1, functions);
  }
  const Apart apart(*card);
  measure(session, "functions", functions, std::array{4u, kTenants});
}

}  // namespace bench
