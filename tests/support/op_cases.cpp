// SPDX-License-Identifier: Apache-2.0
#include "tests/support/op_cases.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "host_driver/ops/comparison.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace svp::test {
namespace {

using ops::Array;
using ops::Op;
using ops::TensorForm;
using Dims = std::vector<std::int64_t>;

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int64_t below(Random& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
}

// ---- what a case is made of -----------------------------------------------------------------------------------------

constexpr std::int64_t kExtents[] = {1, 2, 3, 5, 16, 33, 63, 64, 65, 100, 128, 130, 200};

struct Maker {
  Random& random;
  std::int64_t limit;
  DeviceType device;
  DataType dtype;
  bool empties = false;  // shapes may have no elements

  std::int64_t extent() { return kExtents[below(random, std::size(kExtents))]; }
  Dims shape(std::size_t rank) {
    Dims size;
    std::int64_t left = limit;
    for (std::size_t d = 0; d < rank; ++d) {
      size.push_back(std::clamp<std::int64_t>(extent(), 1, std::max<std::int64_t>(left, 1)));
      left /= size.back();
    }
    std::ranges::shuffle(size, random);
    if (empties && rank != 0 && below(random, 12) == 0) size[place(below(random, static_cast<std::int64_t>(rank)))] = 0;
    return size;
  }
  // An extent that may be none.
  std::int64_t extent_or_none() { return below(random, 16) == 0 ? 0 : extent(); }
  // A tensor of this size: of its own, or a view that needs no copy; in any order on the card.
  TensorForm form(const Dims& size) {
    Dims base = size;
    Dims start(size.size(), 0);
    const bool narrow = below(random, 3) == 0;
    for (std::size_t d = 0; narrow && d < size.size(); ++d) {
      if (size[d] % 64 != 0 && d + 1 == size.size()) continue;  // the end of a stick is the end of the tensor
      base[d] += 64 * below(random, 2);
      start[d] = base[d] == size[d] ? 0 : 64 * below(random, 2);
    }
    Dims order(base.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::size_t> axes(base.size());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    if (below(random, 3) == 0) std::ranges::shuffle(axes, random);  // the tensor is a permutation of the view
    Dims stored;
    for (const std::size_t axis : axes) stored.push_back(base[axis]);
    if (below(random, 3) == 0) std::ranges::shuffle(order, random);
    TensorForm result = TensorForm::dense(dtype, stored, device, order.empty() ? std::nullopt : std::optional(order));
    Dims back(axes.size());
    for (std::size_t d = 0; d < axes.size(); ++d) back[axes[d]] = static_cast<std::int64_t>(d);
    DeviceView view = permuted(result.view, back);
    for (std::size_t d = 0; d < size.size(); ++d)
      view = narrowed(view, static_cast<std::int64_t>(d), start[d], size[d]);
    result.view = view;
    if (!result.has_elements()) return result;
    if (!stick_access(result.base, result.layout, result.view)) return TensorForm::dense(dtype, size, device);
    return result;
  }
  Dims repeated_somewhere(const Dims& size) {
    Dims part = size;
    for (std::int64_t& extent : part) extent = below(random, 4) == 0 ? 1 : extent;
    part.erase(part.begin(), part.begin() + below(random, static_cast<std::int64_t>(part.size()) + 1) / 2);
    return part;
  }
  Array values(const Dims& size, double scale, double shift = 0) {
    std::normal_distribution<double> normal(shift, scale);
    Array array = Array::of(size);
    for (double& x : array.data) x = ops::rounded_to(device, normal(random));
    return array;
  }
};

void add_input(OpCase& made, std::vector<Array>& arrays, const TensorForm& form, Array array) {
  made.inputs.push_back(ops::device_bytes(form, array));
  made.request.inputs.push_back(form);
  arrays.push_back(std::move(array));
}

// Infinite ones, ones beyond all numbers of DL16, and ones in the wrong order are bounds, too.
std::vector<double> any_bounds(Random& random) {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kLow[] = {-1, 0, -kInfinity, -1e10, 2, 1e-12, -1e39, 1e10};
  static constexpr double kHigh[] = {1.5, 0.25, kInfinity, 1e10, -0.5, 1e39, -1e10};
  return {kLow[below(random, std::size(kLow))], kHigh[below(random, std::size(kHigh))]};
}

// A number in the place of a tensor: one that DL16 holds, or one that it has not.
double any_number(Random& random, DeviceType device) {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kBeyond[] = {1e10, -1e10, 1e12, kInfinity, -kInfinity, 0x1p-32, 0x1p-40};
  if (below(random, 3) == 0) return static_cast<double>(static_cast<float>(kBeyond[below(random, std::size(kBeyond))]));
  return ops::rounded_to(device, 1.5 + static_cast<double>(below(random, 5)));
}

void make_elementwise(Op op, Maker& make, OpCase& made, std::vector<Array>& arrays) {
  const ops::OpInfo& info = ops::info_of(op);
  const Dims size = make.shape(place(below(make.random, 5)));
  const bool positive = op == Op::Log || op == Op::Sqrt || op == Op::Rsqrt;
  for (unsigned i = 0; i < info.tensors; ++i) {
    // Numbers are the last operands.
    const bool number =
        i != 0 && (i + 1 == info.tensors || !made.request.scalars.empty()) && below(make.random, 4) == 0;
    if (number) {
      made.request.scalars.push_back(any_number(make.random, make.device));
      continue;
    }
    const Dims part = i == 0 ? size : make.repeated_somewhere(size);
    Array array = make.values(part, 2);
    for (double& x : array.data) {
      if (positive) x = std::fabs(x) + 0.5;
      if (info.family == ops::Family::Comparison || (op == Op::Where && i == 0)) x = std::round(x);
      x = ops::rounded_to(make.device, x);
    }
    add_input(made, arrays, make.form(part), std::move(array));
  }
  if (op == Op::Clip) made.request.scalars = any_bounds(make.random);
  if (op == Op::Softplus && below(make.random, 4) != 0) {
    static constexpr double kBetas[] = {0.5, 2, 50, 0.125, -1};
    static constexpr double kThresholds[] = {20, 5, 0, 1e6};
    made.request.scalars = {kBetas[below(make.random, 5)], kThresholds[below(make.random, 4)]};
  }
}

void make_reduction(Op op, Maker& make, OpCase& made, std::vector<Array>& arrays) {
  const Dims size = make.shape(place(below(make.random, 5)));
  add_input(made, arrays, make.form(size), make.values(size, op == Op::Prod ? 0.1 : 2, op == Op::Prod ? 1 : 0));
  const auto rank = std::max<std::int64_t>(static_cast<std::int64_t>(size.size()), 1);  // a scalar has one to name
  if (op == Op::TopK) {
    const std::int64_t dim = below(make.random, rank);
    const std::int64_t extent = size.empty() ? 1 : size[place(dim)];
    made.request.integers = {1 + below(make.random, std::min<std::int64_t>(extent, 9)), dim - rank,
                             below(make.random, extent <= 1025 || make.device == DeviceType::Fp32 ? 3 : 2)};
    return;
  }
  made.request.integers = {below(make.random, 2)};
  if (op == Op::Prod || below(make.random, 4) != 0) made.request.integers.push_back(below(make.random, rank));
}

void make_product(Op op, Maker& make, OpCase& made, std::vector<Array>& arrays) {
  const std::int64_t m = make.extent_or_none();
  const std::int64_t n = make.extent_or_none();
  const std::int64_t k = op == Op::Attention ? make.extent() : make.extent_or_none();
  const bool linear = op == Op::Linear || op == Op::LinearFp8;
  Dims batch = linear ? Dims{} : Dims(place(below(make.random, 3)), 2);
  const auto with = [&batch](std::int64_t rows, std::int64_t columns) {
    Dims size = batch;
    size.push_back(rows);
    size.push_back(columns);
    return size;
  };
  std::vector<Dims> sizes{with(m, k), with(k, n)};
  if (linear) sizes = {with(m, k), {n, k}, {n}};
  if (op == Op::LinearFp8) {
    if (below(make.random, 2) == 0) sizes.pop_back();
    if (below(make.random, 3) == 0) sizes[0].erase(sizes[0].begin());
    // Powers of two: the divisions are exact.
    if (below(make.random, 2) == 0) made.request.scalars = {0x1p-5, below(make.random, 2) == 0 ? 0x1p-6 : 0x1p5};
  }
  if (op == Op::Attention) sizes = {with(m, k), with(n, k), with(n, 40)};
  if (op == Op::MatMul && !batch.empty() && below(make.random, 2) == 0) sizes[1].erase(sizes[1].begin());
  // Several heads of the queries for each of the keys and values.
  if (op == Op::Attention && !batch.empty()) sizes[0][batch.size() - 1] *= 1 + below(make.random, 3);
  for (const Dims& size : sizes) add_input(made, arrays, make.form(size), make.values(size, 1));
  if (op == Op::Attention) made.request.integers = {below(make.random, 2)};
}

void make_norm(Op op, Maker& make, OpCase& made, std::vector<Array>& arrays) {
  const Dims size = make.shape(place(op == Op::Softmax ? below(make.random, 5) : 1 + below(make.random, 4)));
  // Squares that DL16 does not have must not matter to rms_norm.
  static constexpr double kScales[] = {2, 0x1p20, 0x1p-16};
  const double scale = op == Op::RmsNorm ? kScales[below(make.random, std::size(kScales))] : 2;
  add_input(made, arrays, make.form(size), make.values(size, scale, scale / 4));
  if (op == Op::Softmax) {
    made.request.integers = {size.empty() ? -1 : below(make.random, static_cast<std::int64_t>(size.size()))};
  }
  const std::int64_t parameters = op == Op::Softmax ? 0 : below(make.random, op == Op::LayerNorm ? 3 : 2);
  for (std::int64_t i = 0; i < parameters; ++i) {
    add_input(made, arrays, make.form({size.back()}), make.values({size.back()}, 1, 1));
  }
  if (op == Op::LayerNorm) made.request.scalars = {0.5};
  if (op == Op::RmsNorm && below(make.random, 2) == 0) made.request.scalars = {below(make.random, 2) == 0 ? 0.5 : 1e-9};
}

// Rows of a tensor are replaced.
void make_index_copy(Maker& make, OpCase& made) {
  const std::int64_t rows = 2 + below(make.random, 60);
  const std::int64_t width = make.extent();
  std::vector<std::int64_t> all(place(rows));
  std::iota(all.begin(), all.end(), 0);
  std::ranges::shuffle(all, make.random);
  all.resize(place(1 + below(make.random, rows)));
  const auto count = static_cast<std::int64_t>(all.size());
  Array index{.size = {count}, .data = {all.begin(), all.end()}};
  const Array from = make.values({count, width}, 2);
  Array to = make.values({rows, width}, 2);
  made.request.out = TensorForm::dense(make.dtype, {rows, width}, make.device);
  made.out = ops::device_bytes(*made.request.out, to);
  for (std::int64_t i = 0; i < count * width; ++i) {
    to.data[place(all[place(i / width)] * width + i % width)] = from.data[place(i)];
  }
  std::vector<Array> arrays;
  add_input(made, arrays, TensorForm::dense(DataType::Int32, {count}, DeviceType::Int32), std::move(index));
  add_input(made, arrays, make.form({count, width}), from);
  made.expected = {std::move(to)};
}

void make_movement(Op op, Maker& make, OpCase& made, std::vector<Array>& arrays) {
  Dims size = make.shape(place(op == Op::Copy ? below(make.random, 5) : 1 + below(make.random, 4)));
  if (op == Op::Copy) {
    add_input(made, arrays, make.form(size), make.values(size, 2));
    TensorForm out = make.form(size);
    if (!out.has_elements() || stick_access(out.base, out.layout, out.view)->whole_sticks) made.request.out = out;
    return;
  }
  if (op == Op::Cat) {
    const std::int64_t dim = below(make.random, static_cast<std::int64_t>(size.size()));
    const bool many = below(make.random, 16) == 0;
    for (std::int64_t i = 1 + below(make.random, many ? 40 : 4); i > 0; --i) {
      size[place(dim)] = below(make.random, size.size() > 1 ? 7 : 150);
      const bool none = below(make.random, 8) == 0;  // is no part, whatever the others are
      const Dims part = none ? Dims{0} : size;
      add_input(made, arrays, make.form(part), make.values(part, 2));
    }
    const bool all_none = std::ranges::all_of(arrays, [](const Array& array) { return array.size == Dims{0}; });
    if (all_none) add_input(made, arrays, make.form(size), make.values(size, 2));
    made.request.integers = {dim};
    return;
  }
  const std::int64_t rows = 2 + below(make.random, 100);
  const std::int64_t width = make.extent();
  add_input(made, arrays, make.form({rows, width}), make.values({rows, width}, 2));
  Dims index_size = make.shape(place(below(make.random, 3)));
  for (std::int64_t& extent : index_size) extent = std::min<std::int64_t>(extent, 20);
  Array index = Array::of(index_size);
  for (double& i : index.data) i = static_cast<double>(below(make.random, rows));
  add_input(made, arrays, TensorForm::dense(DataType::Int32, index_size, DeviceType::Int32), std::move(index));
}

// ---- windows --------------------------------------------------------------------------------------------------------

std::int64_t span_of(std::int64_t kernel, std::int64_t dilation) { return (kernel - 1) * dilation + 1; }

// What along one dimension windows are: a kernel that fits `extent` with its padding, larger and smaller strides.
struct AnyAxis {
  std::int64_t kernel, stride, padding, dilation;
};
AnyAxis any_axis(Random& random, std::int64_t extent, bool dilates, bool half_padding) {
  AnyAxis axis{1 + below(random, 4), 1 + below(random, 5), 0, dilates && below(random, 3) == 0 ? 2 : 1};
  const std::int64_t span = span_of(axis.kernel, axis.dilation);
  if (below(random, 2) == 0) axis.padding = below(random, half_padding ? axis.kernel / 2 + 1 : 4);
  if (extent + 2 * axis.padding < span) return {1, axis.stride, 0, 1};
  // A window between the elements of the image has nothing to choose from.
  if (half_padding && axis.dilation >= extent) return {1, axis.stride, 0, 1};
  return axis;
}

void make_pool(Op op, Maker& make, OpCase& made, std::vector<Array>& arrays) {
  Random& random = make.random;
  Dims size{1 + below(random, 3), make.extent(), 1 + below(random, 12), 1 + below(random, 12)};
  if (below(random, 8) == 0) size[3] = 70;
  if (below(random, 4) == 0) size.erase(size.begin());
  const bool largest = op == Op::MaxPool2d;
  const AnyAxis down = any_axis(random, size[size.size() - 2], largest, true);
  const AnyAxis across = any_axis(random, size.back(), largest, true);
  const bool as_kernel = below(random, 4) == 0;  // strides are those of the kernel
  Dims& integers = made.request.integers;
  integers = {down.kernel, across.kernel};
  if (as_kernel) integers.insert(integers.end(), {0, 0});
  if (!as_kernel) integers.insert(integers.end(), {down.stride, across.stride});
  integers.insert(integers.end(), {down.padding, across.padding});
  if (largest) integers.insert(integers.end(), {down.dilation, across.dilation});
  if (below(random, 2) == 0) integers.push_back(below(random, 2));  // ceil_mode
  if (!largest && integers.size() == 7 && below(random, 2) == 0) {
    integers.push_back(below(random, 2));  // count_include_pad
    if (below(random, 2) == 0) integers.push_back(below(random, 2) == 0 ? 7 : -3);
  }
  add_input(made, arrays, make.form(size), make.values(size, 2));
}

void make_convolution(Maker& make, OpCase& made, std::vector<Array>& arrays) {
  Random& random = make.random;
  static constexpr std::int64_t kChannels[] = {1, 2, 3, 16, 33, 64, 65, 70};
  const auto few = [&random] { return kChannels[below(random, std::size(kChannels))]; };
  Dims image{1 + below(random, 2), few(), 1 + below(random, 9), 1 + below(random, 9)};
  Dims weight{few(), image[1], 0, 0};
  std::int64_t groups = 1;
  switch (below(random, 3)) {
    case 0:  // one channel in each group
      groups = image[1];
      weight = {image[1] * (1 + below(random, 2)), 1, 0, 0};
      break;
    case 1:
      groups = 2 + below(random, 2);
      weight[1] = below(random, 2) == 0 ? 2 + below(random, 8) : 64 + below(random, 2);
      image[1] = groups * weight[1];
      weight[0] = groups * (1 + below(random, 70));
      break;
    default: break;
  }
  const AnyAxis down = any_axis(random, image[2], true, false);
  const AnyAxis across = any_axis(random, image[3], true, false);
  weight[2] = down.kernel;
  weight[3] = across.kernel;
  made.request.integers = {down.stride,   across.stride,   down.padding, across.padding,
                           down.dilation, across.dilation, groups};
  const bool plain = groups == 1 && down.dilation == 1 && across.dilation == 1;
  if (plain && below(random, 2) == 0) made.request.integers.resize(4);
  if (below(random, 4) == 0) image.erase(image.begin());
  std::vector<Dims> sizes{image, weight};
  if (below(random, 2) == 0) sizes.push_back({weight[0]});
  for (const Dims& size : sizes) add_input(made, arrays, make.form(size), make.values(size, 1));
}

}  // namespace

std::string OpCase::text() const {
  std::string result = ops::info_of(request.op).name;
  for (const TensorForm& form : request.inputs) {
    result += " " + to_string(form.view.size) + "/" + to_string(form.view.stride) + "+" +
              std::to_string(form.view.offset) + " of " + spyre::to_string(form.layout);
  }
  for (const double scalar : request.scalars) result += " " + std::to_string(scalar);
  result += " " + to_string(request.integers);
  return result + (request.out ? " into " + to_string(request.out->view.stride) : "");
}

OpCase random_op_case(Op op, Random& random, std::int64_t size_limit) {
  const ops::OpInfo& info = ops::info_of(op);
  const bool fp32 = info.fp32 && below(random, 3) == 0;
  Maker make{random, size_limit, fp32 ? DeviceType::Fp32 : DeviceType::Dl16,
             fp32 ? DataType::Float32 : DataType::Float16};
  make.empties = op != Op::TopK && op != Op::Max && op != Op::Min;  // they have no result along no elements
  OpCase made;
  made.request.op = op;
  std::vector<Array> arrays;
  if (op == Op::IndexCopy) {
    make_index_copy(make, made);
    return made;
  }
  switch (info.family) {
    case ops::Family::Movement: make_movement(op, make, made, arrays); break;
    case ops::Family::Reduction: make_reduction(op, make, made, arrays); break;
    case ops::Family::Product: make_product(op, make, made, arrays); break;
    case ops::Family::Norm: make_norm(op, make, made, arrays); break;
    case ops::Family::Window:
      op == Op::Conv2d ? make_convolution(make, made, arrays) : make_pool(op, make, made, arrays);
      break;
    default: make_elementwise(op, make, made, arrays); break;
  }
  made.expected = ops::reference(op, arrays, made.request.scalars, made.request.integers);
  return made;
}

std::optional<std::string> check_op_case(const OpCase& op_case, const Executor& execute) {
  const ops::Lowered lowered = ops::lower(op_case.request);
  std::vector<std::vector<std::byte>> memory = op_case.inputs;
  for (const TensorForm& form : lowered.outputs) memory.emplace_back(form.layout.device_bytes(), std::byte{0x55});
  if (!op_case.out.empty()) memory.back() = op_case.out;
  std::vector<std::span<std::byte>> arguments;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool input = i < op_case.inputs.size();
    if (is_argument(input ? op_case.request.inputs[i] : lowered.outputs[i - op_case.inputs.size()])) {
      arguments.emplace_back(memory[i]);
    }
  }
  if (!lowered.program.empty()) execute(lowered, arguments);
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    if (memory[i] != op_case.inputs[i]) return op_case.text() + ": input " + std::to_string(i) + " has changed";
  }
  if (lowered.outputs.size() != op_case.expected.size()) return op_case.text() + ": another number of results";
  for (std::size_t i = 0; i < lowered.outputs.size(); ++i) {
    const TensorForm& form = lowered.outputs[i];
    const Array got = ops::elements_of(form, memory[op_case.inputs.size() + i]);
    const auto wrong = ops::beyond_bound(op_case.request.op, form.layout.device_dtype, got, op_case.expected[i]);
    if (wrong) return op_case.text() + ": result " + std::to_string(i) + ": " + *wrong;
  }
  return std::nullopt;
}

}  // namespace svp::test
