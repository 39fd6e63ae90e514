// SPDX-License-Identifier: Apache-2.0
// P1: what FlexStream::Launch costs its caller, in CPU time of the calling thread, for a compound job: host operation,
// correction DMA, compute. The clock of a thread costs a system call, so it is read around a row of launches.
#include <array>
#include <ctime>
#include <random>

#include "host_driver/tensor/golden/golden.hpp"
#include "host_driver/tensor/stickify.hpp"
#include "shared/dl16.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr std::int64_t kRows = 16;
constexpr std::int64_t kColumns = 64;  // one stick a row: the kernel is over at once
// Two control blocks each: as many as a stream has credits for, so that every launch does its own submission.
constexpr unsigned kLaunches = wire::kStreamCredits / 2;
constexpr unsigned kRepetitions = 200;

double thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// c = a + b on the card, launched many times: the result of the last one is compared with the golden model.
class AddJob {
 public:
  explicit AddJob(spyre::Context& card) : card_(card) {
    a_ = random_dl16(1);
    b_ = random_dl16(2);
    tensors_ = {upload(a_), upload(b_), card.empty(flex::DataType::Float16, {kRows, kColumns})};
    const auto kernel = card.kernel("add");
    flex::DimensionExtents extents;
    const auto& names = kernel->metadata().dimensions;
    for (std::size_t d = 0; d < names.size(); ++d) extents[names[d]] = d == 0 ? kRows : kColumns;
    plan_.add(flex::Job(flex::CompiledKernel(kernel, extents)));
    card.load(plan_);
    for (std::size_t i = 0; i < tensors_.size(); ++i) arguments_[i] = tensors_[i].argument();
  }

  // CPU time of one launch, mean over a row of them.
  double launches() {
    auto& stream = card_.default_stream().flex_stream();
    const flex::Job& job = plan_.jobs().front();
    const double start = thread_cpu_ns();
    for (unsigned i = 0; i < kLaunches; ++i) stream.Launch(job, arguments_);
    const double spent = thread_cpu_ns() - start;
    stream.Synchronize();
    return spent / kLaunches;
  }

  void check() {
    std::vector<std::uint16_t> result(kRows * kColumns);
    std::vector<std::uint16_t> golden(result.size());
    std::vector<std::uint16_t> expected(result.size());
    card_.to_host(tensors_[2], {shape(), std::as_writable_bytes(std::span(result))});
    flex::golden::add_dl16(a_, b_, golden);
    flex::convert_to_host(flex::DeviceType::Dl16, flex::DataType::Float16, golden.data(), expected.data(),
                          golden.size());
    require(result == expected, "the launched kernel's result is not the golden model's");
  }

 private:
  static flex::HostShape shape() { return flex::HostShape::contiguous(flex::DataType::Float16, {kRows, kColumns}); }

  static std::vector<std::uint16_t> random_dl16(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-8, 8);
    std::vector<std::uint16_t> values(kRows * kColumns);
    for (auto& value : values) value = wire::dl16_from_fp32(uniform(random));
    return values;
  }
  spyre::SpyreTensor upload(const std::vector<std::uint16_t>& values) {
    std::vector<std::uint16_t> half(values.size());
    flex::convert_to_host(flex::DeviceType::Dl16, flex::DataType::Float16, values.data(), half.data(), half.size());
    return card_.to_device({shape(), std::as_bytes(std::span(half))});
  }

  spyre::Context& card_;
  std::vector<std::uint16_t> a_;
  std::vector<std::uint16_t> b_;
  std::array<spyre::SpyreTensor, 3> tensors_;
  flex::ExecutionPlan plan_;
  std::array<flex::Argument, 3> arguments_;
};

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
  AddJob job(session.card());
  OpenClPeer* const opencl = session.opencl();
  const unsigned count = session.amount(kRepetitions);
  const Apart apart(session.card());
  Row row{.id = "P1",
          .what = "FlexStream::Launch, caller's CPU time (host op + DMA + compute)",
          .limit = "PoCL clEnqueueNDRangeKernel, empty",
          .goal = at_most(0.5),
          .checked = "result bit-equal to the golden model"};
  median_of(count, [&] { return job.launches(); });
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    row.ours.push_back(median_of(count, [&] { return job.launches(); }));
    if (opencl != nullptr) row.limits.push_back(median_of(count, [&] { return opencl_cost(*opencl); }));
    job.check();
  }
  session.add(std::move(row));
}

}  // namespace bench
