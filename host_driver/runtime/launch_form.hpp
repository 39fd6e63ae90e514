// SPDX-License-Identifier: Apache-2.0
// What of a launch depends on kernel and shapes alone: the operands' byte steps and how their tiles lie. Most programs
// launch the same shapes again and again, so a thread keeps the last ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "host_driver/runtime/argument.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/tiling.hpp"

namespace svp {

struct LaunchForm {
  using Strides = std::optional<std::array<std::uint64_t, Shape::kMaxRank>>;

  std::vector<StickGeometry> geometry;  // as the kernel is given it
  std::vector<Shape> shape;             // of the whole operands
  Tiling tiling;

  // What it was made of.
  std::uint64_t kernel_serial = 0;
  bool allow_tiled_launch = false;
  std::vector<Shape> compiled;
  std::vector<DeviceType> dtype;
  std::vector<Strides> stride;

  // `arguments` are as many as the kernel has operands.
  bool fits(const Job& job, std::span<const Argument> arguments, bool tiled_launch_allowed) const;
};

// One that this thread has remembered and that fits; else null.
std::shared_ptr<const LaunchForm> remembered_form(const Job& job, std::span<const Argument> arguments,
                                                  bool allow_tiled_launch);
// Writes down what it was made of, too. The oldest of this thread is forgotten.
std::shared_ptr<const LaunchForm> remember_form(std::shared_ptr<LaunchForm> form, const Job& job,
                                                std::span<const Argument> arguments, bool allow_tiled_launch);

}  // namespace svp
