// SPDX-License-Identifier: Apache-2.0
// conv2d. The image is brought into memory with its channels in sticks and zeros around it; there, windows are a view
// in which two dimensions step along the same one.
//
// Windows become rows of a matrix, [groups, images · height · width, taps · channels], and the result is one MatMul
// with the groups as a batch: exact products, rounded as those of any product. Kernels of one element need no such
// matrix.
//
// With one channel in each group that matrix would be padding for the most part. There the products of a window are
// FP32, which holds every product of two DL16 exactly, summed along the taps, with one rounding to DL16 at the end.
//
// The matrix of windows is made for some rows of the result at a time, in the same memory.
#include <algorithm>
#include <array>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/windows.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "shared/dl16.hpp"

namespace svp::ops {
namespace {

using program::Opcode;
using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kWindowMatrixBytes = 16 << 20;
constexpr std::int64_t kMostTiles = 256;  // where the matrix would be so large that kWindowMatrixBytes give more

struct Convolution {
  WindowArguments arguments;
  std::int64_t images, channels, groups, results;  // channels and results of one group
  std::int64_t height, width;                      // of the result

  const WindowAxis& down() const { return arguments.axis[0]; }
  const WindowAxis& across() const { return arguments.axis[1]; }
  std::int64_t taps() const { return down().kernel * across().kernel; }
  bool single() const { return down().kernel == 1 && across().kernel == 1; }
  bool padded() const { return down().padding != 0 || across().padding != 0; }
};

const Value& convolved_images(Lowering& lowering) {
  const Value& x = lowering.materialised(lowering.input(0));
  if (x.rank() == 4) return x;
  if (x.rank() == 3) return lowering.keep(x.seen_as(unsqueezed(x.form.view, 0)));
  throw InvalidArgument("shape", "a convolution of " + to_string(x.size()), "give [N, C, H, W] or [C, H, W]");
}

Convolution convolution_of(Lowering& lowering, const Value& images) {
  const Sizes& x = images.size();
  const Sizes& w = lowering.input(1).size();
  if (w.size() != 4) {
    throw InvalidArgument("shape", "a weight of " + to_string(w),
                          "give [out channels, channels / groups, height, width]");
  }
  // Of no images there is no result. A kernel or an image without elements is a mistake.
  const bool empty_image = std::find(x.begin() + 1, x.end(), 0) != x.end();
  if (empty_image || element_count(lowering.input(1).form.view) == 0) {
    throw InvalidArgument("shape", "a convolution of " + to_string(x) + " with " + to_string(w),
                          "give tensors that have elements");
  }
  const WindowArguments arguments = convolution_arguments(lowering.request().integers, w[2], w[3]);
  const std::int64_t groups = arguments.groups;
  if (x[1] % groups != 0 || w[0] % groups != 0) {
    throw InvalidArgument("groups",
                          std::to_string(groups) + " groups of " + std::to_string(x[1]) + " channels, and " +
                              std::to_string(w[0]) + " of the result",
                          "give groups that divide both");
  }
  if (w[1] * groups != x[1]) {
    throw InvalidArgument(
        "shape",
        "a weight of " + to_string(w) + " for images of " + to_string(x) + " in " + std::to_string(groups) + " groups",
        "give [out channels, channels / groups, height, width]");
  }
  if (lowering.inputs() == 3 && lowering.input(2).size() != Sizes{w[0]}) {
    throw InvalidArgument("shape",
                          "a bias of " + to_string(lowering.input(2).size()) + " for a weight of " + to_string(w),
                          "give one element for each channel of the result");
  }
  return {.arguments = arguments,
          .images = x[0],
          .channels = w[1],
          .groups = groups,
          .results = w[0] / groups,
          .height = window_count(arguments.axis[0], x[2], false),
          .width = window_count(arguments.axis[1], x[3], false)};
}

// ---- views ----------------------------------------------------------------------------------------------------------

// Dimension `dimension` in two: parts of `extent`.
DeviceView in_parts(const DeviceView& view, std::size_t dimension, std::int64_t extent) {
  DeviceView result = view;
  const auto behind = static_cast<std::ptrdiff_t>(dimension) + 1;
  result.size[dimension] = view.size[dimension] / extent;
  result.stride[dimension] = view.stride[dimension] * extent;
  result.size.insert(result.size.begin() + behind, extent);
  result.stride.insert(result.stride.begin() + behind, view.stride[dimension]);
  return result;
}

// Channels by groups. A copy with other sticks where those of the channels hold several groups.
const Value& by_groups(Lowering& lowering, const Value& value, std::size_t dimension, std::int64_t extent) {
  const DeviceView view = in_parts(value.form.view, dimension, extent);
  if (stick_access(value.form.base, value.form.layout, view)) return lowering.keep(value.seen_as(view));
  const std::size_t last = value.rank() - 1;
  const Value& other = lowering.with_stick(value, dimension == last ? std::nullopt : std::optional(last));
  return lowering.keep(other.seen_as(in_parts(other.form.view, dimension, extent)));
}

// Windows in place of rows or columns: [windows, taps].
DeviceView with_windows(DeviceView view, std::size_t dimension, const WindowAxis& axis, std::int64_t windows) {
  const auto behind = static_cast<std::ptrdiff_t>(dimension) + 1;
  const std::int64_t step = view.stride[dimension];
  view.size[dimension] = windows;
  view.stride[dimension] = step * axis.stride;
  view.size.insert(view.size.begin() + behind, axis.kernel);
  view.stride.insert(view.stride.begin() + behind, step * axis.dilation);
  return view;
}

// ---- the image with zeros around it ---------------------------------------------------------------------------------

// The rows above and below, and the columns beside them, of [N, G, C, H, W].
void fill_border(Lowering& lowering, const Value& padded, const Convolution& conv) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto dimension = static_cast<std::int64_t>(3 + i);
    const std::int64_t padding = conv.arguments.axis[i].padding;
    if (padding == 0) continue;
    const std::int64_t end = padded.size()[3 + i];
    for (const std::int64_t first : {std::int64_t{0}, end - padding}) {
      lowering.fill(lowering.keep(padded.seen_as(narrowed(padded.form.view, dimension, first, padding))), 0);
    }
  }
}

