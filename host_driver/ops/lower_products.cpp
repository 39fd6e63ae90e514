// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "shared/dl16.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

// Added to what a query must not see: its exponential is 0.
constexpr double kHidden = -4294967296.0;

[[noreturn]] void refuse_shapes(const char* what, const Value& a, const Value& b) {
  throw InvalidArgument("shape", std::string(what) + " of " + to_string(a.size()) + " and " + to_string(b.size()),
                        "give [..., M, K] and [..., K, N]");
}

std::vector<std::int64_t> product_size(const Value& a, const Value& b) {
  if (a.rank() < 2 || b.rank() < 2 || a.size().back() != b.size()[b.rank() - 2]) refuse_shapes("matmul", a, b);
  std::vector<std::int64_t> size =
      broadcast_shape({a.size().begin(), a.size().end() - 2}, {b.size().begin(), b.size().end() - 2});
  size.push_back(a.size()[a.rank() - 2]);
  size.push_back(b.size().back());
  return size;
}

void require_dl16(const Value& value) {
  if (value.format() == program::Format::Dl16) return;
  throw InvalidArgument("dtype", "a matrix product of " + std::string(name(value.form.layout.device_dtype)),
                        "the card multiplies DL16: copy float32 with device_dtype Dl16");
}

const Value& transposed_last(Lowering& lowering, const Value& value) {
  return lowering.keep(value.seen_as(transposed(value.form.view, -1, -2)));
}

// 0 where key j <= query i + (keys - queries), else kHidden.
const Value& causal_mask(Lowering& lowering, std::int64_t queries, std::int64_t keys, const Value& like);

}  // namespace

void Lowering::matmul(const Value& a, const Value& b, const Value& out) {
  require_dl16(a);
  require_dl16(b);
  product(Opcode::MatMul, with_stick(materialised_last(a), a.rank() - 1),
          with_stick(materialised_last(b), b.rank() - 1), out);
}

void Lowering::product(Opcode opcode, const Value& left, const Value& right, const Value& out) {
  const std::size_t batch = out.rank() - 2;
  const std::size_t m = batch;
  const std::size_t n = batch + 1;
  const std::size_t k = batch + 2;
  const auto use = [&](const Value& value, std::size_t row, std::size_t column) {
    Use result{&value, std::vector<int>(batch + 3, kAbsent)};
    const std::size_t own = value.rank() - 2;
    for (std::size_t d = 0; d < own; ++d) result.dims[batch - own + d] = static_cast<int>(d);
    result.dims[row] = static_cast<int>(own);
    result.dims[column] = static_cast<int>(own + 1);
    result.named = {row, column};
    result.named_stick = column;
    return result;
  };
  std::vector<std::int64_t> extent = out.size();
  extent.push_back(left.size().back());
  writer_.emit({.opcode = opcode,
                .extent = extent,
                .operands = {use(left, m, k), use(right, k, n), use(out, m, n)},
                .reduced = k});
}

const Value& Lowering::materialised_last(const Value& value) {
  const std::size_t rank = value.rank();
  const auto in_memory = [&](std::size_t d) { return value.access.present[d] || value.size()[d] == 1; };
  return in_memory(rank - 1) && in_memory(rank - 2) ? value : materialised(value);
}

const Value& Lowering::matmul(const Value& a, const Value& b) {
  std::vector<std::int64_t> size = product_size(a, b);
  const std::size_t last = size.size() - 1;
  const Value& out = temporary(size, a.form.base.dtype, a.form.layout.device_dtype, last);
  matmul(a, b, out);
  return out;
}

