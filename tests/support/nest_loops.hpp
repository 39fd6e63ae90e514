// SPDX-License-Identifier: Apache-2.0
// A random nest of the wire (random_nests.hpp) in the form of the driver.
#pragma once

#include <span>

#include "host_driver/tensor/strided_loops.hpp"
#include "tests/support/random_nests.hpp"

namespace svp::test {

inline StridedLoops loops_of(std::span<const wire::StridedLevel> levels) {
  StridedLoops loops;
  for (const wire::StridedLevel& level : levels) {
    loops.size.push_back(static_cast<std::int64_t>(level.count));
    loops.src_stride.push_back(level.source_stride);
    loops.dst_stride.push_back(level.destination_stride);
  }
  return loops;
}

inline StridedLoops loops_of(const Nest& nest) {
  StridedLoops loops = loops_of(nest.levels);
  loops.src_offset = static_cast<std::int64_t>(nest.source / nest.element_bytes);
  loops.dst_offset = static_cast<std::int64_t>(nest.destination / nest.element_bytes);
  return loops;
}

}  // namespace svp::test
