// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/reference.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/reference_windows.hpp"
#include "host_driver/tensor/number_format.hpp"

namespace svp::ops {
namespace {

using Extents = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t place(std::int64_t index) { return static_cast<std::size_t>(index); }

std::int64_t product_of(const Extents& size) {
  return std::accumulate(size.begin(), size.end(), std::int64_t{1}, std::multiplies<>{});
}

// The element of `array` for an index of a larger shape, with repeated dimensions.
double element(const Array& array, const Extents& index) {
  std::int64_t at = 0;
  const std::size_t missing = index.size() - array.size.size();
  for (std::size_t d = 0; d < array.size.size(); ++d) {
    at = at * array.size[d] + (array.size[d] == 1 ? 0 : index[missing + d]);
  }
  return array.data[place(at)];
}

template <typename Visit>
void for_each_index_of(const Extents& size, Visit visit) {
  Extents index(size.size(), 0);
  for (std::int64_t i = 0; i < product_of(size); ++i) {
    std::int64_t rest = i;
    for (std::size_t d = size.size(); d-- > 0; rest /= size[d]) index[d] = rest % size[d];
    visit(index, place(i));
  }
}

double softplus(double x, double beta, double threshold) {
  const double scaled = beta * x;
  return scaled > threshold || scaled > 700 ? x : std::log1p(std::exp(scaled)) / beta;
}

// 1 + tanh(z) as 2 / (1 + e^(-2z)): the sum has no digits left where it is small.
double gelu(double x) {
  const double z = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * z));
}

double unary(Op op, double x, const std::vector<double>& scalars) {
  const auto scalar = [&scalars](std::size_t i, double otherwise) {
    return i < scalars.size() ? scalars[i] : otherwise;
  };
  switch (op) {
    case Op::Abs: return std::fabs(x);
    case Op::Neg: return -x;
    case Op::Relu: return std::isnan(x) ? x : std::max(x, 0.0);
    case Op::Clip: return std::isnan(x) ? x : std::min(std::max(x, scalar(0, -kInfinity)), scalar(1, kInfinity));
    case Op::Floor: return std::floor(x);
    case Op::Exp: return std::exp(x);
    case Op::Log: return std::log(x);
    case Op::Sqrt: return std::sqrt(x);
    case Op::Rsqrt: return 1 / std::sqrt(x);
    case Op::Reciprocal: return 1 / x;
    case Op::Sigmoid: return 1 / (1 + std::exp(-x));
    case Op::Tanh: return std::tanh(x);
    case Op::Silu: return x / (1 + std::exp(-x));
    case Op::Gelu: return gelu(x);
    case Op::Softplus: return softplus(x, scalar(0, 1), scalar(1, 20));
    default: return x;
  }
}

double larger(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b); }
double smaller(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b); }

double binary(Op op, double a, double b) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Maximum: return larger(a, b);
    case Op::Minimum: return smaller(a, b);
    case Op::Equal: return a == b ? 1 : 0;
    case Op::NotEqual: return a != b ? 1 : 0;
    case Op::Greater: return a > b ? 1 : 0;
    case Op::GreaterEqual: return a >= b ? 1 : 0;
    case Op::Less: return a < b ? 1 : 0;
    case Op::LessEqual: return a <= b ? 1 : 0;
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

Array elementwise_of(Op op, std::vector<Array> inputs, const std::vector<double>& scalars) {
  const unsigned operands = info_of(op).tensors;
  for (std::size_t i = 0; inputs.size() < operands; ++i) inputs.push_back({.size = {}, .data = {scalars[i]}});
  Extents size;
  for (const Array& input : inputs) size = broadcast_shape(size, input.size);
  Array out = Array::of(size);
  for_each_index_of(size, [&](const Extents& index, std::size_t i) {
    const double a = element(inputs[0], index);
    if (operands == 1) out.data[i] = unary(op, a, scalars);
    if (operands == 2) out.data[i] = binary(op, a, element(inputs[1], index));
    if (operands == 3) out.data[i] = a != 0 ? element(inputs[1], index) : element(inputs[2], index);
  });
  return out;
}

