// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/windows.hpp"

#include <algorithm>
#include <string>

#include "host_driver/base/error.hpp"

namespace svp::ops {
namespace {

constexpr std::int64_t kLargestWindow = INT32_MAX;  // an extent of an operation

// The integers of a request in order; those that are missing have their default.
class WindowIntegers {
 public:
  WindowIntegers(const std::vector<std::int64_t>& given, std::size_t most) : given_(given) {
    if (given.size() <= most) return;
    throw InvalidArgument("integers", std::to_string(given.size()) + " integers for an operation on windows",
                          "give at most " + std::to_string(most) + ": spyre ops lists them");
  }
  std::int64_t next(std::int64_t otherwise) { return at_ < given_.size() ? given_[at_++] : otherwise; }

 private:
  const std::vector<std::int64_t>& given_;
  std::size_t at_ = 0;
};

std::int64_t in_range(const char* field, std::int64_t value, std::int64_t least) {
  if (value >= least && value <= kLargestWindow) return value;
  throw InvalidArgument(field, std::string(field) + " " + std::to_string(value) + " of a window",
                        "give numbers from " + std::to_string(least) + " to 2^31 - 1, of height and width");
}

void require_half_of_kernel(const WindowAxis& axis) {
  if (axis.padding <= axis.span() / 2) return;
  throw InvalidArgument(
      "padding",
      "a padding of " + std::to_string(axis.padding) + " for windows over " + std::to_string(axis.span()) + " elements",
      "give at most half of the window: more would make windows of padding alone");
}

std::int64_t ceil_quotient(std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

}  // namespace

WindowArguments pool_arguments(Op op, const std::vector<std::int64_t>& integers) {
  WindowIntegers next(integers, 9);
  WindowArguments arguments;
  for (WindowAxis& axis : arguments.axis) axis.kernel = in_range("kernel_size", next.next(0), 1);
  for (WindowAxis& axis : arguments.axis) {
    const std::int64_t stride = in_range("stride", next.next(0), 0);
    axis.stride = stride == 0 ? axis.kernel : stride;
  }
  for (WindowAxis& axis : arguments.axis) axis.padding = in_range("padding", next.next(0), 0);
  if (op == Op::MaxPool2d) {
    for (WindowAxis& axis : arguments.axis) axis.dilation = in_range("dilation", next.next(1), 1);
    arguments.ceil_mode = next.next(0) != 0;
  } else {
    arguments.ceil_mode = next.next(0) != 0;
    arguments.count_include_pad = next.next(1) != 0;
    arguments.divisor = next.next(0);
  }
  for (const WindowAxis& axis : arguments.axis) require_half_of_kernel(axis);
  return arguments;
}

WindowArguments convolution_arguments(const std::vector<std::int64_t>& integers, std::int64_t kernel_height,
                                      std::int64_t kernel_width) {
  WindowIntegers next(integers, 7);
  WindowArguments arguments;
  arguments.axis[0].kernel = in_range("kernel_size", kernel_height, 1);
  arguments.axis[1].kernel = in_range("kernel_size", kernel_width, 1);
  for (WindowAxis& axis : arguments.axis) axis.stride = in_range("stride", next.next(1), 1);
  for (WindowAxis& axis : arguments.axis) axis.padding = in_range("padding", next.next(0), 0);
  for (WindowAxis& axis : arguments.axis) axis.dilation = in_range("dilation", next.next(1), 1);
  arguments.groups = in_range("groups", next.next(1), 1);
  return arguments;
}

std::int64_t window_count(const WindowAxis& axis, std::int64_t extent, bool ceil_mode) {
  const std::int64_t free = extent + 2 * axis.padding - axis.span();
  if (free < 0) {
    throw InvalidArgument("shape",
                          "a window over " + std::to_string(axis.span()) + " elements of an image with " +
                              std::to_string(extent) + " and " + std::to_string(axis.padding) + " on each side",
                          "give a larger image, more padding, or a smaller kernel or dilation");
  }
  std::int64_t count = free / axis.stride + 1;
  // As in PyTorch: the last window begins inside of the image or of the padding before it.
  const bool one_more = ceil_mode && free % axis.stride != 0 && count * axis.stride < extent + axis.padding;
  return count + (one_more ? 1 : 0);
}

std::vector<WindowRun> window_runs(const WindowAxis& axis, std::int64_t extent, const WindowArguments& arguments) {
  const std::int64_t windows = window_count(axis, extent, arguments.ceil_mode);
  std::vector<WindowRun> runs;
  std::int64_t first_tap_of_run = 0;
  for (std::int64_t o = 0; o < windows; ++o) {
    const std::int64_t start = o * axis.stride - axis.padding;
    const std::int64_t first_tap = std::min(axis.kernel, ceil_quotient(-start, axis.dilation));
    const std::int64_t end_tap = std::min(axis.kernel, ceil_quotient(extent - start, axis.dilation));
    const std::int64_t taps = std::max<std::int64_t>(end_tap - first_tap, 0);
    const std::int64_t with_padding = std::min(axis.kernel, extent + axis.padding - start);
    const std::int64_t counted = arguments.count_include_pad ? with_padding : taps;
    if (!runs.empty() && first_tap == first_tap_of_run && runs.back().taps == taps && runs.back().counted == counted) {
      ++runs.back().windows;
      continue;
    }
    first_tap_of_run = first_tap;
    runs.push_back({.first_window = o,
                    .windows = 1,
                    .first_element = start + first_tap * axis.dilation,
                    .taps = taps,
                    .counted = counted});
  }
  return runs;
}

}  // namespace svp::ops
