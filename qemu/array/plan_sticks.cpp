// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/plan_sticks.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace svp::array {
namespace {

// Where number `n` of all that the stretches count stands.
template <typename Stretch>
struct Place {
  const Stretch* stretch;
  std::uint64_t of_it;
};

template <typename Stretch>
Place<Stretch> find_place(std::span<const Stretch> stretches, std::uint64_t n) {
  const std::uint64_t all =
      std::accumulate(stretches.begin(), stretches.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const Stretch& stretch) { return sum + stretch.count; });
  n %= std::max<std::uint64_t>(all, 1);  // it is never 0
  const Stretch* stretch = stretches.data();
  for (; n >= stretch->count; ++stretch) n -= stretch->count;
  return {stretch, n};
}

std::byte* stick_of(const RowsPlan& plan, unsigned operand, std::uint64_t n) {
  const auto place = find_place<Stretch>({plan.stretch.data(), plan.stretches}, n);
  return place.stretch->at[operand] + place.of_it * plan.request.row[operand].step;
}

Place<UnitStretch> unit_of(const ConvertPlan& plan, std::uint64_t n) {
  return find_place<UnitStretch>({plan.stretch.data(), plan.stretches}, n);
}

}  // namespace

const std::byte* read_stick(const RowsPlan& plan, std::uint64_t n) { return stick_of(plan, 0, n); }
std::byte* made_stick(const RowsPlan& plan, std::uint64_t n) { return stick_of(plan, wire::array::kOutput, n); }

const std::byte* read_stick(const ConvertPlan& plan, std::uint64_t n) {
  const auto place = unit_of(plan, n);
  return place.stretch->from[0] + place.of_it * plan.request.from.step;
}
std::byte* made_stick(const ConvertPlan& plan, std::uint64_t n) {
  const auto place = unit_of(plan, n);
  return place.stretch->to[0] + place.of_it * plan.request.to.step;
}

}  // namespace svp::array
