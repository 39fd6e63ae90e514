// SPDX-License-Identifier: Apache-2.0
// linear_fp8: x and weight become FP8_E4M3 in memory of the program, as MatMulFp8 takes them.
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/base/number_text.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "shared/dl16.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

struct Scales {
  double x = 1;
  double weight = 1;
};

// Constants of the program, which DL16 has to hold.
Scales scales_of(const Request& request) {
  const auto scale = [&request](std::size_t i) { return i < request.scalars.size() ? request.scalars[i] : 1.0; };
  const Scales scales{scale(0), scale(1)};
  for (const double value : {scales.x, scales.weight, scales.x * scales.weight}) {
    const wire::Dl16 code = wire::dl16_from_fp64(value);
    if (value > 0 && wire::dl16_is_finite(code) && !wire::dl16_is_zero(code)) continue;
    throw InvalidArgument("scale", "a scale of " + svp::text_of(value),
                          "give positive numbers from 2^-31 to 2^32, whose product is one, too");
  }
  return scales;
}

void require_shapes(const Value& x, const Value& weight) {
  if (weight.rank() == 2 && x.rank() != 0 && x.size().back() == weight.size()[1]) return;
  throw InvalidArgument("shape", "linear_fp8 of " + to_string(x.size()) + " and " + to_string(weight.size()),
                        "give [..., K] and [N, K]");
}

const Value& divided(Lowering& lowering, const Value& value, double scale) {
  if (scale == 1) return value;  // NOLINT(bugprone-return-const-ref-from-parameter)
  return lowering.elementwise(Opcode::Div, {&value, &lowering.scalar(value, scale)});
}

// Its last dimension lies in sticks, also when it has one element.
Use in_sticks(const Value& value) {
  Use use = aligned(value, value.rank());
  use.named = {value.rank() - 1};
  use.named_stick = value.rank() - 1;
  return use;
}

const Value& quantised(Lowering& lowering, const Value& value) {
  const Value& from = lowering.with_stick(lowering.materialised_last(value), value.rank() - 1);
  std::vector<std::int64_t> size = from.size();
  for (std::size_t d = 0; d < size.size(); ++d) size[d] = from.access.present[d] ? size[d] : 1;
  const Value& to = lowering.temporary(size, from.form.base.dtype, DeviceType::Fp8E4m3, size.size() - 1);
  lowering.writer().emit({.opcode = Opcode::Dl16ToFp8, .extent = size, .operands = {in_sticks(from), in_sticks(to)}});
  return to;
}

// [K, N]. Pairs of rows lie as DL16 rows do: a stick has 64 columns of two bytes.
const Value& quantised_weight(Lowering& lowering, const Value& value) {
  const Value& from = lowering.with_stick(lowering.materialised_last(value), 1);
  const std::int64_t pairs = (value.size()[0] + 1) / 2;
  Value to = lowering.temporary({pairs, value.size()[1]}, from.form.base.dtype, DeviceType::Dl16, 1);
  to.form.layout.device_dtype = DeviceType::Fp8E4m3;
  to.form.view.size[0] = value.size()[0];
  const auto whole = [](const Value& weight) {
    Use use = in_sticks(weight);
    use.named.push_back(0);
    return use;
  };
  const Value& weight = lowering.keep(to);
  lowering.writer().emit({.opcode = Opcode::Dl16ToFp8Weight,
                          .extent = value.size(),
                          .operands = {whole(from), whole(weight)},
                          .reduced = 0});
  return weight;
}

}  // namespace

// x / its scale, times weight / its scale, times both scales, plus bias.
void lower_linear_fp8(Lowering& lowering) {
  const Value& x = lowering.input(0);
  const Value& weight = lowering.input(1);
  require_shapes(x, weight);
  require_bias(lowering);
  const Scales scales = scales_of(lowering.request());
  const bool line = x.rank() == 1;
  const Value& rows = line ? lowering.keep(x.seen_as(unsqueezed(x.form.view, 0))) : x;
  const Value& columns = lowering.keep(weight.seen_as(transposed(weight.form.view, -1, -2)));
  std::vector<std::int64_t> size = rows.size();
  size.back() = weight.size()[0];
  std::vector<std::int64_t> of_out = x.size();
  of_out.back() = weight.size()[0];
  const Value& out = lowering.output(of_out, x.form.base.dtype, x.form.layout.device_dtype);
  const Value& whole = line ? lowering.keep(out.seen_as(unsqueezed(out.form.view, 0))) : out;
  const Value& left = quantised(lowering, divided(lowering, rows, scales.x));
  const Value& right = quantised_weight(lowering, divided(lowering, columns, scales.weight));
  const Value& product = lowering.temporary(size, x.form.base.dtype, x.form.layout.device_dtype, size.size() - 1);
  lowering.product(Opcode::MatMulFp8, left, right, product);
  const double scale = scales.x * scales.weight;
  const bool has_bias = lowering.inputs() > 2;
  if (scale == 1 && !has_bias) return lowering.store(product, whole);
  const Value& factor = lowering.scalar(product, scale);
  if (!has_bias) return lowering.elementwise(Opcode::Mul, {&product, &factor}, whole);
  const Value& scaled = scale == 1 ? product : lowering.elementwise(Opcode::Mul, {&product, &factor});
  lowering.elementwise(Opcode::Add, {&scaled, &lowering.input(2)}, whole);
}

}  // namespace svp::ops
