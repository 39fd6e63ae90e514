// SPDX-License-Identifier: Apache-2.0
// Operations on tensors, executed by the card's engine (docs/operations.md). Each call makes the device program of its
// operation the first time that it meets these shapes, layouts and types, keeps it on the card, and launches it: it
// returns at once, and the result is there when the stream has come so far. Names and meaning are PyTorch's.
//
//   auto y = spyre::ops::softmax(*context, spyre::ops::matmul(*context, a, b));
//
// Tensors: float16, bfloat16 and bool, which are DL16 on the card, and float32 as DL16 or FP32, in any layout; views
// without a copy where whole sticks allow it, others through a copy on the card (Options::allow_copies). Shapes are
// repeated as in PyTorch; tensors without dimensions and tensors without elements are tensors as any other. A result is
// a new tensor, row-major in default layout, unless Options::out says where it goes; its type is PyTorch's, and what
// PyTorch refuses of types is refused. How exact each operation is: docs/numerics.md, operations().
//
// All throw InvalidArgument naming what does not fit ("inputs", "numbers", "shape", "dtype", "dim", …; an argument too
// many is one), OutOfMemory, and what SpyreStream::Launch throws; nothing was launched then. Thread-safe as SpyreStream
// is.
#pragma once

#include <spyre/export.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <spyre/context.hpp>
#include <spyre/stream.hpp>
#include <spyre/tensor.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace spyre::inline v0::ops {

struct Options {
  std::optional<SpyreStream> stream{};  // of this context; empty: its default stream
  // The result's memory: a tensor or view of the result's shape; its type may be another one, into which the card
  // converts, but not bool for a number, nor an integer for a floating-point number (copy() converts them). May be an
  // input of an element-wise operation. Not of topk, which has two results.
  std::optional<SpyreTensor> out{};
  std::uint64_t core_mask = 0;  // LaunchOptions::core_mask
  // A view that the card can not walk, an `out` that shares sticks with other elements, and a part of cat() that ends
  // inside of a stick are copied on the card. false: they throw CopyNeeded.
  bool allow_copies = true;
};

// One row of the table of operations.
struct Operation {
  std::string name;
  unsigned tensors = 0;   // inputs, or the most of them
  std::string arguments;  // numbers that it takes, in order, with their defaults
  bool fp32 = false;      // also on FP32 tensors
  std::string error;      // the bound of a DL16 result
};
SPYRE_API std::vector<Operation> operations();

// Any operation by its name: numbers and integers as Operation::arguments says. One result; two of topk.
SPYRE_API std::vector<SpyreTensor> run(Context& context, std::string_view name, std::span<const SpyreTensor> tensors,
                                       std::span<const double> numbers = {},
                                       std::span<const std::int64_t> integers = {}, const Options& options = {});

namespace detail {
inline SpyreTensor one(Context& context, const char* name, std::initializer_list<SpyreTensor> tensors,
                       std::initializer_list<double> numbers, std::span<const std::int64_t> integers,
                       const Options& options) {
  return run(context, name, {tensors.begin(), tensors.size()}, {numbers.begin(), numbers.size()}, integers, options)
      .front();
}
}  // namespace detail

// The elements in another layout, type or place: Options::out says which.
inline SpyreTensor copy(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "copy", {x}, {}, {}, o);
}

// ---- two tensors, or a tensor and a number (a floating-point one: with a bool tensor it makes a float32 tensor). A
// number that DL16 has not, as infinity or 1e10, is computed with in FP32.
inline SpyreTensor add(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "add", {a, b}, {}, {}, o);
}
inline SpyreTensor add(Context& c, const SpyreTensor& a, double b, const Options& o = {}) {
  return detail::one(c, "add", {a}, {b}, {}, o);
}
inline SpyreTensor sub(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "sub", {a, b}, {}, {}, o);
}
inline SpyreTensor sub(Context& c, const SpyreTensor& a, double b, const Options& o = {}) {
  return detail::one(c, "sub", {a}, {b}, {}, o);
}
inline SpyreTensor mul(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "mul", {a, b}, {}, {}, o);
}
inline SpyreTensor mul(Context& c, const SpyreTensor& a, double b, const Options& o = {}) {
  return detail::one(c, "mul", {a}, {b}, {}, o);
}
inline SpyreTensor div(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "div", {a, b}, {}, {}, o);
}
inline SpyreTensor div(Context& c, const SpyreTensor& a, double b, const Options& o = {}) {
  return detail::one(c, "div", {a}, {b}, {}, o);
}
inline SpyreTensor maximum(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "maximum", {a, b}, {}, {}, o);
}
inline SpyreTensor minimum(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "minimum", {a, b}, {}, {}, o);
}
// Results of comparisons are bool tensors.
inline SpyreTensor equal(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "equal", {a, b}, {}, {}, o);
}
inline SpyreTensor not_equal(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "not_equal", {a, b}, {}, {}, o);
}
inline SpyreTensor greater(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "greater", {a, b}, {}, {}, o);
}
inline SpyreTensor greater_equal(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "greater_equal", {a, b}, {}, {}, o);
}
inline SpyreTensor less(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "less", {a, b}, {}, {}, o);
}
inline SpyreTensor less_equal(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "less_equal", {a, b}, {}, {}, o);
}
inline SpyreTensor where(Context& c, const SpyreTensor& condition, const SpyreTensor& a, const SpyreTensor& b,
                         const Options& o = {}) {
  return detail::one(c, "where", {condition, a, b}, {}, {}, o);
}

