// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/symbolic_address.hpp"

namespace svp::compiler {

namespace {

std::optional<std::int64_t> checked_sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace

std::optional<SymbolicAddress> sum(const SymbolicAddress& a, const SymbolicAddress& b) {
  using Base = SymbolicAddress::Base;
  if (a.base != Base::None && b.base != Base::None) return std::nullopt;
  const SymbolicAddress& based = a.base != Base::None ? a : b;
  SymbolicAddress result{.base = based.base, .argument = based.argument, .offset = 0, .loops = {}};
  const auto offset = checked_sum(a.offset, b.offset);
  if (!offset) return std::nullopt;
  result.offset = *offset;
  auto next_a = a.loops.begin(), next_b = b.loops.begin();
  while (next_a != a.loops.end() || next_b != b.loops.end()) {
    const bool take_a = next_b == b.loops.end() || (next_a != a.loops.end() && next_a->loop <= next_b->loop);
    const bool take_b = next_a == a.loops.end() || (next_b != b.loops.end() && next_b->loop <= next_a->loop);
    const auto factor = checked_sum(take_a ? next_a->factor : 0, take_b ? next_b->factor : 0);
    if (!factor) return std::nullopt;
    const unsigned loop = take_a ? next_a->loop : next_b->loop;
    if (*factor != 0) result.loops.push_back({loop, *factor});
    if (take_a) ++next_a;
    if (take_b) ++next_b;
  }
  return result;
}

std::optional<SymbolicAddress> product(const SymbolicAddress& a, std::int64_t factor) {
  if (a.base != SymbolicAddress::Base::None) return std::nullopt;
  SymbolicAddress result;
  if (__builtin_mul_overflow(a.offset, factor, &result.offset)) return std::nullopt;
  if (factor == 0) return result;
  for (const LoopTerm& term : a.loops) {
    LoopTerm scaled = term;
    if (__builtin_mul_overflow(term.factor, factor, &scaled.factor)) return std::nullopt;
    result.loops.push_back(scaled);
  }
  return result;
}

}  // namespace svp::compiler
