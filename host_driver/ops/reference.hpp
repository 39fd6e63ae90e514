// SPDX-License-Identifier: Apache-2.0
// The operations of operation_table.hpp in double precision on plain row-major arrays, as PyTorch defines them: what
// results are compared with. Slow and simple; shares nothing with the lowering.
#pragma once

#include <cstdint>
#include <vector>

#include "host_driver/ops/operation_table.hpp"

namespace svp::ops {

struct Array {
  std::vector<std::int64_t> size;
  std::vector<double> data;  // row-major

  static Array of(std::vector<std::int64_t> size);
  Array seen_as(std::vector<std::int64_t> other) const;  // the same elements; as many in that shape
  std::int64_t count() const { return static_cast<std::int64_t>(data.size()); }
};

// Inputs, scalars and integers as in Request. One array; two of TopK.
std::vector<Array> reference(Op op, const std::vector<Array>& inputs, const std::vector<double>& scalars = {},
                             const std::vector<std::int64_t>& integers = {});

}  // namespace svp::ops
