// SPDX-License-Identifier: Apache-2.0
// A runtime on a native card that plays sums of rows, one row a tile, with jobs whose HostOperation is the test's own.
#pragma once

#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/support/gate.hpp"
#include "tests/unit/host_driver/runtime/played_sum.hpp"

namespace svp::test {

inline FlexStream::Clock::time_point soon() { return FlexStream::Clock::now() + test_bounds::kWork; }

// What an observer of one launch was told; read after Synchronize, the counters at any time.
class LaunchRecords final : public LaunchObserver {
 public:
  void on_block(const BlockRecord& record) noexcept override { blocks.push_back(record); }
  void on_launch_ended(std::uint64_t, wire::Outcome how) noexcept override {
    outcome = how;
    ++ended;
  }
  std::vector<BlockRecord> blocks;
  wire::Outcome outcome = wire::Outcome::Ok;
  std::atomic<unsigned> ended{0};
};

// Opens the function of the card again.
class SumSource final : public DeviceSource {
 public:
  explicit SumSource(NativeCard& card) : card_(card) {}
  Expected<std::unique_ptr<Device>> open() override { return Device::attach(card_.slot(1), card_.device_options()); }
  Expected<void> raise(ResetLevel, bool) override { return {}; }
  ResetLevel highest() const override { return ResetLevel::Function; }

 private:
  NativeCard& card_;
};

struct SumRig {
  PlayedSum sum;
  NativeCard card{{.window_bytes = 32 * wire::kMiB, .region_bytes = 512 * wire::kMiB, .kernel = sum.player()}};
  Runtime runtime;
  FlexStream& stream = runtime.default_stream();
  CompiledKernel compiled{sum_kernel(), {{"M", 1}, {"N", 64}}};
  std::vector<ExecutionPlan> plans;  // that keep what a job has loaded

  explicit SumRig(RuntimeOptions options = {})
      : runtime(card.attach(), with_regions(std::move(options)), std::make_unique<SumSource>(card)) {
    sum.card = &card;
  }
  ~SumRig() { sum.let_go(); }

  static RuntimeOptions with_regions(RuntimeOptions options) {
    options.allocator.region_bytes = {64 * wire::kMiB};
    return options;
  }
  // The job of the kernel with this HostOperation, loaded.
  Job job(HostFunction function, HostTime time = HostTime::InStream) {
    JobPlan plan({HostOperation{std::move(function), time}, CorrectionDMA{}, *JobPlan::standard(compiled).compute()});
    return load(Job(compiled.kernel(), ProgramCorrectionMetadata::of(*compiled.kernel()), std::move(plan)));
  }
  Job standard() { return load(Job(compiled)); }
  Job load(Job job) {
    plans.push_back(ExecutionPlan({std::move(job)}));
    plans.back().load(runtime, stream);
    stream.Synchronize(soon());
    return plans.back().jobs()[0];
  }
  // `rows` tiles; nothing is in their memory.
  std::vector<Argument> rows(std::int64_t rows) {
    std::vector<Argument> arguments;
    arguments.reserve(3);
    for (int i = 0; i < 3; ++i) {
      arguments.push_back(
          {.allocation = runtime.allocator().allocate(static_cast<std::uint64_t>(rows) * 128), .shape = {rows, 64}});
    }
    return arguments;
  }
  std::uint64_t launch(const Job& job, std::span<const Argument> arguments, LaunchObserver* observer = nullptr,
                       bool barrier = false) {
    return stream.Launch(job, arguments, {.pipeline_barrier = barrier, .observer = observer});
  }
  // Lane 0 of a row of the result.
  std::uint16_t result(const Argument& tensor, std::uint64_t row) {
    std::uint16_t lane = 0;
    stream.Launch(Job::from_device(&lane, tensor.allocation, sizeof lane, row * 128), {});
    stream.Synchronize(soon());
    return lane;
  }
  void fill(const Argument& tensor, std::uint64_t bytes, std::uint16_t lane) {
    stream.Launch(Job::fill(tensor.allocation, bytes, lane * 0x0001000100010001ull), {});
  }
};

}  // namespace svp::test
