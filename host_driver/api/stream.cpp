// SPDX-License-Identifier: Apache-2.0
// Streams and launches.
#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {
namespace {

using svp::Arguments;

// The arguments of a launch, written into `room`.
std::span<const svp::Argument> arguments_of(const svp::Job& job, std::span<const SpyreTensor> tensors,
                                            Arguments& room) {
  svp::require_operands(tensors.size());
  room.clear();
  for (const SpyreTensor& tensor : tensors) room.push_back(svp::argument_for(job, Inside::of(tensor)));
  return room.items();
}

svp::LaunchOptions inner(const LaunchOptions& options) {
  return {.allow_tiled_launch = options.allow_tiled_launch && svp::allow_tiled_launch(),
          .core_mask = options.core_mask,
          .budget_slices = options.budget_slices,
          .pipeline_barrier = options.pipeline_barrier,
          .keep_alive = options.keep_alive};
}

}  // namespace

std::uint64_t SpyreStream::Launch(const Job& job, std::span<const SpyreTensor> tensors, const LaunchOptions& options) {
  Arguments room;
  return Inside::of(*this).Launch(Inside::of(job), arguments_of(Inside::of(job), tensors, room), inner(options));
}
std::uint64_t SpyreStream::LaunchHost(std::function<void()> function) {
  return Inside::of(*this).LaunchHost(std::move(function));
}
Event SpyreStream::Record() {
  if (auto captured = Inside::of(*this).RecordInCapture()) return Inside::event(std::move(captured));
  return Inside::event(Inside::of(*this).Record());
}
void SpyreStream::Wait(const Event& event) {
  const auto captured = Inside::captured(event);
  if (captured != nullptr && Inside::of(*this).WaitInCapture(captured)) return;
  Inside::of(*this).Wait(Inside::of(event));
}
void SpyreStream::PipelineBarrier() { Inside::of(*this).PipelineBarrier(); }
void SpyreStream::Wait(const SharedEvent& event) { Inside::of(*this).Wait(event); }
void SpyreStream::Synchronize() { Inside::of(*this).Synchronize(); }
void SpyreStream::Synchronize(std::chrono::steady_clock::time_point deadline) {
  Inside::of(*this).Synchronize(deadline);
}
bool SpyreStream::Query() { return Inside::of(*this).Query(); }
void SpyreStream::Reset() { Inside::of(*this).Reset(); }
std::optional<StreamError> SpyreStream::error() const {
  const auto error = Inside::of(*this).error();
  return error ? std::optional<StreamError>(static_cast<const StreamError&>(*error)) : std::nullopt;
}
std::uint32_t SpyreStream::stream_index() const { return Inside::of(*this).stream_index(); }
unsigned SpyreStream::id() const { return Inside::of(*this).id(); }
StreamPriority SpyreStream::priority() const { return svp::Scheduler::priority_of(id()); }

void LaunchKernel(SpyreStream& stream, const ExecutionPlan& plan, std::span<const SpyreTensor> tensors) {
  const auto jobs = Inside::of(plan).jobs();
  const auto of_job = [&](std::size_t job, Arguments& room) {
    // A job of transfers names its own memory.
    return arguments_of(jobs[job], jobs[job].binary() != nullptr ? tensors : std::span<const SpyreTensor>{}, room);
  };
  svp::launch_all(Inside::of(stream), Inside::of(plan), of_job, {.allow_tiled_launch = svp::allow_tiled_launch()});
}

void LaunchKernel(SpyreStream& stream, const ExecutionPlan& plan,
                  std::span<const std::span<const SpyreTensor>> tensors_of_job, const LaunchOptions& options) {
  svp::require_tensors_of_jobs(plan.size(), tensors_of_job.size());
  const auto jobs = Inside::of(plan).jobs();
  const auto of_job = [&](std::size_t job, Arguments& room) {
    return arguments_of(jobs[job], tensors_of_job[job], room);
  };
  svp::launch_all(Inside::of(stream), Inside::of(plan), of_job, inner(options));
}

}  // namespace spyre::inline v0
