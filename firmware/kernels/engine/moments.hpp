// SPDX-License-Identifier: Apache-2.0
// What Exx2 leaves in a stick for LayerNormScale and LayerNormNorm.
#pragma once

#include <cstdint>

#include "shared/units.hpp"

namespace kernel::engine {

struct Moments {
  double mean;    // constant · Σx
  double square;  // constant · Σx²
};

// The rest of the stick is 0.
struct alignas(wire::kStickBytes) MomentsStick {
  Moments moments;
  std::uint8_t zero[wire::kStickBytes - sizeof(Moments)];
};
static_assert(sizeof(MomentsStick) == wire::kStickBytes);

}  // namespace kernel::engine