// ---- one tensor
inline SpyreTensor abs(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "abs", {x}, {}, {}, o);
}
inline SpyreTensor neg(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "neg", {x}, {}, {}, o);
}
inline SpyreTensor relu(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "relu", {x}, {}, {}, o);
}
// An infinite bound is none.
inline SpyreTensor clip(Context& c, const SpyreTensor& x, double low, double high, const Options& o = {}) {
  return detail::one(c, "clip", {x}, {low, high}, {}, o);
}
inline SpyreTensor floor(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "floor", {x}, {}, {}, o);
}
inline SpyreTensor exp(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "exp", {x}, {}, {}, o);
}
inline SpyreTensor log(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "log", {x}, {}, {}, o);
}
inline SpyreTensor sqrt(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "sqrt", {x}, {}, {}, o);
}
inline SpyreTensor rsqrt(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "rsqrt", {x}, {}, {}, o);
}
inline SpyreTensor reciprocal(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "reciprocal", {x}, {}, {}, o);
}
inline SpyreTensor sigmoid(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "sigmoid", {x}, {}, {}, o);
}
inline SpyreTensor tanh(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "tanh", {x}, {}, {}, o);
}
inline SpyreTensor silu(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "silu", {x}, {}, {}, o);
}
// The tanh form.
inline SpyreTensor gelu(Context& c, const SpyreTensor& x, const Options& o = {}) {
  return detail::one(c, "gelu", {x}, {}, {}, o);
}
inline SpyreTensor softplus(Context& c, const SpyreTensor& x, double beta = 1, double threshold = 20,
                            const Options& o = {}) {
  return detail::one(c, "softplus", {x}, {beta, threshold}, {}, o);
}

// ---- along dimensions. No dimensions: all of them. sum and prod of bool tensors are int64, of 2^24 elements at most.
namespace detail {
inline SpyreTensor reduction(Context& c, const char* name, const SpyreTensor& x, std::span<const std::int64_t> dims,
                             bool keepdim, const Options& o) {
  std::vector<std::int64_t> integers{keepdim ? 1 : 0};
  integers.insert(integers.end(), dims.begin(), dims.end());
  return one(c, name, {x}, {}, integers, o);
}
}  // namespace detail
inline SpyreTensor sum(Context& c, const SpyreTensor& x, std::initializer_list<std::int64_t> dims = {},
                       bool keepdim = false, const Options& o = {}) {
  return detail::reduction(c, "sum", x, {dims.begin(), dims.size()}, keepdim, o);
}
inline SpyreTensor mean(Context& c, const SpyreTensor& x, std::initializer_list<std::int64_t> dims = {},
                        bool keepdim = false, const Options& o = {}) {
  return detail::reduction(c, "mean", x, {dims.begin(), dims.size()}, keepdim, o);
}
inline SpyreTensor max(Context& c, const SpyreTensor& x, std::initializer_list<std::int64_t> dims = {},
                       bool keepdim = false, const Options& o = {}) {
  return detail::reduction(c, "max", x, {dims.begin(), dims.size()}, keepdim, o);
}
inline SpyreTensor min(Context& c, const SpyreTensor& x, std::initializer_list<std::int64_t> dims = {},
                       bool keepdim = false, const Options& o = {}) {
  return detail::reduction(c, "min", x, {dims.begin(), dims.size()}, keepdim, o);
}
inline SpyreTensor prod(Context& c, const SpyreTensor& x, std::initializer_list<std::int64_t> dims = {},
                        bool keepdim = false, const Options& o = {}) {
  return detail::reduction(c, "prod", x, {dims.begin(), dims.size()}, keepdim, o);
}
struct TopK {
  SpyreTensor values;
  SpyreTensor indices;
};
// What the positions that topk finds are: int64 or int32, which `embedding` and `index_copy` take; or numbers of the
// tensor's own type, for dimensions whose positions that type holds exactly (float16 and bfloat16: 1025 elements).
enum class TopKIndices : std::uint8_t { Int64, Int32, OfTensor };
// The k largest (0 to 128), largest first; equal ones in the order of their positions. A NaN is the largest. Two
// results: no Options::out.
inline TopK topk(Context& c, const SpyreTensor& x, std::int64_t k, std::int64_t dim = -1, const Options& o = {},
                 TopKIndices type = TopKIndices::Int64) {
  const SpyreTensor tensors[] = {x};
  const std::int64_t integers[] = {k, dim, static_cast<std::int64_t>(type)};
  std::vector<SpyreTensor> results = run(c, "topk", tensors, {}, integers, o);
  return {results[0], results[1]};
}

