// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/spyre_stream.hpp"

#include <array>
#include <cstdlib>
#include <string>

namespace spyre {

std::uint64_t SpyreStream::Launch(const flex::Job& job, std::span<const SpyreTensor> tensors, bool allow_tiled_launch) {
  return Launch(job, tensors, flex::LaunchOptions{.allow_tiled_launch = allow_tiled_launch});
}

std::uint64_t SpyreStream::Launch(const flex::Job& job, std::span<const SpyreTensor> tensors,
                                  const flex::LaunchOptions& options) {
  std::array<flex::Argument, flex::kMaxOperands> arguments;
  if (tensors.size() > arguments.size()) {
    throw flex::InvalidArgument("tensors",
                                std::to_string(tensors.size()) + " tensors, a kernel has at most " +
                                    std::to_string(arguments.size()) + " operands",
                                "give one tensor per operand");
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) arguments[i] = tensors[i].argument();
  return stream_->Launch(job, std::span(arguments.data(), tensors.size()), options);
}

bool parse_allow_tiled_launch(const char* value) {
  if (value == nullptr) return true;
  const std::string_view text(value);
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  throw flex::InvalidArgument(
      kAllowTiledLaunchVariable,
      "environment variable " + std::string(kAllowTiledLaunchVariable) + " is '" + std::string(text) + "'",
      "set it to 0, 1, false or true, or unset it");
}

void LaunchKernel(SpyreStream& stream, const flex::ExecutionPlan& plan, std::span<const SpyreTensor> tensors) {
  const bool allow = parse_allow_tiled_launch(std::getenv(kAllowTiledLaunchVariable));
  for (const flex::Job& job : plan.jobs()) {
    // A job of transfers names its own memory.
    stream.Launch(job, job.binary() != nullptr ? tensors : std::span<const SpyreTensor>{}, allow);
  }
}

void LaunchKernel(SpyreStream& stream, const flex::ExecutionPlan& plan,
                  std::span<const std::span<const SpyreTensor>> tensors_of_job, const flex::LaunchOptions& options) {
  const auto jobs = plan.jobs();
  if (tensors_of_job.size() != jobs.size()) {
    throw flex::InvalidArgument(
        "tensors_of_job", std::to_string(jobs.size()) + " jobs, tensors for " + std::to_string(tensors_of_job.size()),
        "give one list of tensors per job");
  }
  flex::LaunchOptions effective = options;
  effective.allow_tiled_launch &= parse_allow_tiled_launch(std::getenv(kAllowTiledLaunchVariable));
  for (std::size_t i = 0; i < jobs.size(); ++i) stream.Launch(jobs[i], tensors_of_job[i], effective);
}

}  // namespace spyre
