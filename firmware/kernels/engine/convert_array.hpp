// SPDX-License-Identifier: Apache-2.0
// Units of a conversion by the compute array: of Copy into another format, and of those that stagger lanes.
#pragma once

#include <cstdint>

#include "firmware/kernels/engine/loop_nest.hpp"

namespace kernel::engine {

// The sticks of a unit (wire::array::ConvertRequest).
struct UnitSticks {
  std::uint32_t from;
  std::uint32_t to;
  std::uint64_t from_step;  // bytes
  std::uint64_t to_step;
  bool single;
};

class UnitsByArray {
 public:
  explicit UnitsByArray(const Work& work) : work_(work), asks_(work.array != nullptr) {}

  // How many units of the run, from the first one on, the array has made.
  std::uint64_t given(const Run& run, const UnitSticks& unit) {
    constexpr std::uint64_t kFewest = 4;  // sticks of the run
    if (!asks_ || run.count * std::max(unit.from, unit.to) < kFewest) return 0;
    return give(run, unit);
  }

 private:
  std::uint64_t give(const Run& run, const UnitSticks& unit);

  const Work& work_;
  bool asks_;  // false when it has refused, too
};

}  // namespace kernel::engine
