// SPDX-License-Identifier: Apache-2.0
// SpyreStream (RFC): the passthrough from tensors to FlexStream, and LaunchKernel.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "host_driver/frontend/spyre_tensor.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"

namespace svp {

// Cheap to copy; the runtime owns the stream behind it.
class SpyreStream {
 public:
  explicit SpyreStream(FlexStream& stream) : stream_(&stream) {}

  // Takes the AllocationIndex and metadata of each tensor and delegates; errors are FlexStream::Launch's.
  std::uint64_t Launch(const Job& job, std::span<const SpyreTensor> tensors, bool allow_tiled_launch = true);
  std::uint64_t Launch(const Job& job, std::span<const SpyreTensor> tensors, const LaunchOptions& options);
  void Synchronize() { stream_->Synchronize(); }
  void Synchronize(std::chrono::steady_clock::time_point deadline) { stream_->Synchronize(deadline); }
  bool Query() { return stream_->Query(); }
  void Reset() { stream_->Reset(); }

  FlexStream& flex_stream() { return *stream_; }

 private:
  FlexStream* stream_;
};

// Launches every job of the plan in order, or none: all are bound and validated before the first is submitted, and
// nothing was when it throws. Asynchronous. No launch is tiled when SPYRE_ALLOW_TILED_LAUNCH is 0 or false; the
// variable is read once per process, by the first launch. Throws InvalidArgument when it is neither 0, 1, false nor
// true.
void LaunchKernel(SpyreStream& stream, const ExecutionPlan& plan, std::span<const SpyreTensor> tensors);
// Each job with tensors of its own, and with options.
void LaunchKernel(SpyreStream& stream, const ExecutionPlan& plan,
                  std::span<const std::span<const SpyreTensor>> tensors_of_job, const LaunchOptions& options);

inline constexpr const char* kAllowTiledLaunchVariable = "SPYRE_ALLOW_TILED_LAUNCH";
// What the variable says: read once, because another thread may change the environment while this one reads it.
bool allow_tiled_launch();

// What LaunchKernel is made of, for whoever has tensors of another type (host_driver/api).
using Arguments = PerOperand<Argument>;
// A tensor as a launch of the job takes it: its storage as it is for a device program, else SpyreTensor::argument().
inline Argument argument_for(bool device_program, const SpyreTensor& tensor) {
  return device_program ? tensor.raw_argument() : tensor.argument();
}
inline Argument argument_for(const Job& job, const SpyreTensor& tensor) {
  return argument_for(job.device_program() != nullptr, tensor);
}
// Throw InvalidArgument: more tensors than a kernel has operands; not one list of tensors per job.
void require_operands(std::size_t tensors);
void require_tensors_of_jobs(std::size_t jobs, std::size_t lists);
// Every job of the plan, or none. `arguments_of` writes a job's arguments into the room that it is given.
void launch_all(FlexStream& stream, const ExecutionPlan& plan,
                const std::function<std::span<const Argument>(std::size_t job, Arguments& room)>& arguments_of,
                const LaunchOptions& options);

// Null (not set): true.
bool parse_allow_tiled_launch(const char* value);

}  // namespace svp