// [N, G, C, H, W] with the channels in sticks. Pad lanes hold anything when `images` has its channels there already.
const Value& padded_images(Lowering& lowering, const Value& images, const Convolution& conv, DeviceType type) {
  const bool converts = images.form.layout.device_dtype != type;
  // Without a border and in its format it may be where it is; into a border it is stored from its own sticks.
  const Value& from = converts || !conv.padded() ? lowering.with_stick(images, 2) : images;
  if (!converts && !conv.padded()) return from;
  Sizes size = images.size();
  for (std::size_t i = 0; i < 2; ++i) size[3 + i] += 2 * conv.arguments.axis[i].padding;
  const Value& padded = lowering.temporary(size, images.form.base.dtype, type, 2);
  fill_border(lowering, padded, conv);
  DeviceView inside = padded.form.view;
  for (std::size_t i = 0; i < 2; ++i) {
    inside = narrowed(inside, static_cast<std::int64_t>(3 + i), conv.arguments.axis[i].padding, images.size()[3 + i]);
  }
  const Value& to = lowering.keep(padded.seen_as(inside));
  if (converts) {
    lowering.writer().emit(
        {.opcode = Opcode::Copy, .extent = to.size(), .operands = {aligned(from, to.rank()), aligned(to, to.rank())}});
  } else {
    lowering.store(from, to);
  }
  return padded;
}

// ---- tiles ----------------------------------------------------------------------------------------------------------

// Images and rows of the result.
struct WindowTile {
  std::int64_t first_image, images, first_row, rows;
};