namespace {

// out's own sticks, or memory with the sticks that a product has.
void product_into(Lowering& lowering, const Value& a, const Value& b, const Value& out) {
  const bool takes_it = out.stick() == out.rank() - 1 || (!out.stick() && out.size().back() == 1);
  if (takes_it) return lowering.matmul(a, b, out);
  lowering.store(lowering.matmul(a, b), out);
}

void lower_matmul(Lowering& lowering) {
  // As PyTorch: a vector is a row on the left, a column on the right, and has no such dimension in the result.
  const Value* a = &lowering.input(0);
  const Value* b = &lowering.input(1);
  const bool row = a->rank() == 1;
  const bool column = b->rank() == 1;
  if (row) a = &lowering.keep(a->seen_as(unsqueezed(a->form.view, 0)));
  if (column) b = &lowering.keep(b->seen_as(unsqueezed(b->form.view, 1)));
  const std::vector<std::int64_t> full = product_size(*a, *b);
  std::vector<std::int64_t> size = full;
  if (column) size.pop_back();
  if (row) size.erase(size.end() - (column ? 1 : 2));
  const Value& out = lowering.output(size, a->form.base.dtype, a->form.layout.device_dtype);
  const Value& whole = size == full ? out : lowering.keep(out.seen_as(reshaped(out.form.view, full)));
  product_into(lowering, *a, *b, whole);
}

void lower_linear(Lowering& lowering) {
  const Value& x = lowering.input(0);
  const Value& weight = lowering.input(1);
  if (weight.rank() != 2 || x.rank() == 0 || x.size().back() != weight.size()[1]) refuse_shapes("linear", x, weight);
  const Value& w = transposed_last(lowering, weight);
  const bool line = x.rank() == 1;
  const Value& rows = line ? lowering.keep(x.seen_as(unsqueezed(x.form.view, 0))) : x;
  std::vector<std::int64_t> size = x.size();
  size.back() = weight.size()[0];
  const Value& out = lowering.output(size, x.form.base.dtype, x.form.layout.device_dtype);
  const Value& whole = line ? lowering.keep(out.seen_as(unsqueezed(out.form.view, 0))) : out;
  if (lowering.inputs() < 3) return product_into(lowering, rows, w, whole);
  lowering.elementwise(Opcode::Add, {&lowering.matmul(rows, w), &lowering.input(2)}, whole);
}

void lower_attention(Lowering& lowering) {
  const Request& request = lowering.request();
  const Value& q = lowering.input(0);
  const Value& k = lowering.input(1);
  const Value& v = lowering.input(2);
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2 || q.size().back() != k.size().back()) {
    refuse_shapes("attention", q, k);
  }
  const Value& keys = transposed_last(lowering, k);
  const double scale =
      request.scalars.empty() ? 1.0 / std::sqrt(static_cast<double>(q.size().back())) : request.scalars[0];
  // Before the product: its sums are smaller by that factor.
  const Value& scaled = lowering.elementwise(Opcode::Mul, {&q, &lowering.scalar(q, scale)});
  const Value* scores = &lowering.matmul(scaled, keys);
  if (!request.integers.empty() && request.integers[0] != 0) {
    const Value& mask = causal_mask(lowering, q.size()[q.rank() - 2], k.size()[k.rank() - 2], q);
    scores = &lowering.elementwise(Opcode::Add, {scores, &mask});
  }
  const Value& weights = lowering.softmax(*scores, scores->rank() - 1);
  std::vector<std::int64_t> size = product_size(weights, v);
  const Value& out = lowering.output(size, q.form.base.dtype, q.form.layout.device_dtype);
  product_into(lowering, weights, v, out);
}

const Value& causal_mask(Lowering& lowering, std::int64_t queries, std::int64_t keys, const Value& like) {
  const TensorForm form = TensorForm::dense(like.form.base.dtype, {queries, keys}, like.form.layout.device_dtype);
  std::vector<std::uint16_t> codes(form.layout.device_bytes() / sizeof(std::uint16_t));
  const auto hidden = wire::dl16_from_fp64(kHidden);
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = i + keys - queries + 1; j < keys; ++j) {
      if (j < 0) continue;
      codes[static_cast<std::size_t>(*device_offset_of(form.layout, i * keys + j))] = hidden;
    }
  }
  return lowering.keep(lowering.writer().data(form, std::as_bytes(std::span(codes))));
}

}  // namespace

void lower_products(Lowering& lowering) {
  if (lowering.inputs() < 2) throw InvalidArgument("inputs", "a product of one tensor", "give two");
  switch (lowering.request().op) {
    case Op::Linear: return lower_linear(lowering);
    case Op::LinearFp8: return lower_linear_fp8(lowering);
    case Op::Attention:
      if (lowering.inputs() != 3) throw InvalidArgument("inputs", "attention without values", "give q, k and v");
      return lower_attention(lowering);
    default: return lower_matmul(lowering);
  }
}

}  // namespace svp::ops
