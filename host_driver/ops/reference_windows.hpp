// SPDX-License-Identifier: Apache-2.0
// Part of reference.hpp: pooling and convolution.
#pragma once

#include <cstdint>
#include <vector>

#include "host_driver/ops/reference.hpp"

namespace svp::ops {

Array reference_pool(Op op, const Array& images, const std::vector<std::int64_t>& integers);
Array reference_convolution(const std::vector<Array>& inputs, const std::vector<std::int64_t>& integers);

}  // namespace svp::ops