// Tiles whose windows fit into the memory for them, where those of one row have `row_bytes`.
std::vector<WindowTile> window_tiles(const Convolution& conv, std::int64_t row_bytes) {
  const std::int64_t all = row_bytes * conv.images * conv.height;
  const std::int64_t limit = std::max(kWindowMatrixBytes, all / kMostTiles);
  const std::int64_t fitting = std::max<std::int64_t>(limit / row_bytes, 1);
  const std::int64_t rows = std::min(fitting, conv.height);
  const std::int64_t images = std::clamp<std::int64_t>(fitting / conv.height, 1, conv.images);
  std::vector<WindowTile> tiles;
  for (std::int64_t n = 0; n < conv.images; n += images) {
    for (std::int64_t row = 0; row < conv.height; row += rows) {
      tiles.push_back({n, std::min(images, conv.images - n), row, std::min(rows, conv.height - row)});
    }
  }
  return tiles;
}

// The rows of a tile of what has images and rows of the result as these dimensions.
DeviceView of_tile(const DeviceView& view, const WindowTile& tile, std::int64_t image_dim, std::int64_t row_dim) {
  return narrowed(narrowed(view, image_dim, tile.first_image, tile.images), row_dim, tile.first_row, tile.rows);
}

// ---- windows as a matrix --------------------------------------------------------------------------------------------

std::int64_t whole_sticks_of(std::int64_t elements, DeviceType type) {
  const std::int64_t lanes = elements_per_stick(type);
  return (elements + lanes - 1) / lanes * lanes;
}

// [G, taps · channels, results], zero where the channels of a tap end inside of a stick.
const Value& weight_matrix(Lowering& lowering, const Value& weight, const Convolution& conv, std::int64_t tap_width) {
  const Value& matrix = lowering.temporary({conv.groups, conv.taps() * tap_width, conv.results}, weight.form.base.dtype,
                                           DeviceType::Dl16, 2);
  if (tap_width != conv.channels) lowering.fill(matrix, 0);
  const DeviceView taps =
      reshaped(matrix.form.view, {conv.groups, conv.down().kernel, conv.across().kernel, tap_width, conv.results});
  const Value& to = lowering.keep(matrix.seen_as(narrowed(taps, 3, 0, conv.channels)));
  const Value& grouped = by_groups(lowering, weight, 0, conv.results);  // [G, O, C, KH, KW]
  lowering.store(lowering.keep(grouped.seen_as(permuted(grouped.form.view, {0, 3, 4, 2, 1}))), to);
  return matrix;
}

// The matrix of a tile, as [G, N, H, W, taps · channels].
const Value& matrix_of_tile(Lowering& lowering, const Value& memory, const WindowTile& tile, const Convolution& conv) {
  const std::int64_t rows = tile.images * tile.rows * conv.width;
  const DeviceView part = narrowed(memory.form.view, 1, 0, rows);
  return lowering.keep(
      memory.seen_as(reshaped(part, {conv.groups, tile.images, tile.rows, conv.width, memory.size().back()})));
}

void copy_windows(Lowering& lowering, const Value& windows, const Value& matrix, const Convolution& conv) {
  Sizes size = matrix.size();
  size.pop_back();
  const std::int64_t tap_width = matrix.size().back() / conv.taps();
  for (const std::int64_t extent : {conv.down().kernel, conv.across().kernel, tap_width}) size.push_back(extent);
  const DeviceView taps = narrowed(reshaped(matrix.form.view, size), 6, 0, conv.channels);
  const Value& to = lowering.keep(matrix.seen_as(taps));
  OperationParts parts{.opcode = Opcode::Copy, .extent = to.size(), .operands = {aligned(windows, 7), aligned(to, 7)}};
  // A single channel fills its stick; the weights there are zero.
  if (to.stick() && tap_width != conv.channels) parts.masks = {{6, conv.channels, tap_width - conv.channels}};
  lowering.writer().emit(parts);
}