double start_of(Op op) {
  switch (op) {
    case Op::Max: return -kInfinity;
    case Op::Min: return kInfinity;
    case Op::Prod: return 1;
    default: return 0;
  }
}

double joined(Op op, double a, double b) {
  switch (op) {
    case Op::Max: return larger(a, b);
    case Op::Min: return smaller(a, b);
    case Op::Prod: return a * b;
    default: return a + b;
  }
}

Array reduced_along(Op op, const Array& input, std::size_t dim) {
  Extents size = input.size;
  size[dim] = 1;
  Array out = Array::of(size);
  std::ranges::fill(out.data, start_of(op));
  for_each_index_of(input.size, [&](const Extents& index, std::size_t i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < size.size(); ++d) at = at * size[d] + (d == dim ? 0 : index[d]);
    out.data[place(at)] = joined(op, out.data[place(at)], input.data[i]);
  });
  for (double& x : out.data) x /= op == Op::Mean ? static_cast<double>(input.size[dim]) : 1;
  return out;
}

Array reduction(Op op, const Array& input, const std::vector<std::int64_t>& integers) {
  if (input.size.empty()) return input;
  const bool keep = !integers.empty() && integers[0] != 0;
  std::vector<bool> reduced(input.size.size(), integers.size() < 2);
  for (std::size_t i = 1; i < integers.size(); ++i) reduced[dimension_of(integers[i], input.size.size())] = true;
  Array out = input;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (reduced[d]) out = reduced_along(op, out, d);
  }
  if (keep) return out;
  out.size.clear();
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (!reduced[d]) out.size.push_back(input.size[d]);
  }
  return out;
}

Array matmul_of(Array a, Array b) {
  const bool row = a.size.size() == 1;
  const bool column = b.size.size() == 1;
  if (row) a.size.insert(a.size.begin(), 1);
  if (column) b.size.push_back(1);
  const std::int64_t m = a.size[a.size.size() - 2];
  const std::int64_t k = a.size.back();
  const std::int64_t n = b.size.back();
  Extents size = broadcast_shape({a.size.begin(), a.size.end() - 2}, {b.size.begin(), b.size.end() - 2});
  const std::size_t batch = size.size();
  size.push_back(m);
  size.push_back(n);
  Array out = Array::of(size);
  for_each_index_of(size, [&](const Extents& index, std::size_t i) {
    Extents left = index;
    Extents right = index;
    double sum = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      left[batch + 1] = j;
      right[batch] = j;
      sum += element(a, left) * element(b, right);
    }
    out.data[i] = sum;
  });
  if (column) out.size.pop_back();
  if (row) out.size.erase(out.size.end() - (column ? 1 : 2));
  return out;
}

Array transposed_array(const Array& array) {
  Extents size = array.size;
  std::swap(size[size.size() - 1], size[size.size() - 2]);
  Array out = Array::of(size);
  for_each_index_of(size, [&](Extents index, std::size_t i) {
    std::swap(index[index.size() - 1], index[index.size() - 2]);
    out.data[i] = element(array, index);
  });
  return out;
}

// Divided by its scale, as DL16 has the quotient, and rounded to FP8_E4M3.
Array quantised(Array array, double scale) {
  for (double& x : array.data) {
    const auto quotient = static_cast<double>(static_cast<float>(x / scale));
    const double held = svp::value_of(NumberFormat::Dl16, svp::code_of(NumberFormat::Dl16, quotient));
    x = svp::value_of(NumberFormat::Fp8E4m3, svp::code_of(NumberFormat::Fp8E4m3, held));
  }
  return array;
}

