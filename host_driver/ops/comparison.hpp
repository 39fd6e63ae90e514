// SPDX-License-Identifier: Apache-2.0
// The elements of a result against the expected ones: how many differ, and the first of them with both values; and
// against the exact ones within the bound of operation_table.hpp. What `spyre run OP --verify` tells, and how tests
// find a result that is silently wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/ops/operation_table.hpp"
#include "host_driver/ops/reference.hpp"

namespace svp::ops {

struct Difference {
  std::vector<std::int64_t> element;  // index along each dimension
  double got = 0;
  double expected = 0;
};

struct Comparison {
  std::uint64_t elements = 0;
  std::uint64_t differ = 0;
  std::optional<Difference> first{};  // in row-major order; empty when none differs

  bool equal() const { return differ == 0; }
  // Adds another result of the same operation. The first difference stays.
  void add(const Comparison& other);
};

// What is beyond a bound of the exact results, of elements in a format of the card.
struct Judgement {
  Comparison beyond;          // "differ" are the elements beyond the bound; `expected` is the exact one, rounded
  double largest_error = 0;   // of an element that is a number
  double relative_error = 0;  // that, relative to the largest magnitude of the exact result
  double worst = 0;           // the largest error in parts of its bound

  bool within() const { return beyond.equal(); }
  void add(const Judgement& other);
};

// `exact`: in double precision, of the operands that the card has. Infinity and NaN have to be what they are in the
// format: beyond the largest number of DL16 a result is infinite, and NaN is not. Throws as compare().
Judgement judge(const Array& got, const Array& exact, DeviceType device_dtype, const Bound& bound);

// What is wrong with a result of this operation in this format, if anything: its bound is that of the table.
std::optional<std::string> beyond_bound(Op op, DeviceType device_dtype, const Array& got, const Array& exact);

// By value: NaN equals NaN, and -0 equals +0. Throws InvalidArgument ("results") when the shapes differ.
Comparison compare(const Array& got, const Array& expected);

// "element [3,17] is 0.5, not 0.25; 1 of 4096 elements differ", or "4096 of 4096 elements equal".
std::string describe(const Comparison& comparison);

}  // namespace svp::ops
