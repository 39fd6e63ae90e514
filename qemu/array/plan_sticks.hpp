// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The sticks that a plan reads and makes, by number: `n` is taken modulo how many there are. What the firmware's orders
// (wire::array::Orders) break.
#pragma once

#include <cstddef>
#include <cstdint>

#include "qemu/array/blocks.hpp"
#include "qemu/array/chunk.hpp"
#include "qemu/array/convert.hpp"
#include "qemu/array/copies.hpp"
#include "qemu/array/lines.hpp"
#include "qemu/array/rows.hpp"
#include "qemu/array/top_k.hpp"

namespace svp::array {

const std::byte* read_stick(const RowsPlan& plan, std::uint64_t n);  // of its first input
std::byte* made_stick(const RowsPlan& plan, std::uint64_t n);
const std::byte* read_stick(const ConvertPlan& plan, std::uint64_t n);  // the first one of unit n
std::byte* made_stick(const ConvertPlan& plan, std::uint64_t n);        // likewise

inline const std::byte* read_stick(const ChunkPlan& plan, std::uint64_t n) { return plan.row[n % plan.request.rows]; }
inline std::byte* made_stick(const ChunkPlan& plan, std::uint64_t n) {
  return plan.sums[n / 2 % plan.request.rows][n % 2];
}
inline const std::byte* read_stick(const LinesPlan& plan, std::uint64_t n) {
  return plan.stick[n % (std::uint64_t{plan.request.lines} * plan.request.sticks)];
}
inline std::byte* made_stick(const LinesPlan& plan, std::uint64_t n) { return plan.result[n % plan.request.lines]; }
inline const std::byte* read_stick(const BlocksPlan& plan, std::uint64_t n) {
  return plan.row[n % (plan.request.count * plan.request.rows)];
}
inline std::byte* made_stick(const BlocksPlan& plan, std::uint64_t n) {
  return plan.column[n % (plan.request.count * plan.request.columns)];
}
inline const std::byte* read_stick(const CopiesPlan& plan, std::uint64_t n) {
  return plan.from[n % (std::uint64_t{plan.request.rows} * plan.request.sticks)];
}
inline std::byte* made_stick(const CopiesPlan& plan, std::uint64_t n) {
  return plan.to[n % (std::uint64_t{plan.request.rows} * plan.request.sticks)];
}
inline const std::byte* read_stick(const TopKPlan& plan, std::uint64_t n) {
  return plan.stick[n % (std::uint64_t{plan.request.rows} * plan.request.sticks)];
}
// Of the last one only the words of a list are made.
inline std::byte* made_stick(const TopKPlan& plan, std::uint64_t n) {
  const std::uint64_t merits = plan.request.ranks * lines_of(plan.request);
  return plan.list[n % ((merits + kMeritsInStick - 1) / kMeritsInStick)];
}

}  // namespace svp::array
