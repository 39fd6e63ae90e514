// SPDX-License-Identifier: Apache-2.0
// Elements one by one, by the formula of shared/device_program.hpp: for operands whose parts do not fall together with
// the sticks or blocks that a family handles at a time. Slow.
#pragma once

#include "firmware/kernels/engine/loop_nest.hpp"

namespace kernel::engine {

struct Index {
  std::uint32_t of[kMaxRank];
};

// Where inputs are read for an index of the output: copies along what the output has not come from the first position.
Index input_index(const Work& work, const Index& index);

// Of an element, in the address space of the launch.
std::uint64_t address_of(const Work& work, const Operand& operand, const Index& index);

std::uint32_t load_element(std::uint64_t address, unsigned bytes);
void store_element(std::uint64_t address, unsigned bytes, std::uint32_t bits);

// The sticks of the output that belong to this core: `visit` gets the first position of each, along its stick
// dimension.
template <typename Visit>
void for_each_output_stick(const Work& work, Visit visit) {
  const Operand& output = work.output();
  const Operation& operation = work.operation;
  std::uint32_t step[kMaxRank];
  for (unsigned d = 0; d < operation.rank; ++d) {
    const bool copies = (output.present >> d & 1) == 0;
    step[d] = copies ? operation.extent[d] / output.split[d] : d == output.stick_dim ? lanes_of(output.format) : 1;
  }
  Index index{};
  std::uint64_t number = 0;
  for (;;) {  // bounded: by the sticks of the output
    if (number++ % work.cores == work.core) visit(index);
    unsigned d = 0;
    for (; d < operation.rank; ++d) {
      if (operation.extent[d] - index.of[d] > step[d]) {
        index.of[d] += step[d];
        break;
      }
      index.of[d] = 0;
    }
    if (d == operation.rank) return;
  }
}

}  // namespace kernel::engine
