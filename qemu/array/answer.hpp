// SPDX-License-Identifier: Apache-2.0
// What a request is answered with.
#pragma once

#include <cstdint>

#include "shared/array.hpp"

namespace svp::array {

struct Answer {
  wire::array::Outcome outcome;
  std::uint32_t operand = wire::array::kNoOperand;
  std::uint64_t done = 0;
  std::uint64_t address = 0;
};

}  // namespace svp::array