// ---- matrix products, of DL16 tensors
// [..., M, K] x [..., K, N]; vectors and repeated dimensions as in PyTorch.
inline SpyreTensor matmul(Context& c, const SpyreTensor& a, const SpyreTensor& b, const Options& o = {}) {
  return detail::one(c, "matmul", {a, b}, {}, {}, o);
}
// x · weightᵀ + bias. A weight [N, K] with dim_order {1, 0} needs no copy: its first dimension lies in sticks.
inline SpyreTensor linear(Context& c, const SpyreTensor& x, const SpyreTensor& weight, const Options& o = {}) {
  return detail::one(c, "linear", {x, weight}, {}, {}, o);
}
inline SpyreTensor linear(Context& c, const SpyreTensor& x, const SpyreTensor& weight, const SpyreTensor& bias,
                          const Options& o = {}) {
  return detail::one(c, "linear", {x, weight, bias}, {}, {}, o);
}
// The same with x / scale_x and weight / scale_weight rounded to FP8_E4M3 (magnitudes above 448 become 448, as in
// PyTorch: the scales keep them below), products summed as matmul, times both scales, plus bias.
struct Fp8Scales {
  double x = 1;
  double weight = 1;
};
inline SpyreTensor linear_fp8(Context& c, const SpyreTensor& x, const SpyreTensor& weight, const Fp8Scales& s = {},
                              const Options& o = {}) {
  return detail::one(c, "linear_fp8", {x, weight}, {s.x, s.weight}, {}, o);
}
inline SpyreTensor linear_fp8(Context& c, const SpyreTensor& x, const SpyreTensor& weight, const SpyreTensor& bias,
                              const Fp8Scales& s = {}, const Options& o = {}) {
  return detail::one(c, "linear_fp8", {x, weight, bias}, {s.x, s.weight}, {}, o);
}
// softmax(scale · q kᵀ) v over the last two dimensions. scale 0: 1 / √E.
// Heads are the third dimension from the end. k and v may have fewer of them than q, in a number that divides those of
// q (PyTorch's enable_gqa): each serves as many neighbouring heads of q.
// causal: query i sees the keys up to i + (keys − queries), so that the last query sees all of them (PyTorch's
// causal_lower_right; its is_causal=True begins at the first key instead, which differs when there are more keys than
// queries, or fewer). A query that sees no key gives 0.
inline SpyreTensor attention(Context& c, const SpyreTensor& q, const SpyreTensor& k, const SpyreTensor& v,
                             bool causal = false, double scale = 0, const Options& o = {}) {
  const std::int64_t integers[] = {causal ? 1 : 0};
  if (scale == 0) return detail::one(c, "attention", {q, k, v}, {}, integers, o);
  return detail::one(c, "attention", {q, k, v}, {scale}, integers, o);
}

// ---- norms
inline SpyreTensor softmax(Context& c, const SpyreTensor& x, std::int64_t dim = -1, const Options& o = {}) {
  const std::int64_t integers[] = {dim};
  return detail::one(c, "softmax", {x}, {}, integers, o);
}
// Over the last dimension.
inline SpyreTensor layer_norm(Context& c, const SpyreTensor& x, double eps = 1e-5, const Options& o = {}) {
  return detail::one(c, "layer_norm", {x}, {eps}, {}, o);
}
inline SpyreTensor layer_norm(Context& c, const SpyreTensor& x, const SpyreTensor& weight, const SpyreTensor& bias,
                              double eps = 1e-5, const Options& o = {}) {
  return detail::one(c, "layer_norm", {x, weight, bias}, {eps}, {}, o);
}
inline SpyreTensor rms_norm(Context& c, const SpyreTensor& x, double eps = 1e-5, const Options& o = {}) {
  return detail::one(c, "rms_norm", {x}, {eps}, {}, o);
}
inline SpyreTensor rms_norm(Context& c, const SpyreTensor& x, const SpyreTensor& weight, double eps = 1e-5,
                            const Options& o = {}) {
  return detail::one(c, "rms_norm", {x, weight}, {eps}, {}, o);
}