Array linear_fp8_of(const std::vector<Array>& inputs, const std::vector<double>& scalars) {
  const auto scale = [&scalars](std::size_t i) { return i < scalars.size() ? scalars[i] : 1.0; };
  Array out = matmul_of(quantised(inputs[0], scale(0)), transposed_array(quantised(inputs[1], scale(1))));
  for (double& x : out.data) x *= scale(0) * scale(1);
  return inputs.size() < 3 ? out : elementwise_of(Op::Add, {out, inputs[2]}, {});
}

Array softmax_of(const Array& x, std::size_t dim) {
  const Array largest = reduced_along(Op::Max, x, dim);
  Array out = elementwise_of(Op::Exp, {elementwise_of(Op::Sub, {x, largest}, {})}, {});
  return elementwise_of(Op::Div, {out, reduced_along(Op::Sum, out, dim)}, {});
}

// Each head, the third dimension from the end, as often as `heads` of the queries need it.
Array with_heads(const Array& array, std::int64_t heads) {
  if (array.size.size() < 3) return array;
  const std::size_t dim = array.size.size() - 3;
  const std::int64_t own = array.size[dim];
  if (own <= 1 || heads <= own || heads % own != 0) return array;
  Extents size = array.size;
  size[dim] = heads;
  Array out = Array::of(size);
  for_each_index_of(size, [&](Extents index, std::size_t i) {
    index[dim] /= heads / own;
    out.data[i] = element(array, index);
  });
  return out;
}

Array attention_of(const Array& q, const Array& k, const Array& v, const std::vector<double>& scalars, bool causal) {
  const double scale = scalars.empty() ? 1 / std::sqrt(static_cast<double>(q.size.back())) : scalars[0];
  const std::int64_t heads = q.size.size() < 3 ? 1 : q.size[q.size.size() - 3];
  Array scores = matmul_of(q, transposed_array(with_heads(k, heads)));
  const std::size_t rank = scores.size.size();
  const std::int64_t shift = scores.size[rank - 1] - scores.size[rank - 2];
  for_each_index_of(scores.size, [&](const Extents& index, std::size_t i) {
    scores.data[i] *= scale;
    if (causal && index[rank - 1] > index[rank - 2] + shift) scores.data[i] = -kInfinity;
  });
  Array weights = softmax_of(scores, rank - 1);
  for_each_index_of(weights.size, [&](const Extents& index, std::size_t i) {
    if (causal && index[rank - 2] + shift < 0) weights.data[i] = 0;  // sees no key
  });
  return matmul_of(weights, with_heads(v, heads));
}

Array norm_of(Op op, const std::vector<Array>& inputs, double epsilon) {
  const Array& x = inputs[0];
  const std::int64_t width = x.size.back();
  Array out = x;
  for (std::int64_t row = 0; width != 0 && row < x.count() / width; ++row) {
    const auto from = x.data.begin() + row * width;
    const double mean =
        op == Op::LayerNorm ? std::accumulate(from, from + width, 0.0) / static_cast<double>(width) : 0.0;
    double squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += (from[i] - mean) * (from[i] - mean);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::int64_t i = 0; i < width; ++i) {
      const double weight = inputs.size() > 1 ? inputs[1].data[place(i)] : 1;
      const double bias = inputs.size() > 2 ? inputs[2].data[place(i)] : 0;
      out.data[place(row * width + i)] = (from[i] - mean) * scale * weight + bias;
    }
  }
  return out;
}

