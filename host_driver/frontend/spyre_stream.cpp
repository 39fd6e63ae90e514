// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/spyre_stream.hpp"

#include <array>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace spyre::inline v0 {

std::uint64_t SpyreStream::Launch(const svp::Job& job, std::span<const SpyreTensor> tensors, bool allow_tiled_launch) {
  return Launch(job, tensors, svp::LaunchOptions{.allow_tiled_launch = allow_tiled_launch});
}

namespace {

using Arguments = std::array<svp::Argument, svp::kMaxOperands>;

// The arguments of a launch, written into `room`.
std::span<const svp::Argument> arguments_of(std::span<const SpyreTensor> tensors, Arguments& room) {
  if (tensors.size() > room.size()) {
    throw svp::InvalidArgument(
        "tensors",
        std::to_string(tensors.size()) + " tensors, a kernel has at most " + std::to_string(room.size()) + " operands",
        "give one tensor per operand");
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) room[i] = tensors[i].argument();
  return {room.data(), tensors.size()};
}

}  // namespace

std::uint64_t SpyreStream::Launch(const svp::Job& job, std::span<const SpyreTensor> tensors,
                                  const svp::LaunchOptions& options) {
  Arguments room;
  return stream_->Launch(job, arguments_of(tensors, room), options);
}

bool parse_allow_tiled_launch(const char* value) {
  if (value == nullptr) return true;
  const std::string_view text(value);
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  throw svp::InvalidArgument(
      kAllowTiledLaunchVariable,
      "environment variable " + std::string(kAllowTiledLaunchVariable) + " is '" + std::string(text) + "'",
      "set it to 0, 1, false or true, or unset it");
}

namespace {

// Read once: another thread may change the environment while this one reads it.
bool allow_tiled_launch() {
  static const std::optional<std::string> setting = [] {
    const char* value = std::getenv(kAllowTiledLaunchVariable);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  }();
  return parse_allow_tiled_launch(setting ? setting->c_str() : nullptr);
}

// Every job of the plan, or none.
void launch_all(SpyreStream& stream, const svp::ExecutionPlan& plan,
                const std::function<std::span<const SpyreTensor>(std::size_t)>& tensors_of,
                const svp::LaunchOptions& options) {
  const auto jobs = plan.jobs();
  if (jobs.empty()) return;
  std::vector<Arguments> rooms(jobs.size());
  std::vector<svp::LaunchRequest> requests;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    requests.push_back({&jobs[i], arguments_of(tensors_of(i), rooms[i]), options});
  }
  stream.flex_stream().Launch(requests);
}

}  // namespace

void LaunchKernel(SpyreStream& stream, const svp::ExecutionPlan& plan, std::span<const SpyreTensor> tensors) {
  const auto tensors_of = [&](std::size_t job) {
    // A job of transfers names its own memory.
    return plan.jobs()[job].binary() != nullptr ? tensors : std::span<const SpyreTensor>{};
  };
  launch_all(stream, plan, tensors_of, {.allow_tiled_launch = allow_tiled_launch()});
}

void LaunchKernel(SpyreStream& stream, const svp::ExecutionPlan& plan,
                  std::span<const std::span<const SpyreTensor>> tensors_of_job, const svp::LaunchOptions& options) {
  const auto jobs = plan.jobs();
  if (tensors_of_job.size() != jobs.size()) {
    throw svp::InvalidArgument(
        "tensors_of_job", std::to_string(jobs.size()) + " jobs, tensors for " + std::to_string(tensors_of_job.size()),
        "give one list of tensors per job");
  }
  svp::LaunchOptions effective = options;
  effective.allow_tiled_launch &= allow_tiled_launch();
  launch_all(stream, plan, [&](std::size_t job) { return tensors_of_job[job]; }, effective);
}

}  // namespace spyre::inline v0
