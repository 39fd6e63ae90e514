// SPDX-License-Identifier: Apache-2.0
// Where the elements of operands lie: the address formula of shared/device_program.hpp, written down once more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "host_driver/program/golden/golden.hpp"
#include "shared/device_program_opcodes.hpp"

namespace svp::program::golden {

using Index = std::array<std::uint32_t, wire::program::kMaxRank>;

// What a launch brings: arguments, the workspace, and scratchpads.
class Memory {
 public:
  Memory(std::span<const std::byte> program, const wire::program::Header& header,
         std::span<const std::span<std::byte>> arguments, Scratchpads* scratchpads);
  // All of an operand's base; `slice` counts for a scratchpad only.
  std::span<std::byte> of(const wire::program::Operand& operand, unsigned slice);

 private:
  std::vector<std::span<std::byte>> arguments_;
  std::vector<std::byte> data_;
  std::vector<std::byte> pool_;
  Scratchpads of_this_launch_;
  Scratchpads& scratchpads_;
  std::size_t scratchpad_bytes_;
};

// One execution of one operation.
struct Step {
  const wire::program::Operation& operation;
  const wire::program::OpcodeRow& row;
  std::uint32_t number;
  std::array<std::uint32_t, wire::program::kMaxLoops> iteration;
  Memory& memory;
  Order order;
};

// One operand of a step.
class View {
 public:
  View(const Step& step, unsigned operand);

  const wire::program::Operand& operand() const { return operand_; }
  wire::program::Format format() const { return operand_.format; }
  bool has_dimension(unsigned dimension) const { return (operand_.present >> dimension & 1) != 0; }
  // How many positions along a dimension there are, pad lanes included.
  std::uint32_t padded_extent(unsigned dimension) const;
  // False: a pad lane of another operand, which this one has not.
  bool has_lane(const Index& n) const;

  std::uint32_t bits(const Index& n, std::uint64_t beyond = 0) const;
  // Without a stick dimension: in all lanes. In all copies.
  void set(const Index& n, std::uint32_t bits, std::uint64_t beyond = 0) const;
  std::array<std::byte, wire::kStickBytes> stick(const Index& n) const;
  void set_stick(const Index& n, std::span<const std::byte, wire::kStickBytes> stick) const;
  // `beyond` bytes further, the element is still inside of the base.
  bool reaches(const Index& n, std::uint64_t beyond) const;

 private:
  struct Place {
    unsigned slice;
    std::uint64_t offset;  // of the stick
    unsigned lane;
  };
  struct Slices {
    std::array<unsigned, wire::program::kMaxSlices> of;
    unsigned count;
    std::span<const unsigned> all() const { return std::span(of).first(count); }
  };
  Place place(const Index& n) const;
  Place first_copy(Index n) const;
  std::span<std::byte> stick_at(unsigned slice, std::uint64_t offset) const;
  Slices slices_of_copies(unsigned first) const;
  std::uint32_t positions_per_step(unsigned dimension) const;
  std::uint32_t lane_of(unsigned dimension, std::uint32_t position) const;

  const Step& step_;
  const wire::program::Operand& operand_;
  bool is_fp8_weight_;
  bool is_fp8_product_input_;  // its lanes are in the order that Dl16ToFp8 leaves
};

// Visits 0 … count[d] - 1 in all dimensions; the last one changes fastest. Descending: from the last to the first.
template <typename Visit>
void for_each_index(Order order, const Index& count, Visit visit) {
  Index position{};
  for (;;) {  // bounded: it counts to the last index
    Index n = position;
    for (unsigned d = 0; order == Order::Descending && d < wire::program::kMaxRank; ++d) n[d] = count[d] - 1 - n[d];
    visit(n);
    unsigned d = wire::program::kMaxRank;
    while (d > 0 && ++position[d - 1] == count[d - 1]) position[--d] = 0;
    if (d == 0) return;
  }
}

// The positions along the dimensions of `dimensions`, one along the others; pad lanes of `view` when `padded`.
Index counts(const Step& step, const View& view, std::uint8_t dimensions, bool padded);

// Writes 0 into the lanes of an output that lie beyond the extent of its stick dimension.
void zero_pad_lanes(const Step& step, const View& output);

bool is_masked(const wire::program::Operation& operation, const Index& n);

}  // namespace svp::program::golden
