// SPDX-License-Identifier: Apache-2.0
// The largest elements along a dimension, in descending order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "host_driver/program/golden/families.hpp"
#include "host_driver/program/golden/numbers.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

struct Candidate {
  double value;
  std::uint32_t bits;
  std::uint32_t index;
};

// NaN is larger than every number; -0 and +0 are equal. Equal ones stay in the order of their indices.
bool comes_before(const Candidate& a, const Candidate& b) {
  const bool nan_a = std::isnan(a.value);
  const bool nan_b = std::isnan(b.value);
  if (nan_a != nan_b) return nan_a;
  return nan_a || a.value == b.value ? a.index < b.index : a.value > b.value;
}

std::vector<Candidate> in_order(const Step& step, const View& input, Index n) {
  const auto searched = static_cast<unsigned>(std::countr_zero(step.operation.reduced));
  std::vector<Candidate> candidates;
  for (std::uint32_t i = 0; i < step.operation.extent[searched]; ++i) {
    n[searched] = i;
    const std::uint32_t bits = input.bits(n);
    candidates.push_back({value_of(input.format(), bits), bits, i});
  }
  std::ranges::sort(candidates, comes_before);
  return candidates;
}

}  // namespace

void run_top_k(const Step& step) {
  const View input(step, 0);
  const View output(step, 1);
  const std::uint8_t ranks = output.operand().present & ~input.operand().present;
  const auto rank_dim = static_cast<unsigned>(std::countr_zero(ranks));  // 8: there is none
  zero_pad_lanes(step, output);
  for_each_index(step.order, counts(step, output, output.operand().present & ~ranks, false), [&](Index n) {
    const auto candidates = in_order(step, input, n);
    const std::uint32_t count = ranks == 0 ? 1 : step.operation.extent[rank_dim];
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      if (ranks != 0) n[rank_dim] = rank;
      const Candidate& found = candidates[rank];
      const bool index = step.operation.opcode == Opcode::TopKIndex;
      output.set(n, index ? bits_of(output.format(), static_cast<double>(found.index)) : found.bits);
    }
  });
}

}  // namespace svp::program::golden
