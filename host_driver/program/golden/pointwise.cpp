// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic: one fp32 operation on the decoded operands, then one rounding to the format.
#include <bit>
#include <cmath>
#include <cstring>

#include "host_driver/program/golden/families.hpp"
#include "host_driver/program/golden/numbers.hpp"
#include "shared/dl16.hpp"
#include "shared/real_functions.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

// The larger one; +0 is larger than -0, and NaN than everything.
float larger(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::nanf("");
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
float smaller(float a, float b) { return -larger(-a, -b); }

float arithmetic(Opcode opcode, float a, float b) {
  switch (opcode) {
    case Opcode::Add: return a + b;
    case Opcode::Sub: return a - b;
    case Opcode::Mul: return a * b;
    case Opcode::Div: return a / b;
    case Opcode::Maximum: return larger(a, b);
    case Opcode::Minimum: return smaller(a, b);
    default: return std::nanf("");
  }
}

bool compare(Opcode opcode, float a, float b) {
  switch (opcode) {
    case Opcode::Equal: return a == b;
    case Opcode::NotEqual: return !(a == b);
    case Opcode::Greater: return a > b;
    case Opcode::GreaterEqual: return a >= b;
    case Opcode::Less: return a < b;
    default: return a <= b;
  }
}

float clipped(const Operation& operation, Format format, float x) {
  const auto bound = [&](unsigned i) {
    return fp32_of(format, bits_of(format, std::bit_cast<float>(operation.constant[i])));
  };
  return std::isnan(x) ? x : smaller(larger(x, bound(0)), bound(1));
}

std::uint32_t sign_bit(Format format) { return std::uint32_t{1} << (8 * item_bytes(format) - 1); }

std::uint32_t unary(const Operation& operation, Format format, std::uint32_t bits) {
  const float x = fp32_of(format, bits);
  switch (operation.opcode) {
    case Opcode::Abs: return bits & ~sign_bit(format);
    case Opcode::Neg: return bits ^ sign_bit(format);
    case Opcode::Relu: return bits_of(format, std::isnan(x) || x > 0 ? x : 0.0F);
    case Opcode::Clip: return bits_of(format, clipped(operation, format, x));
    case Opcode::Floor: return bits_of(format, std::floor(x));
    // On FP32 a function is what this evaluation gives: there is no table to say so.
    default: return wire::real::evaluate_fp32(operation.opcode, bits, operation.constant[0], operation.constant[1]);
  }
}

// What the program's table says, whatever it says.
std::uint32_t looked_up(const Step& step, std::uint32_t code) {
  const Operand& table = step.operation.operand[1];
  wire::Dl16 result = 0;
  std::memcpy(&result, &step.memory.of(table, 0)[table.offset + code * sizeof result], sizeof result);
  return result;
}

std::uint32_t result(const Step& step, const Index& n) {
  const Operation& operation = step.operation;
  const View first(step, 0);
  const Format format = first.format();
  const std::uint32_t a = first.bits(n);
  if (has_table(step.row, operation)) return looked_up(step, a);
  if (operation.operand_count == 2) return unary(operation, format, a);
  const std::uint32_t b = View(step, 1).bits(n);
  if (operation.opcode == Opcode::Where) return value_of(format, a) != 0 ? b : View(step, 2).bits(n);
  const float x = fp32_of(format, a);
  const float y = fp32_of(format, b);
  if (operation.opcode >= Opcode::Equal && operation.opcode <= Opcode::LessEqual) {
    return bits_of(format, compare(operation.opcode, x, y) ? 1.0F : 0.0F);
  }
  return bits_of(format, arithmetic(operation.opcode, x, y));
}

}  // namespace

void run_pointwise(const Step& step) {
  const View output(step, step.operation.operand_count - 1u);
  const std::uint32_t masked = bits_of(output.format(), std::bit_cast<float>(step.operation.mask_value));
  for_each_index(step.order, counts(step, output, output.operand().present, true),
                 [&](const Index& n) { output.set(n, is_masked(step.operation, n) ? masked : result(step, n)); });
}

}  // namespace svp::program::golden
