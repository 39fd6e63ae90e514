// SPDX-License-Identifier: Apache-2.0
// Reductions along one dimension. Positions inside of masks, and pad lanes, take no part.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "host_driver/program/golden/families.hpp"
#include "host_driver/program/golden/numbers.hpp"
#include "host_driver/program/golden/pair.hpp"
#include "host_driver/tensor/golden/wide_sum.hpp"
#include "shared/dl16.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

constexpr std::uint32_t kChunk = 64;
constexpr wire::Dl16 kOne = 0x3E00;

struct Position {
  std::uint32_t at;
  std::uint32_t bits;
};
using Positions = std::vector<Position>;  // ascending

Positions positions_of(const Step& step, const View& input, Index n) {
  const auto reduced = static_cast<unsigned>(std::countr_zero(step.operation.reduced));
  Positions positions;
  for (std::uint32_t at = 0; at < step.operation.extent[reduced]; ++at) {
    n[reduced] = at;
    if (!is_masked(step.operation, n)) positions.push_back({at, input.bits(n)});
  }
  return positions;
}

bool all_finite(Format format, const Positions& positions) {
  return std::all_of(positions.begin(), positions.end(),
                     [&](const Position& position) { return std::isfinite(value_of(format, position.bits)); });
}

// Of numbers that are not all finite: infinity, or NaN where there is one, and where both infinities are.
float sum_of_infinities(const Positions& positions) {
  float sum = 0;
  for (const Position& position : positions) {
    const auto x = static_cast<float>(value_of(Format::Dl16, position.bits));
    if (!std::isfinite(x)) sum = sum + x;
  }
  return sum;
}

// DL16: the terms of each chunk of 64 positions are summed exactly; the sums, rounded once to Real, are added in Real.
template <typename Real, typename Term>
Real sum_of_chunks(const Positions& positions, Term add) {
  Real sum = 0;
  for (std::size_t i = 0; i < positions.size();) {
    svp::golden::WideSum exact;
    const std::uint32_t chunk = positions[i].at / kChunk;
    for (; i < positions.size() && positions[i].at / kChunk == chunk; ++i) {
      add(exact, static_cast<wire::Dl16>(positions[i].bits));
    }
    sum = sum + exact.to<Real>();
  }
  return sum;
}

// FP32: additions in fp64, in ascending order, beginning with +0.
double sum_of_fp32(const Positions& positions) {
  double sum = 0;
  for (const Position& position : positions) sum = sum + value_of(Format::Fp32, position.bits);
  return sum;
}

std::uint32_t sum(const Operation& operation, Format format, const Positions& positions) {
  const bool mean = operation.opcode == Opcode::Mean;
  const auto factor = std::bit_cast<float>(operation.constant[0]);
  if (format == Format::Fp32) {
    const double total = sum_of_fp32(positions);
    return bits_of(format, mean ? total * static_cast<double>(factor) : total);
  }
  const auto add = [](svp::golden::WideSum& exact, wire::Dl16 x) { exact.add_product(x, kOne); };
  const bool finite = all_finite(format, positions);
  const float total = finite ? sum_of_chunks<float>(positions, add) : sum_of_infinities(positions);
  return bits_of(format, mean ? total * factor : total);
}

std::uint32_t product(Format format, const Positions& positions) {
  double total = 1;
  for (const Position& position : positions) total = total * value_of(format, position.bits);
  return bits_of(format, total);
}

// +0 is larger than -0. Of nothing: the infinity that every number replaces.
std::uint32_t extreme(Format format, const Positions& positions, bool largest) {
  double best = largest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  for (const Position& position : positions) {
    const double x = value_of(format, position.bits);
    if (std::isnan(x)) return bits_of(format, x);
    const bool before = x == best ? std::signbit(x) && !std::signbit(best) : x < best;
    const bool behind = x == best ? !std::signbit(x) && std::signbit(best) : x > best;
    if (largest ? behind : before) best = x;
  }
  return bits_of(format, best);
}

Pair pair_of(const Operation& operation, Format format, const Positions& positions) {
  const auto factor = static_cast<double>(std::bit_cast<float>(operation.constant[0]));
  if (format == Format::Dl16) {
    if (!all_finite(format, positions)) return {std::nan(""), std::nan("")};
    const auto sum =
        sum_of_chunks<double>(positions, [](svp::golden::WideSum& exact, wire::Dl16 x) { exact.add_product(x, kOne); });
    const auto squares =
        sum_of_chunks<double>(positions, [](svp::golden::WideSum& exact, wire::Dl16 x) { exact.add_product(x, x); });
    return {sum * factor, squares * factor};
  }
  double squares = 0;
  for (const Position& position : positions) {
    const double x = value_of(format, position.bits);
    const double square = x * x;
    squares = squares + square;
  }
  return {sum_of_fp32(positions) * factor, squares * factor};
}

std::uint32_t reduced_value(const Operation& operation, Format format, const Positions& positions) {
  switch (operation.opcode) {
    case Opcode::Max: return extreme(format, positions, true);
    case Opcode::Min: return extreme(format, positions, false);
    case Opcode::Prod: return product(format, positions);
    default: return sum(operation, format, positions);
  }
}

}  // namespace

void run_reduction(const Step& step) {
  const View input(step, 0);
  const View output(step, 1);
  zero_pad_lanes(step, output);
  for_each_index(step.order, counts(step, output, output.operand().present, false), [&](const Index& n) {
    const Positions positions = positions_of(step, input, n);
    if (step.operation.opcode == Opcode::Exx2) {
      output.set_stick(n, to_stick(pair_of(step.operation, input.format(), positions)));
    } else {
      output.set(n, reduced_value(step.operation, input.format(), positions));
    }
  });
}

}  // namespace svp::program::golden
