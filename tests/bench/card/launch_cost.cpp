// SPDX-License-Identifier: Apache-2.0
// P1: what FlexStream::Launch costs its caller, in CPU time of the calling thread, for a compound job: host operation,
// correction DMA, compute; the same of a prepared launch; and what a job of a replay takes. The clock of a thread costs
// a system call, so it is read around a row of launches.
#include <ctime>

#include "host_driver/runtime/prepared_launches.hpp"
#include "tests/bench/card/add_job.hpp"
#include "tests/bench/card/block_client.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr std::int64_t kRows = 16;  // the kernel is over at once
// Two control blocks each: as many as a stream has credits for, so that every launch does its own submission.
constexpr unsigned kLaunches = wire::kStreamCredits / 2;
constexpr unsigned kRepetitions = 200;

double thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// CPU time of one launch, mean over a row of them.
double launches(svp::Context& card, const AddJob& add) {
  auto& stream = card.default_stream().flex_stream();
  const double start = thread_cpu_ns();
  for (unsigned i = 0; i < kLaunches; ++i) stream.Launch(add.job(), add.arguments());
  const double spent = thread_cpu_ns() - start;
  stream.Synchronize();
  return spent / kLaunches;
}

// The same for one that was prepared.
double prepared_launches(svp::Context& card, const svp::PreparedLaunches& prepared) {
  auto& stream = card.default_stream().flex_stream();
  const double start = thread_cpu_ns();
  for (unsigned i = 0; i < kLaunches; ++i) stream.Launch(prepared);
  const double spent = thread_cpu_ns() - start;
  stream.Synchronize();
  return spent / kLaunches;
}

std::shared_ptr<svp::PreparedLaunches> prepare(svp::Context& card, const AddJob& add, unsigned jobs) {
  const svp::LaunchRequest request{.job = &add.job(), .arguments = add.arguments()};
  const std::vector<svp::LaunchRequest> requests(jobs, request);
  return card.default_stream().flex_stream().Prepare(requests);
}

// Until they have ended, per job: launches that the host makes one by one, and a replay of as many.
double launched_job(svp::Context& card, const AddJob& add) {
  auto& stream = card.default_stream().flex_stream();
  const auto start = Clock::now();
  for (unsigned i = 0; i < kLaunches; ++i) stream.Launch(add.job(), add.arguments());
  stream.Synchronize();
  return ns_since(start) / kLaunches;
}
double replayed_job(svp::Context& card, const svp::PreparedLaunches& replay) {
  auto& stream = card.default_stream().flex_stream();
  const auto start = Clock::now();
  stream.Launch(replay);
  stream.Synchronize();
  return ns_since(start) / static_cast<double>(replay.size());
}

double median_of(unsigned count, auto&& sample) {
  std::vector<double> samples(count);
  for (double& value : samples) value = sample();
  return median(std::move(samples));
}

double opencl_cost(OpenClPeer& peer) {
  const double start = thread_cpu_ns();
  for (unsigned i = 0; i < kLaunches; ++i) peer.enqueue();
  const double spent = thread_cpu_ns() - start;
  peer.finish();
  return spent / kLaunches;
}

}  // namespace

void measure_launch_cost(Session& session) {
  AddJob job(session.card(), kRows);
  OpenClPeer* const opencl = session.opencl();
  const unsigned count = session.amount(kRepetitions);
  const Apart apart(session.card());
  Row row{.id = "P1",
          .what = "FlexStream::Launch, caller's CPU time (host op + DMA + compute)",
          .limit = "PoCL clEnqueueNDRangeKernel, empty",
          .goal = at_most(0.5),
          .checked = "result bit-equal to the golden model"};
  Row prepared_row{.id = "P1",
                   .what = "prepared launch of it, caller's CPU time",
                   .limit = "PoCL clEnqueueNDRangeKernel, empty",
                   .goal = at_most(0.25),
                   .checked = "result bit-equal to the golden model"};
  Row caller_row{.id = "P1",
                 .what = "job of a replay of 64, caller's CPU time",
                 .limit = "FlexStream::Launch, caller's CPU time",
                 .goal = at_most(0.2),
                 .checked = "result bit-equal to the golden model"};
  Row replay_row{.id = "P1",
                 .what = "job of a replay of 64, until it has ended",
                 .limit = "the same job launched 64 times",
                 .checked = "result bit-equal to the golden model"};
  const auto prepared = prepare(session.card(), job, 1);
  const auto replay = prepare(session.card(), job, kLaunches);
  median_of(count, [&] { return launches(session.card(), job); });
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    row.ours.push_back(median_of(count, [&] { return launches(session.card(), job); }));
    if (opencl != nullptr) row.limits.push_back(median_of(count, [&] { return opencl_cost(*opencl); }));
    job.check();
    job.wipe();
    prepared_row.ours.push_back(median_of(count, [&] { return prepared_launches(session.card(), *prepared); }));
    if (opencl != nullptr) prepared_row.limits.push_back(row.limits.back());
    job.check();
    job.wipe();
    caller_row.add(median_of(count,
                             [&] {
                               const double start = thread_cpu_ns();
                               session.card().default_stream().flex_stream().Launch(*replay);
                               const double spent = thread_cpu_ns() - start;
                               session.card().default_stream().Synchronize();
                               return spent / kLaunches;
                             }),
                   row.ours.back());
    replay_row.add(median_of(count, [&] { return replayed_job(session.card(), *replay); }),
                   median_of(count, [&] { return launched_job(session.card(), job); }));
    job.check();
    job.wipe();
  }
  session.add(std::move(row));
  session.add(std::move(prepared_row));
  session.add(std::move(caller_row));
  session.add(std::move(replay_row));
}

}  // namespace bench
