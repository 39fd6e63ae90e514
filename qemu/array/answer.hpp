// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
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

inline Answer refused(std::uint32_t operand = wire::array::kNoOperand) {
  return {.outcome = wire::array::Outcome::Refused, .operand = operand};
}
inline Answer missing(unsigned operand, std::uint64_t address) {
  return {.outcome = wire::array::Outcome::Missing, .operand = operand, .address = address};
}

}  // namespace svp::array
