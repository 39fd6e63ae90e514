// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/reference_windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "host_driver/ops/windows.hpp"

namespace svp::ops {
namespace {

// [..., H, W] as [maps, H, W].
struct Maps {
  const Array& array;
  std::int64_t height() const { return array.size[array.size.size() - 2]; }
  std::int64_t width() const { return array.size.back(); }
  bool has(std::int64_t row, std::int64_t column) const {
    return row >= 0 && row < height() && column >= 0 && column < width();
  }
  double at(std::int64_t map, std::int64_t row, std::int64_t column) const {
    return array.data[static_cast<std::size_t>((map * height() + row) * width() + column)];
  }
};

// `visit` gets the tap's row and column in the kernel and in the image, also outside of it.
template <typename Visit>
void for_each_tap(const WindowArguments& arguments, std::int64_t row, std::int64_t column, Visit visit) {
  const WindowAxis& down = arguments.axis[0];
  const WindowAxis& across = arguments.axis[1];
  for (std::int64_t i = 0; i < down.kernel; ++i) {
    for (std::int64_t j = 0; j < across.kernel; ++j) {
      visit(i, j, row * down.stride - down.padding + i * down.dilation,
            column * across.stride - across.padding + j * across.dilation);
    }
  }
}

double pooled(Op op, const Maps& maps, const WindowArguments& arguments, std::int64_t map, std::int64_t row,
              std::int64_t column) {
  const WindowAxis& down = arguments.axis[0];
  const WindowAxis& across = arguments.axis[1];
  double sum = 0;
  double largest = -std::numeric_limits<double>::infinity();
  std::int64_t inside = 0;
  std::int64_t padded = 0;
  for_each_tap(arguments, row, column, [&](std::int64_t, std::int64_t, std::int64_t y, std::int64_t x) {
    if (y < maps.height() + down.padding && x < maps.width() + across.padding) ++padded;
    if (!maps.has(y, x)) return;
    ++inside;
    const double value = maps.at(map, y, x);
    sum += value;
    largest =
        std::isnan(value) || std::isnan(largest) ? std::numeric_limits<double>::quiet_NaN() : std::max(largest, value);
  });
  if (op == Op::MaxPool2d) return largest;
  const std::int64_t counted = arguments.count_include_pad ? padded : inside;
  return sum / static_cast<double>(arguments.divisor != 0 ? arguments.divisor : counted);
}

// `value` gives the result for map, row, column.
template <typename Value>
Array maps_of(std::vector<std::int64_t> size, Value value) {
  Array out = Array::of(std::move(size));
  const std::int64_t height = out.size[out.size.size() - 2];
  const std::int64_t width = out.size.back();
  for (std::int64_t i = 0; i < out.count(); ++i) {
    out.data[static_cast<std::size_t>(i)] = value(i / (height * width), i / width % height, i % width);
  }
  return out;
}

std::vector<std::int64_t> windows_of(std::vector<std::int64_t> size, const WindowArguments& arguments) {
  std::int64_t& height = size[size.size() - 2];
  height = window_count(arguments.axis[0], height, arguments.ceil_mode);
  size.back() = window_count(arguments.axis[1], size.back(), arguments.ceil_mode);
  return size;
}

}  // namespace

Array reference_pool(Op op, const Array& images, const std::vector<std::int64_t>& integers) {
  const WindowArguments arguments = pool_arguments(op, integers);
  const Maps maps{images};
  return maps_of(windows_of(images.size, arguments), [&](std::int64_t map, std::int64_t row, std::int64_t column) {
    return pooled(op, maps, arguments, map, row, column);
  });
}

Array reference_convolution(const std::vector<Array>& inputs, const std::vector<std::int64_t>& integers) {
  const Array& weight = inputs[1];
  const WindowArguments arguments = convolution_arguments(integers, weight.size[2], weight.size[3]);
  const Maps images{inputs[0]};
  const Maps kernels{weight};
  const std::int64_t results = weight.size[0];
  const std::int64_t channels = weight.size[1];
  std::vector<std::int64_t> size = windows_of(inputs[0].size, arguments);
  size[size.size() - 3] = results;
  return maps_of(std::move(size), [&](std::int64_t map, std::int64_t row, std::int64_t column) {
    const std::int64_t result = map % results;
    const std::int64_t group = result / (results / arguments.groups);
    double sum = inputs.size() > 2 ? inputs[2].data[static_cast<std::size_t>(result)] : 0;
    for_each_tap(arguments, row, column, [&](std::int64_t i, std::int64_t j, std::int64_t y, std::int64_t x) {
      if (!images.has(y, x)) return;
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t from = (map / results * arguments.groups + group) * channels + c;
        sum += images.at(from, y, x) * kernels.at(result * channels + c, i, j);
      }
    });
    return sum;
  });
}

}  // namespace svp::ops