// [G, N, H, W, results], the channels in sticks.
const Value& product_of_windows(Lowering& lowering, const Value& images, const Value& weight, const Convolution& conv) {
  const std::int64_t tap_width = conv.single() ? conv.channels : whole_sticks_of(conv.channels, DeviceType::Dl16);
  const Value& weights = weight_matrix(lowering, weight, conv, tap_width);
  const Value& right =
      lowering.keep(weights.seen_as(unsqueezed(unsqueezed(weights.form.view, 1), 1)));  // [G, 1, 1, K, results]
  const Value& padded = padded_images(lowering, images, conv, DeviceType::Dl16);
  DeviceView view = with_windows(padded.form.view, 4, conv.across(), conv.width);
  view = with_windows(view, 3, conv.down(), conv.height);  // [N, G, C, H, KH, W, KW]
  const Value& windows = lowering.keep(padded.seen_as(permuted(view, {1, 0, 3, 5, 4, 6, 2})));
  const Value& out = lowering.temporary({conv.groups, conv.images, conv.height, conv.width, conv.results},
                                        images.form.base.dtype, DeviceType::Dl16, 4);
  if (conv.single()) {
    const DeviceView rows = squeezed(squeezed(windows.form.view, 5), 4);
    lowering.matmul(lowering.keep(windows.seen_as(rows)), right, out);
    return out;
  }
  const std::int64_t width = conv.taps() * tap_width;
  const std::vector<WindowTile> tiles =
      window_tiles(conv, conv.groups * conv.width * width * static_cast<std::int64_t>(sizeof(wire::Dl16)));
  const std::int64_t rows = tiles.front().images * tiles.front().rows * conv.width;
  const Value& memory = lowering.temporary({conv.groups, rows, width}, images.form.base.dtype, DeviceType::Dl16, 2);
  for (const WindowTile& tile : tiles) {
    const Value& matrix = matrix_of_tile(lowering, memory, tile, conv);
    copy_windows(lowering, lowering.keep(windows.seen_as(of_tile(windows.form.view, tile, 1, 2))), matrix, conv);
    lowering.matmul(matrix, right, lowering.keep(out.seen_as(of_tile(out.form.view, tile, 1, 2))));
  }
  return out;
}

// ---- one channel in each group --------------------------------------------------------------------------------------

// [N, H, W, results, C] of FP32, the channels in sticks.
const Value& sums_of_windows(Lowering& lowering, const Value& images, const Value& weight, const Convolution& conv) {
  const DataType dtype = images.form.base.dtype;
  const Value& grouped = by_groups(lowering, weight, 0, conv.results);
  const DeviceView by_channel = permuted(squeezed(grouped.form.view, 2), {1, 2, 3, 0});  // [O, KH, KW, C]
  const Value& weights = lowering.as_format(
      lowering.with_stick(lowering.materialised(lowering.keep(grouped.seen_as(by_channel))), 3), DeviceType::Fp32);
  const Value& padded = padded_images(lowering, images, conv, DeviceType::Fp32);
  DeviceView view = squeezed(padded.form.view, 1);  // [N, C, H, W]
  view = with_windows(view, 3, conv.across(), conv.width);
  view = with_windows(view, 2, conv.down(), conv.height);  // [N, C, H, KH, W, KW]
  view = unsqueezed(permuted(view, {0, 2, 4, 3, 5, 1}), 3);
  const Value& windows = lowering.keep(padded.seen_as(view));  // [N, H, W, 1, KH, KW, C]
  const Value& sums =
      lowering.temporary({conv.images, conv.height, conv.width, conv.results, conv.groups}, dtype, DeviceType::Fp32, 4);
  const std::vector<WindowTile> tiles =
      window_tiles(conv, conv.width * conv.results * conv.taps() * whole_sticks_of(conv.groups, DeviceType::Fp32) *
                             static_cast<std::int64_t>(sizeof(float)));
  const WindowTile& largest = tiles.front();
  const Value& memory = lowering.temporary(
      {largest.images * largest.rows * conv.width, conv.results, conv.taps(), conv.groups}, dtype, DeviceType::Fp32, 3);
  for (const WindowTile& tile : tiles) {
    const DeviceView part = narrowed(memory.form.view, 0, 0, tile.images * tile.rows * conv.width);
    Sizes size{tile.images, tile.rows, conv.width, conv.results, conv.taps(), conv.groups};
    const Value& products = lowering.keep(memory.seen_as(reshaped(part, size)));
    const DeviceView taps = in_parts(products.form.view, 4, conv.across().kernel);
    lowering.elementwise(Opcode::Mul,
                         {&lowering.keep(windows.seen_as(of_tile(windows.form.view, tile, 0, 1))), &weights},
                         lowering.keep(products.seen_as(taps)));
    const Value& to = lowering.keep(sums.seen_as(unsqueezed(of_tile(sums.form.view, tile, 0, 1), 4)));
    Use from = aligned(products, 6);
    from.named = {4};
    lowering.writer().emit({.opcode = Opcode::Sum, .extent = size, .operands = {from, aligned(to, 6)}, .reduced = 4});
  }
  return sums;
}

