// SPDX-License-Identifier: Apache-2.0
// Conversions between formats of different size whose lanes change places, as the arrays of the card do it
// (docs/device-programs.md): DL16 and FP32, DL16 and FP8, and DL16 into sticks of FP8 weights, which hold two positions
// of one dimension and 64 of the stick dimension. Element by element.
#include <bit>

#include "firmware/kernels/engine/elements.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/number.hpp"

namespace kernel::engine {
namespace {

constexpr std::uint32_t kWeightColumns = 64;
constexpr std::uint32_t kWeightRows = 2;

// The position of the input that is at this position of the output. Groups of `group` lanes of two sticks of the wider
// format stand in turn in one stick of the narrower one.
std::uint32_t position_in_narrow(std::uint32_t position, std::uint32_t group, std::uint32_t lanes) {
  const std::uint32_t stick = position / lanes;
  const std::uint32_t lane = position % lanes;
  return stick / 2 * 2 * lanes + lane / group * 2 * group + stick % 2 * group + lane % group;
}
std::uint32_t position_in_wide(std::uint32_t position, std::uint32_t group, std::uint32_t lanes) {
  const std::uint32_t stick = position / (2 * lanes);
  const std::uint32_t lane = position % (2 * lanes);
  return (stick * 2 + lane % (2 * group) / group) * lanes + lane / (2 * group) * group + lane % group;
}

std::uint32_t origin(Opcode opcode, std::uint32_t position) {
  switch (opcode) {
    case Opcode::Dl16ToFp32: return position_in_narrow(position, 4, 32);
    case Opcode::Fp32ToDl16: return position_in_wide(position, 4, 32);
    case Opcode::Dl16ToFp8: return position_in_wide(position, 8, 64);
    case Opcode::Fp8ToDl16: return position_in_narrow(position, 8, 64);
    default: return position;
  }
}

class Stagger {
 public:
  explicit Stagger(const Work& work)
      : work_(work),
        from_(work.operation.operand[0]),
        to_(work.output()),
        along_(to_.stick_dim),
        rows_of_(work.operation.opcode == Opcode::Dl16ToFp8Weight ? std::countr_zero(work.operation.reduced) : 0),
        is_weight_(work.operation.opcode == Opcode::Dl16ToFp8Weight) {}

  void run() {
    Index index{};
    std::uint64_t number = 0;
    do {
      if (number++ % work_.cores == work_.core) stick(index);
    } while (advance(index));
  }

 private:
  std::uint32_t step_of(unsigned d) const {
    if ((to_.present >> d & 1) == 0) return work_.operation.extent[d] / to_.split[d];
    return positions_of_stick(d);
  }
  // Of the output.
  std::uint32_t positions_of_stick(unsigned d) const {
    if (is_weight_ && d == rows_of_) return kWeightRows;
    if (d != along_) return 1;
    return is_weight_ ? kWeightColumns : program::lanes_of(to_.format);
  }

  bool advance(Index& index) const {
    for (unsigned d = 0; d < work_.operation.rank; ++d) {
      index.of[d] += step_of(d);
      if (index.of[d] < work_.operation.extent[d]) return true;
      index.of[d] = 0;
    }
    return false;
  }

  // Of a whole stick of the output.
  std::uint64_t output_address(const Index& index) const {
    std::uint64_t address = work_.address(to_);
    for (unsigned d = 0; d < work_.operation.rank; ++d) {
      std::uint32_t n = index.of[d];
      if (to_.base == program::Base::Scratchpad && to_.split[d] > 1) {
        const std::uint32_t part = work_.operation.extent[d] / to_.split[d];
        address += std::uint64_t{n / part} * to_.split_stride[d] * work_.header.scratchpad_bytes;
        n %= part;
      }
      if ((to_.present >> d & 1) != 0) address += to_.stride[d] * (n / positions_of_stick(d));
    }
    return address;
  }

  void stick(const Index& first) {
    const std::uint64_t to = output_address(first);
    const std::uint32_t lanes = program::lanes_of(to_.format);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      Index from = input_index(work_, first);
      if (is_weight_) {
        from.of[rows_of_] += lane % kWeightRows;
        from.of[along_] += lane / kWeightRows;
      } else {
        from.of[along_] = origin(work_.operation.opcode, from.of[along_] + lane);
      }
      store_element(to + lane * program::item_bytes(to_.format), program::item_bytes(to_.format), element(from));
    }
  }

  std::uint32_t element(const Index& from) const {
    const std::uint32_t lanes = from_.stick_dim == program::kNoDimension ? 1 : program::lanes_of(from_.format);
    if (from_.stick_dim != program::kNoDimension &&
        from.of[from_.stick_dim] >= wire::align_up(work_.operation.extent[from_.stick_dim], lanes)) {
      return 0;
    }
    if (is_weight_ && from.of[rows_of_] >= work_.operation.extent[rows_of_]) return 0;
    const std::uint32_t code = load_element(address_of(work_, from_, from), program::item_bytes(from_.format));
    return number::code_of(to_.format, number::value_of(from_.format, code));
  }

  const Work& work_;
  const Operand& from_;
  const Operand& to_;
  unsigned along_;
  unsigned rows_of_;
  bool is_weight_;
};

}  // namespace

Refusal stagger(const Work& work) {
  Stagger(work).run();
  return {};
}

}  // namespace kernel::engine