// ---- rows and parts
// Rows of table [rows, width] by an int32 or int64 tensor. An index outside ends the launch with a fault.
inline SpyreTensor embedding(Context& c, const SpyreTensor& table, const SpyreTensor& index, const Options& o = {}) {
  return detail::one(c, "embedding", {table, index}, {}, {}, o);
}
// out[index[i…], :] = rows[i…, :], for Options::out [rows, width]; its other rows stay as they are.
inline SpyreTensor index_copy(Context& c, const SpyreTensor& out, const SpyreTensor& index, const SpyreTensor& rows,
                              Options o = {}) {
  o.out = out;
  return detail::one(c, "index_copy", {index, rows}, {}, {}, o);
}
// At most 29 tensors. Those without elements are left out; of shape [0] whatever the shape of the others.
inline SpyreTensor cat(Context& c, std::span<const SpyreTensor> tensors, std::int64_t dim = 0, const Options& o = {}) {
  const std::int64_t integers[] = {dim};
  return run(c, "cat", tensors, {}, integers, o).front();
}

// ---- windows over images [N, C, H, W] or [C, H, W]; torch.nn.functional's names and defaults
// Of height and width: one number is both.
struct Size2d {
  std::int64_t height = 0;
  std::int64_t width = 0;
  constexpr Size2d(std::int64_t both)
      : height(both), width(both) {}  // NOLINT(google-explicit-constructor): 3 is {3, 3}
  constexpr Size2d(std::int64_t h, std::int64_t w) : height(h), width(w) {}
};

struct AvgPool2d {
  std::optional<Size2d> stride{};  // empty: the kernel's size
  Size2d padding = 0;              // at most half of the kernel
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;  // 0: the elements of the window
};
inline SpyreTensor avg_pool2d(Context& c, const SpyreTensor& x, Size2d kernel_size, const AvgPool2d& p = {},
                              const Options& o = {}) {
  const Size2d stride = p.stride.value_or(kernel_size);
  const std::int64_t integers[] = {
      kernel_size.height, kernel_size.width, stride.height,       stride.width,
      p.padding.height,   p.padding.width,   p.ceil_mode ? 1 : 0, p.count_include_pad ? 1 : 0,
      p.divisor_override};
  return detail::one(c, "avg_pool2d", {x}, {}, integers, o);
}

struct MaxPool2d {
  std::optional<Size2d> stride{};  // empty: the kernel's size
  Size2d padding = 0;              // at most half of the kernel
  Size2d dilation = 1;
  bool ceil_mode = false;
};
inline SpyreTensor max_pool2d(Context& c, const SpyreTensor& x, Size2d kernel_size, const MaxPool2d& p = {},
                              const Options& o = {}) {
  const Size2d stride = p.stride.value_or(kernel_size);
  const std::int64_t integers[] = {kernel_size.height, kernel_size.width, stride.height,
                                   stride.width,       p.padding.height,  p.padding.width,
                                   p.dilation.height,  p.dilation.width,  p.ceil_mode ? 1 : 0};
  return detail::one(c, "max_pool2d", {x}, {}, integers, o);
}

struct Conv2d {
  Size2d stride = 1;
  Size2d padding = 0;  // zeros
  Size2d dilation = 1;
  std::int64_t groups = 1;
};
namespace detail {
inline SpyreTensor convolution(Context& c, std::initializer_list<SpyreTensor> tensors, const Conv2d& p,
                               const Options& o) {
  const std::int64_t integers[] = {p.stride.height,   p.stride.width,   p.padding.height, p.padding.width,
                                   p.dilation.height, p.dilation.width, p.groups};
  return one(c, "conv2d", tensors, {}, integers, o);
}
}  // namespace detail
// Of DL16 tensors. weight [out channels, channels / groups, height, width]; bias [out channels].
inline SpyreTensor conv2d(Context& c, const SpyreTensor& x, const SpyreTensor& weight, const Conv2d& p = {},
                          const Options& o = {}) {
  return detail::convolution(c, {x, weight}, p, o);
}
inline SpyreTensor conv2d(Context& c, const SpyreTensor& x, const SpyreTensor& weight, const SpyreTensor& bias,
                          const Conv2d& p = {}, const Options& o = {}) {
  return detail::convolution(c, {x, weight, bias}, p, o);
}

}  // namespace spyre::inline v0::ops
