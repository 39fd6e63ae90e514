// SPDX-License-Identifier: Apache-2.0
// Windows of pooling and convolution over images [N, C, H, W]: what the integers of a request mean, PyTorch's sizes of
// results, and which taps of which windows lie inside of an image.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "host_driver/ops/operation_table.hpp"

namespace svp::ops {

// Along one dimension. Tap t of window o lies at o · stride - padding + t · dilation.
struct WindowAxis {
  std::int64_t kernel = 1;  // taps
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  std::int64_t span() const { return (kernel - 1) * dilation + 1; }
};

struct WindowArguments {
  std::array<WindowAxis, 2> axis;  // height, width
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor = 0;  // 0: the taps that count
  std::int64_t groups = 1;
};

// Of avg_pool2d and max_pool2d: as operation_table() says. Throws InvalidArgument ("kernel_size", "stride", "padding",
// "dilation", "integers").
WindowArguments pool_arguments(Op op, const std::vector<std::int64_t>& integers);
// Of conv2d; the kernel is the weight's height and width. Throws as above, and for "groups".
WindowArguments convolution_arguments(const std::vector<std::int64_t>& integers, std::int64_t kernel_height,
                                      std::int64_t kernel_width);

// Windows along a dimension of this extent. Throws InvalidArgument ("shape") when the window is larger than the padded
// image.
std::int64_t window_count(const WindowAxis& axis, std::int64_t extent, bool ceil_mode);

// Neighbouring windows that have the same taps inside of the image.
struct WindowRun {
  std::int64_t first_window = 0;
  std::int64_t windows = 0;
  std::int64_t first_element = 0;  // the first tap inside, of the first window
  std::int64_t taps = 0;           // may be 0
  std::int64_t counted = 0;        // taps that an average divides by
};
std::vector<WindowRun> window_runs(const WindowAxis& axis, std::int64_t extent, const WindowArguments& arguments);

}  // namespace svp::ops
