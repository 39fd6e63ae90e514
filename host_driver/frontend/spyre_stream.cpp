// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/spyre_stream.hpp"

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace svp {

std::uint64_t SpyreStream::Launch(const Job& job, std::span<const SpyreTensor> tensors, bool allow_tiled_launch) {
  return Launch(job, tensors, LaunchOptions{.allow_tiled_launch = allow_tiled_launch});
}

void require_operands(std::size_t tensors) {
  if (tensors <= kMaxOperands) return;
  throw InvalidArgument(
      "tensors",
      std::to_string(tensors) + " tensors, a kernel has at most " + std::to_string(kMaxOperands) + " operands",
      "give one tensor per operand");
}

void require_tensors_of_jobs(std::size_t jobs, std::size_t lists) {
  if (jobs == lists) return;
  throw InvalidArgument("tensors_of_job", std::to_string(jobs) + " jobs, tensors for " + std::to_string(lists),
                        "give one list of tensors per job");
}

namespace {

// The arguments of a launch, written into `room`.
std::span<const Argument> arguments_of(const Job& job, std::span<const SpyreTensor> tensors, Arguments& room) {
  require_operands(tensors.size());
  room.clear();
  for (const SpyreTensor& tensor : tensors) room.push_back(argument_for(job, tensor));
  return room.items();
}

}  // namespace

std::uint64_t SpyreStream::Launch(const Job& job, std::span<const SpyreTensor> tensors, const LaunchOptions& options) {
  Arguments room;
  LaunchOptions effective = options;
  effective.allow_tiled_launch = options.allow_tiled_launch && svp::allow_tiled_launch();
  return stream_->Launch(job, arguments_of(job, tensors, room), effective);
}

bool parse_allow_tiled_launch(const char* value) {
  if (value == nullptr) return true;
  const std::string_view text(value);
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  throw InvalidArgument(
      kAllowTiledLaunchVariable,
      "environment variable " + std::string(kAllowTiledLaunchVariable) + " is '" + std::string(text) + "'",
      "set it to 0, 1, false or true, or unset it");
}

bool allow_tiled_launch() {
  static const std::optional<std::string> setting = [] {
    const char* value = std::getenv(kAllowTiledLaunchVariable);
    return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
  }();
  return parse_allow_tiled_launch(setting ? setting->c_str() : nullptr);
}

void launch_all(FlexStream& stream, const ExecutionPlan& plan,
                const std::function<std::span<const Argument>(std::size_t job, Arguments& room)>& arguments_of,
                const LaunchOptions& options) {
  const auto jobs = plan.jobs();
  if (jobs.empty()) return;
  std::vector<Arguments> rooms(jobs.size());
  std::vector<LaunchRequest> requests;
  requests.reserve(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) requests.push_back({&jobs[i], arguments_of(i, rooms[i]), options});
  stream.Launch(requests);
}

void LaunchKernel(SpyreStream& stream, const ExecutionPlan& plan, std::span<const SpyreTensor> tensors) {
  const auto of_job = [&](std::size_t job, Arguments& room) {
    // A job of transfers names its own memory.
    const Job& launched = plan.jobs()[job];
    return arguments_of(launched, launched.binary() != nullptr ? tensors : std::span<const SpyreTensor>{}, room);
  };
  launch_all(stream.flex_stream(), plan, of_job, {.allow_tiled_launch = allow_tiled_launch()});
}

void LaunchKernel(SpyreStream& stream, const ExecutionPlan& plan,
                  std::span<const std::span<const SpyreTensor>> tensors_of_job, const LaunchOptions& options) {
  require_tensors_of_jobs(plan.jobs().size(), tensors_of_job.size());
  LaunchOptions effective = options;
  effective.allow_tiled_launch &= allow_tiled_launch();
  const auto of_job = [&](std::size_t job, Arguments& room) {
    return arguments_of(plan.jobs()[job], tensors_of_job[job], room);
  };
  launch_all(stream.flex_stream(), plan, of_job, effective);
}

}  // namespace svp
