// SPDX-License-Identifier: Apache-2.0
// SpyreStream (RFC): the passthrough from tensors to FlexStream, and LaunchKernel.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "host_driver/frontend/spyre_tensor.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"

namespace spyre::inline v0 {

// Cheap to copy; the runtime owns the stream behind it.
class SpyreStream {
 public:
  explicit SpyreStream(svp::FlexStream& stream) : stream_(&stream) {}

  // Takes the AllocationIndex and metadata of each tensor and delegates; errors are FlexStream::Launch's.
  std::uint64_t Launch(const svp::Job& job, std::span<const SpyreTensor> tensors, bool allow_tiled_launch = true);
  std::uint64_t Launch(const svp::Job& job, std::span<const SpyreTensor> tensors, const svp::LaunchOptions& options);
  void Synchronize() { stream_->Synchronize(); }
  void Synchronize(std::chrono::steady_clock::time_point deadline) { stream_->Synchronize(deadline); }
  bool Query() { return stream_->Query(); }
  void Reset() { stream_->Reset(); }

  svp::FlexStream& flex_stream() { return *stream_; }

 private:
  svp::FlexStream* stream_;
};

// Launches every job of the plan in order, or none: all are bound and validated before the first is submitted, and nothing
// was when it throws. Asynchronous. Tiled launch is allowed unless SPYRE_ALLOW_TILED_LAUNCH is 0 or false; the variable is
// read once per process, by the first call. Throws svp::InvalidArgument when it is neither 0, 1, false nor true.
void LaunchKernel(SpyreStream& stream, const svp::ExecutionPlan& plan, std::span<const SpyreTensor> tensors);
// Each job with tensors of its own, and with options.
void LaunchKernel(SpyreStream& stream, const svp::ExecutionPlan& plan,
                  std::span<const std::span<const SpyreTensor>> tensors_of_job, const svp::LaunchOptions& options);

inline constexpr const char* kAllowTiledLaunchVariable = "SPYRE_ALLOW_TILED_LAUNCH";
// Null (not set): true.
bool parse_allow_tiled_launch(const char* value);

}  // namespace spyre::inline v0