std::vector<Array> top_k_of(const Array& x, std::int64_t k, std::size_t dim) {
  Extents size = x.size;
  size[dim] = k;
  std::vector<Array> out{Array::of(size), Array::of(size)};
  for_each_index_of(size, [&](const Extents& index, std::size_t i) {
    std::vector<double> line;
    Extents from = index;
    for (from[dim] = 0; from[dim] < x.size[dim]; ++from[dim]) line.push_back(element(x, from));
    std::vector<std::size_t> order(line.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key = [&line](std::size_t j) { return std::isnan(line[j]) ? kInfinity : line[j]; };
    std::ranges::sort(order,
                      [&key](std::size_t a, std::size_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
    out[0].data[i] = line[order[place(index[dim])]];
    out[1].data[i] = static_cast<double>(order[place(index[dim])]);
  });
  return out;
}

Array cat_of(const std::vector<Array>& inputs, std::int64_t along) {
  std::vector<Array> parts;
  for (const Array& input : inputs) {
    if (input.size != Extents{0}) parts.push_back(input);  // is none, as in PyTorch
  }
  if (parts.empty()) return inputs[0];
  const std::size_t dim = dimension_of(along, parts[0].size.size());
  Extents size = parts[0].size;
  size[dim] = 0;
  for (const Array& part : parts) size[dim] += part.size[dim];
  Array out = Array::of(size);
  for_each_index_of(size, [&](Extents index, std::size_t i) {
    const Array* part = parts.data();
    for (; index[dim] >= part->size[dim]; ++part) index[dim] -= part->size[dim];
    out.data[i] = element(*part, index);
  });
  return out;
}

Array embedding_of(const Array& table, const Array& index) {
  Extents size = index.size;
  size.push_back(table.size[1]);
  Array out = Array::of(size);
  for (std::int64_t i = 0; i < out.count(); ++i) {
    const auto row = static_cast<std::int64_t>(index.data[place(i / table.size[1])]);
    out.data[place(i)] = table.data[place(row * table.size[1] + i % table.size[1])];
  }
  return out;
}

}  // namespace

Array Array::seen_as(std::vector<std::int64_t> other) const { return {.size = std::move(other), .data = data}; }

Array Array::of(std::vector<std::int64_t> size) {
  const std::int64_t count = product_of(size);
  return {.size = std::move(size), .data = std::vector<double>(place(count))};
}

std::vector<Array> reference(Op op, const std::vector<Array>& inputs, const std::vector<double>& scalars,
                             const std::vector<std::int64_t>& integers) {
  const auto integer = [&integers](std::size_t i, std::int64_t otherwise) {
    return i < integers.size() ? integers[i] : otherwise;
  };
  const Array& x = inputs[0];
  const std::size_t rank = x.size.size();
  switch (op) {
    case Op::Copy: return {x};
    case Op::MatMul: return {matmul_of(x, inputs[1])};
    case Op::Linear: {
      const Array product = matmul_of(x, transposed_array(inputs[1]));
      return {inputs.size() < 3 ? product : elementwise_of(Op::Add, {product, inputs[2]}, {})};
    }
    case Op::LinearFp8: return {linear_fp8_of(inputs, scalars)};
    case Op::Attention: return {attention_of(x, inputs[1], inputs[2], scalars, integer(0, 0) != 0)};
    case Op::Softmax:
      if (rank == 0) return {softmax_of({.size = {1}, .data = x.data}, 0).seen_as({})};
      return {softmax_of(x, dimension_of(integer(0, -1), rank))};
    case Op::LayerNorm:
    case Op::RmsNorm: return {norm_of(op, inputs, scalars.empty() ? 1e-5 : scalars[0])};
    case Op::TopK:
      if (rank == 0) return {x, Array::of({})};
      return top_k_of(x, integer(0, 1), dimension_of(integer(1, -1), rank));
    case Op::Embedding: return {embedding_of(x, inputs[1])};
    case Op::Cat: return {cat_of(inputs, integer(0, 0))};
    case Op::AvgPool2d:
    case Op::MaxPool2d: return {reference_pool(op, x, integers)};
    case Op::Conv2d: return {reference_convolution(inputs, integers)};
    default: break;
  }
  if (info_of(op).family == Family::Reduction) return {reduction(op, x, integers)};
  return {elementwise_of(op, inputs, scalars)};
}

}  // namespace svp::ops