// ---- both -----------------------------------------------------------------------------------------------------------

// [N, G, results, H, W]
const Value& convolved_by_groups(Lowering& lowering, const Value& images, const Value& weight,
                                 const Convolution& conv) {
  const Value& grouped = by_groups(lowering, images, 1, conv.channels);  // [N, G, C, H, W]
  const Value& product = product_of_windows(lowering, grouped, weight, conv);
  if (lowering.inputs() == 3) {
    const Value& bias = by_groups(lowering, lowering.materialised(lowering.input(2)), 0, conv.results);  // [G, results]
    DeviceView view = bias.form.view;
    for (unsigned i = 0; i < 3; ++i) view = unsqueezed(view, 1);
    lowering.elementwise(Opcode::Add, {&product, &lowering.keep(bias.seen_as(view))}, product);
  }
  return lowering.keep(product.seen_as(permuted(product.form.view, {1, 0, 4, 2, 3})));
}

const Value& convolved_by_channel(Lowering& lowering, const Value& images, const Value& weight,
                                  const Convolution& conv) {
  const Value& one_group = lowering.keep(images.seen_as(unsqueezed(images.form.view, 1)));  // [N, 1, C, H, W]
  const Value& sums = sums_of_windows(lowering, one_group, weight, conv);
  if (lowering.inputs() == 3) {
    const Value& bias = by_groups(lowering, lowering.materialised(lowering.input(2)), 0, conv.results);
    const Value& by_lane = lowering.keep(bias.seen_as(transposed(bias.form.view, 0, 1)));  // [results, C]
    lowering.elementwise(Opcode::Add, {&sums, &by_lane}, sums);
  }
  return lowering.keep(sums.seen_as(permuted(sums.form.view, {0, 4, 3, 1, 2})));
}

// [N, G, results, H, W] into [N, G · results, H, W]
void store_by_groups(Lowering& lowering, const Value& result, const Value& out, const Convolution& conv) {
  const DeviceView view = in_parts(out.form.view, 1, conv.results);
  if (stick_access(out.form.base, out.form.layout, view)) {
    return lowering.store(result, lowering.keep(out.seen_as(view)));
  }
  const Value& rows = lowering.temporary(out.size(), out.form.base.dtype, out.form.layout.device_dtype, 3);
  lowering.store(result, lowering.keep(rows.seen_as(in_parts(rows.form.view, 1, conv.results))));
  lowering.store(rows, out);
}

}  // namespace

void lower_convolution(Lowering& lowering) {
  const Value& images = convolved_images(lowering);
  const Convolution conv = convolution_of(lowering, images);
  Sizes size{conv.images, conv.groups * conv.results, conv.height, conv.width};
  const TensorForm& form = lowering.input(0).form;
  if (conv.images == 0) return void(lowering.output(size, form.base.dtype, form.layout.device_dtype));
  const Value& weight = lowering.materialised(lowering.input(1));
  const Value& result = conv.groups > 1 && conv.channels == 1 ? convolved_by_channel(lowering, images, weight, conv)
                                                              : convolved_by_groups(lowering, images, weight, conv);
  const bool batch = lowering.input(0).rank() == 4;
  if (!batch) size.erase(size.begin());
  const Value& out = lowering.output(size, form.base.dtype, form.layout.device_dtype);
  store_by_groups(lowering, result, batch ? out : lowering.keep(out.seen_as(unsqueezed(out.form.view, 0))), conv);
}

}  // namespace svp::ops
