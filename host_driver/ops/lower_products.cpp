// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/base/number_text.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/tensor/layout_digits.hpp"
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

void require_bias(const Lowering& lowering) {
  if (lowering.inputs() < 3) return;
  const Value& bias = lowering.input(2);
  const Value& weight = lowering.input(1);
  if (bias.size() == std::vector<std::int64_t>{weight.size()[0]}) return;
  throw InvalidArgument("shape", "a bias of " + to_string(bias.size()) + " for a weight of " + to_string(weight.size()),
                        "give one element for each row of the weight");
}

void Lowering::matmul(const Value& a, const Value& b, const Value& out) {
  require_dl16(a);
  require_dl16(b);
  product(Opcode::MatMul, with_stick(materialised_last(a), a.rank() - 1),
          with_stick(materialised_last(b), b.rank() - 1), out);
}

void Lowering::product(Opcode opcode, const Value& left, const Value& right, const Value& out) {
  if (left.size().back() == 0) return fill(out, 0);  // sums of no products
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
  const bool in_lanes = out.stick() == out.rank() - 1 || (!out.stick() && out.size().back() == 1);
  if (in_lanes && out.format() == a.format()) return lowering.matmul(a, b, out);
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
  if (weight.rank() != 2 || x.rank() == 0 || x.size().back() != weight.size()[1]) {
    throw InvalidArgument("shape", "linear of " + to_string(x.size()) + " and " + to_string(weight.size()),
                          "give [..., K] and [N, K]");
  }
  require_bias(lowering);
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

// ---- attention ------------------------------------------------------------------------------------------------------

// Heads of the queries for each head of the keys and values, which are neighbours; 1: as many of both, or the shapes
// are repeated as in any product.
std::int64_t queries_of_a_head(const Value& q, const Value& k, const Value& v) {
  if (q.rank() < 3 || k.rank() < 3 || v.rank() < 3) return 1;
  const auto heads = [](const Value& value) { return value.size()[value.rank() - 3]; };
  if (heads(k) == heads(q) || heads(k) <= 1 || heads(q) <= 1) return 1;
  if (heads(q) % heads(k) == 0 && heads(v) == heads(k)) return heads(q) / heads(k);
  throw InvalidArgument("shape",
                        "attention of " + std::to_string(heads(q)) + " heads of queries, " + std::to_string(heads(k)) +
                            " of keys and " + std::to_string(heads(v)) + " of values",
                        "give as many heads of keys as of values, in a number that divides those of the queries");
}

// [..., heads / group, group, L, E]. A copy where heads are lanes of a stick.
const Value& in_groups(Lowering& lowering, const Value& value, std::int64_t group) {
  std::vector<std::int64_t> size = value.size();
  const std::size_t heads = size.size() - 3;
  size[heads] /= group;
  size.insert(size.begin() + static_cast<std::ptrdiff_t>(heads) + 1, group);
  const DeviceView view = reshaped(value.form.view, size);
  if (value.form.has_elements() && !stick_access(value.form.base, value.form.layout, view)) {
    const Value& rows = lowering.with_stick(lowering.materialised(value), value.rank() - 1);
    return lowering.keep(rows.seen_as(reshaped(rows.form.view, size)));
  }
  return lowering.keep(value.seen_as(view));
}

// The result of weights [..., L, S] and values into `out`, whose shape is another one where heads are grouped. The
// first rows see no key when there are more queries than keys: they are 0.
void store_mixed(Lowering& lowering, const Value& weights, const Value& values, std::int64_t group,
                 std::int64_t rows_without_key, const Value& out) {
  if (group == 1 && rows_without_key == 0) return product_into(lowering, weights, values, out);
  const Value& result =
      lowering.temporary(out.size(), weights.form.base.dtype, weights.form.layout.device_dtype, out.rank() - 1);
  const Value& whole = group == 1 ? result : in_groups(lowering, result, group);
  product_into(lowering, weights, values, whole);
  if (rows_without_key > 0) {
    lowering.fill(lowering.keep(result.seen_as(narrowed(result.form.view, -2, 0, rows_without_key))), 0);
  }
  lowering.store(result, out);
}

void lower_attention(Lowering& lowering) {
  const Request& request = lowering.request();
  const Value& q = lowering.input(0);
  const Value& k = lowering.input(1);
  const Value& v = lowering.input(2);
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2 || q.size().back() != k.size().back() ||
      v.size()[v.rank() - 2] != k.size()[k.rank() - 2]) {
    throw InvalidArgument(
        "shape", "attention of " + to_string(q.size()) + ", " + to_string(k.size()) + " and " + to_string(v.size()),
        "give queries [..., L, E], keys [..., S, E] and values [..., S, V]");
  }
  const std::int64_t group = queries_of_a_head(q, k, v);
  const auto with_group = [&](const Value& value) -> const Value& {
    if (group == 1) return value;  // NOLINT(bugprone-return-const-ref-from-parameter)
    return lowering.keep(value.seen_as(unsqueezed(value.form.view, static_cast<std::int64_t>(value.rank()) - 2)));
  };
  const Value& keys = transposed_last(lowering, with_group(k));
  const double scale = request.scalars.empty() ? 1.0 / std::sqrt(std::max(static_cast<double>(q.size().back()), 1.0))
                                               : request.scalars[0];
  if (std::isinf(scale) || !is_held(DeviceType::Dl16, scale)) {
    throw InvalidArgument("number", "a scale of " + svp::text_of(scale), "give one from 2^-31 to 2^32");
  }
  // Before the product: its sums are smaller by that factor.
  const Value& scaled = lowering.elementwise(Opcode::Mul, {&q, &lowering.scalar(q, scale)});
  const Value* scores = &lowering.matmul(group == 1 ? scaled : in_groups(lowering, scaled, group), keys);
  const std::int64_t queries = q.size()[q.rank() - 2];
  const std::int64_t key_count = k.size()[k.rank() - 2];
  const bool causal = !request.integers.empty() && request.integers[0] != 0;
  if (causal) {
    scores = &lowering.elementwise(Opcode::Add, {scores, &causal_mask(lowering, queries, key_count, q)});
  }
  const Value& weights = lowering.softmax(*scores, scores->rank() - 1);
  const Value& values = with_group(v);
  std::vector<std::int64_t> size = product_size(weights, values);
  if (group > 1) {
    const auto behind = size.end() - 3;  // the group, behind the heads that it belongs to
    *(behind - 1) *= *behind;
    size.erase(behind);
  }
  const Value& out = lowering.output(size, q.form.base.dtype, q.form.layout.device_dtype);
  store_mixed(lowering, weights, values, group, causal ? std::max<std::int64_t>(queries - key_count, 0) : 0, out);
}

const Value& causal_mask(Lowering& lowering, std::int64_t queries, std::int64_t keys, const Value& like) {
  const TensorForm form = TensorForm::dense(like.form.base.dtype, {queries, keys}, like.form.layout.device_dtype);
  if (!form.has_elements()) return lowering.keep(lowering.writer().data(form, {}));
  std::vector<std::uint16_t> codes(form.layout.device_bytes() / sizeof(std::uint16_t));
  const LayoutDigits digits(form.layout);
  const auto hidden = wire::dl16_from_fp64(kHidden);
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t j = i + keys - queries + 1; j < keys; ++j) {
      if (j < 0) continue;
      codes[static_cast<std::size_t>(*digits.offset_of(i * keys + j))] = hidden;
    }
  }
  return lowering.keep(lowering.writer().data(form, std::as_bytes(std::span(codes))));
}

}  // namespace

void lower_products(Lowering& lowering) {
  switch (lowering.request().op) {
    case Op::Linear: return lower_linear(lowering);
    case Op::LinearFp8: return lower_linear_fp8(lowering);
    case Op::Attention: return lower_attention(lowering);
    default: return lower_matmul(lowering);
  }
}

}  // namespace svp::ops
