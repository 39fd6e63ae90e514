// SPDX-License-Identifier: Apache-2.0
// P1: what FlexStream::Launch costs its caller, in CPU time of the calling thread, for a compound job: host operation,
// correction DMA, compute. The clock of a thread costs a system call, so it is read around a row of launches.
#include <ctime>

#include "tests/bench/card/add_job.hpp"
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
  median_of(count, [&] { return launches(session.card(), job); });
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    row.ours.push_back(median_of(count, [&] { return launches(session.card(), job); }));
    if (opencl != nullptr) row.limits.push_back(median_of(count, [&] { return opencl_cost(*opencl); }));
    job.check();
    job.wipe();
  }
  session.add(std::move(row));
}

}  // namespace bench
