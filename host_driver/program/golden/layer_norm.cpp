// SPDX-License-Identifier: Apache-2.0
// The two operations that read what Exx2 wrote.
#include <bit>
#include <cmath>

#include "host_driver/program/golden/families.hpp"
#include "host_driver/program/golden/numbers.hpp"
#include "host_driver/program/golden/pair.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

std::uint32_t scale(const Step& step, const Index& n) {
  const Pair pair = from_stick(View(step, 0).stick(n));
  const double square = pair.m * pair.m;
  const double difference = pair.q - square;
  const double variance = difference < 0 ? 0 : difference;  // NaN stays
  const double sum = variance + static_cast<double>(std::bit_cast<float>(step.operation.constant[0]));
  return bits_of(step.operation.operand[1].format, 1.0 / std::sqrt(sum));
}

std::uint32_t normalized(const Step& step, const Index& n) {
  const Format format = step.operation.operand[0].format;
  const auto element = [&](unsigned operand) { return fp32_of(format, View(step, operand).bits(n)); };
  const auto mean = static_cast<float>(from_stick(View(step, 1).stick(n)).m);
  // Each a statement of its own: no step may be fused with the next.
  const float centered = element(0) - mean;
  const float scaled = centered * element(2);
  const float weighted = scaled * element(3);
  const float result = weighted + element(4);
  return bits_of(format, result);
}

}  // namespace

void run_layer_norm(const Step& step) {
  const View output(step, step.operation.operand_count - 1u);
  for_each_index(step.order, counts(step, output, output.operand().present, true), [&](const Index& n) {
    output.set(n, step.operation.opcode == Opcode::LayerNormScale ? scale(step, n) : normalized(step, n));
  });
}

}  // namespace svp::program::golden
