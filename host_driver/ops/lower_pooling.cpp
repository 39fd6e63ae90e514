// SPDX-License-Identifier: Apache-2.0
// avg_pool2d and max_pool2d: a reduction along the width, then one along the height. Two dimensions of the input step
// along the same one in memory, the windows and their taps, so that nothing is copied for windows that overlap. Windows
// at the borders have fewer taps and are reduced by operations of their own: no padding is ever in memory.
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/windows.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

constexpr std::size_t kPooledRank = 4;  // [N, C, H, W]

const Value& pooled_images(Lowering& lowering) {
  const Value& x = lowering.input(0);
  if (x.rank() != kPooledRank && x.rank() + 1 != kPooledRank) {
    throw InvalidArgument("shape", "a pool of " + to_string(x.size()), "give [N, C, H, W] or [C, H, W]");
  }
  const Value& all = lowering.materialised(x);
  return x.rank() == kPooledRank ? all : lowering.keep(all.seen_as(unsqueezed(all.form.view, 0)));
}

// Windows are of rows and columns: the lanes of a stick are images or channels, whichever fill them better.
std::size_t dimension_of_lanes(const Value& images) {
  if (images.stick() == 0 || images.stick() == 1) return *images.stick();
  const std::int64_t lanes = images.form.layout.elements_per_stick();
  const auto sticks = [&](std::size_t along, std::size_t other) {
    return (images.size()[along] + lanes - 1) / lanes * images.size()[other];
  };
  return sticks(1, 0) <= sticks(0, 1) ? 1 : 0;
}

// How a window of one dimension becomes an element.
struct Pool {
  Opcode opcode;
  std::int64_t divisor;  // of all windows; 0: what WindowRun counts
};

std::vector<float> pool_constants(const Pool& pool, const WindowRun& run) {
  if (pool.opcode != Opcode::Mean) return {};
  return {1.0F / static_cast<float>(pool.divisor == 0 ? run.counted : pool.divisor)};
}

void pool_run(Lowering& lowering, const Pool& pool, const Value& from, const WindowAxis& axis, std::size_t dimension,
              const WindowRun& run, const Value& to) {
  DeviceView windows = from.form.view;
  const std::int64_t step = windows.stride[dimension];
  const auto behind = static_cast<std::ptrdiff_t>(dimension) + 1;
  windows.offset += run.first_element * step;
  windows.size[dimension] = run.windows;
  windows.stride[dimension] = step * axis.stride;
  windows.size.insert(windows.size.begin() + behind, run.taps);
  windows.stride.insert(windows.stride.begin() + behind, step * axis.dilation);
  const DeviceView place = narrowed(to.form.view, static_cast<std::int64_t>(dimension), run.first_window, run.windows);
  const Value& taps = lowering.keep(from.seen_as(windows));
  const Value& results = lowering.keep(to.seen_as(unsqueezed(place, behind)));
  Use input = aligned(taps, taps.rank());
  input.named = {dimension + 1};
  lowering.writer().emit({.opcode = pool.opcode,
                          .extent = windows.size,
                          .operands = {input, aligned(results, taps.rank())},
                          .reduced = dimension + 1,
                          .constants = pool_constants(pool, run)});
}

const Value& pooled_along(Lowering& lowering, const Pool& pool, const Value& from, const WindowArguments& arguments,
                          std::size_t dimension) {
  const WindowAxis& axis = arguments.axis[dimension - 2];
  const std::vector<WindowRun> runs = window_runs(axis, from.size()[dimension], arguments);
  std::vector<std::int64_t> size = from.size();
  size[dimension] = runs.back().first_window + runs.back().windows;
  const Value& to = lowering.temporary(size, from.form.base.dtype, from.form.layout.device_dtype, from.stick());
  for (const WindowRun& run : runs) {
    if (run.taps == 0) {
      throw InvalidArgument("padding", "a window that has no element of the image",
                            "give less padding, a smaller dilation or a larger image");
    }
    pool_run(lowering, pool, from, axis, dimension, run, to);
  }
  return to;
}

}  // namespace

void lower_pooling(Lowering& lowering) {
  const Request& request = lowering.request();
  const Value& images = pooled_images(lowering);
  const WindowArguments arguments = pool_arguments(request.op, request.integers);
  const Value* result = &lowering.with_stick(images, dimension_of_lanes(images));
  if (request.op == Op::MaxPool2d) {
    const Pool largest{.opcode = Opcode::Max, .divisor = 0};
    for (const std::size_t dimension : {3U, 2U}) {
      result = &pooled_along(lowering, largest, *result, arguments, dimension);
    }
  } else {
    // What lies between the two is FP32. A divisor of the caller's counts once.
    const bool given = arguments.divisor != 0;
    const Pool across{.opcode = given ? Opcode::Sum : Opcode::Mean, .divisor = 0};
    const Pool down{.opcode = Opcode::Mean, .divisor = arguments.divisor};
    result = &pooled_along(lowering, across, lowering.as_format(*result, DeviceType::Fp32), arguments, 3);
    result = &pooled_along(lowering, down, *result, arguments, 2);
  }
  const Value& x = lowering.input(0);
  std::vector<std::int64_t> size = result->size();
  size.erase(size.begin(), size.end() - static_cast<std::ptrdiff_t>(x.rank()));
  const Value& out = lowering.output(size, x.form.base.dtype, x.form.layout.device_dtype);
  lowering.store(*result, x.rank() == kPooledRank ? out : lowering.keep(out.seen_as(unsqueezed(out.form.view, 0))));
}

}  // namespace svp::ops
