// SPDX-License-Identifier: Apache-2.0
#include "tests/support/random_operations.hpp"

#include <algorithm>
#include <bit>

#include "tests/support/random_numbers.hpp"

namespace svp::test {
namespace {

using namespace wire::program;

std::uint8_t bit(unsigned dimension) { return static_cast<std::uint8_t>(1u << dimension); }

class Maker {
 public:
  Maker(std::mt19937_64& random, Opcode opcode, const ProgramLimits& limits)
      : random_(random), row_(*find_opcode(opcode)), limits_(limits) {
    operation_.opcode = opcode;
  }

  Operation make() {
    choose_format();
    choose_extents();
    all_ = static_cast<std::uint8_t>((1u << operation_.rank) - 1);
    switch (row_.family) {
      case Family::Relayout: make_relayout(); break;
      case Family::Indexed: make_indexed(); break;
      case Family::Reduction: make_reduction(); break;
      case Family::MatMul: make_matmul(); break;
      case Family::TopK: make_top_k(); break;
      default: make_element_wise(); break;
    }
    choose_masks();
    choose_constants();
    return operation_;
  }

 private:
  Operand& output() { return operation_.operand[operation_.operand_count - 1u]; }
  Operand& operand(unsigned i) { return operation_.operand[i]; }
  unsigned any_dimension() { return static_cast<unsigned>(below(random_, operation_.rank)); }
  unsigned other_than(unsigned dimension) {
    return static_cast<unsigned>((dimension + 1 + below(random_, operation_.rank - 1u)) % operation_.rank);
  }

  Format any_of(std::uint8_t formats) {
    for (;;) {  // bounded: the formats of a row are not empty
      const auto format = static_cast<Format>(below(random_, kFormats));
      if (has_format(formats, format)) return format;
    }
  }
  void choose_format() {
    std::uint8_t allowed = 0;
    for (const Format format : limits_.formats) allowed |= format_bit(format);
    allowed = (allowed & row_.inputs) != 0 ? allowed & row_.inputs : row_.inputs;
    const Format first = any_of(allowed);
    operation_.operand[0].format = first;  // says whether a function has a table
    operation_.operand_count = static_cast<std::uint8_t>(operand_count(row_, operation_));
    for (unsigned i = 0; i < operation_.operand_count; ++i) {
      const Role role = role_of(row_, operation_, i);
      Operand& it = operation_.operand[i];
      it.stick_dim = kNoDimension;
      std::ranges::fill(it.split, std::uint8_t{1});
      if (role == Role::Table) {
        it.format = Format::Dl16;
      } else if (role == Role::Index) {
        it.format = one_in(random_, 2) ? Format::Int32 : Format::Uint32;
      } else {
        it.format = is_output(role) && row_.rule != FormatRule::Same ? output_format(first) : first;
      }
    }
  }
  Format output_format(Format input) {
    if (row_.rule == FormatRule::Each && has_format(row_.output, input) && one_in(random_, 2)) return input;
    Format format = any_of(row_.output);
    while (row_.rule == FormatRule::SameSize && item_bytes(format) != item_bytes(input)) format = any_of(row_.output);
    return format;
  }

  void choose_extents() {
    const unsigned least = row_.family == Family::MatMul ? 3 : 2;
    const unsigned most = std::max(least, limits_.rank);
    operation_.rank = static_cast<std::uint8_t>(one_in(random_, 3) ? 1 + below(random_, most) : least);
    if (needs_two_dimensions() || row_.family == Family::MatMul) {
      operation_.rank = std::max(operation_.rank, static_cast<std::uint8_t>(least));
    }
    long_dim_ = any_dimension();
    std::uint64_t left = limits_.positions;
    const auto take = [&](unsigned d, std::uint64_t most_positions) {
      operation_.extent[d] = static_cast<std::uint32_t>(1 + below(random_, std::min(left, most_positions)));
      left = std::max<std::uint64_t>(1, left / operation_.extent[d]);
    };
    take(long_dim_, 300);
    for (unsigned d = 0; d < operation_.rank; ++d) {
      if (d != long_dim_) take(d, one_in(random_, 3) ? 130 : 5);
    }
  }
  bool needs_two_dimensions() const {
    return row_.family == Family::Relayout || row_.family == Family::TopK || row_.family == Family::Indexed ||
           row_.reduces == Reduces::Alternate;
  }
  unsigned stick_choice() { return one_in(random_, 4) ? any_dimension() : long_dim_; }

  // Dimensions of an operand that is the same along some of the others.
  std::uint8_t some_of(std::uint8_t dimensions) {
    if (one_in(random_, 2)) return dimensions;
    return dimensions & static_cast<std::uint8_t>(random_());
  }
  void follow(Operand& input, std::uint8_t dimensions, std::uint8_t stick_dim) {
    input.present = some_of(dimensions);
    const bool along = stick_dim != kNoDimension && (input.present & bit(stick_dim)) != 0;
    input.stick_dim = along ? stick_dim : kNoDimension;
  }

  void make_element_wise() {
    const bool sparse = row_.family != Family::Stagger && one_in(random_, 8);  // one element in each stick
    output().present = all_;
    output().stick_dim = sparse ? kNoDimension : static_cast<std::uint8_t>(stick_choice());
    if (row_.reduces == Reduces::Alternate) operation_.reduced = bit(other_than(output().stick_dim));
    for (unsigned i = 0; i + 1u < operation_.operand_count; ++i) {
      const Role role = role_of(row_, operation_, i);
      if (role == Role::Table) continue;
      const bool pair = role == Role::Pair && !sparse;
      follow(operand(i), pair ? all_ & ~bit(output().stick_dim) : all_, output().stick_dim);
      if (role == Role::Pair) operand(i).stick_dim = kNoDimension;
      if (row_.family != Family::Stagger) continue;
      operand(i).present = all_;
      operand(i).stick_dim = output().stick_dim;
    }
  }

  void make_relayout() {
    const unsigned of_input = stick_choice();
    const unsigned of_output = other_than(of_input);
    output().present = all_;
    output().stick_dim = static_cast<std::uint8_t>(of_output);
    operand(0).present = some_of(all_) | bit(of_input) | bit(of_output);
    operand(0).stick_dim = static_cast<std::uint8_t>(of_input);
    if (!one_in(random_, 4)) return;  // one of the two has one element in each stick
    (one_in(random_, 2) ? operand(0) : output()).stick_dim = kNoDimension;
  }

  void make_indexed() {
    const auto stick = static_cast<std::uint8_t>(stick_choice());
    std::uint8_t indexed = static_cast<std::uint8_t>(random_()) & all_ & ~bit(stick);
    if (indexed == 0) indexed = bit(other_than(stick));
    const std::uint8_t direct = all_ & ~indexed;
    const bool scatters = operation_.opcode == Opcode::Scatter;
    operand(0).present = indexed;
    if (!one_in(random_, 3)) {
      operand(0).stick_dim = static_cast<std::uint8_t>(std::countr_zero(indexed));
    }
    follow(operand(1), scatters ? all_ : direct, stick);
    output().present = scatters ? direct : all_;
    output().stick_dim = stick;
  }

  void make_reduction() {
    const unsigned reduced = stick_choice();
    operation_.reduced = bit(reduced);
    Operand& input = operand(0);
    input.present = all_;
    output().present = all_ & ~bit(reduced);
    const bool along_stick = operation_.opcode == Opcode::Exx2 || operation_.rank == 1 || one_in(random_, 2);
    if (along_stick) {
      input.stick_dim = one_in(random_, 8) ? kNoDimension : static_cast<std::uint8_t>(reduced);
    } else {
      input.stick_dim = output().stick_dim = static_cast<std::uint8_t>(other_than(reduced));
    }
  }

  // Dimensions: k of both inputs; n of the right one; the others of the left one, of the right one, or of all.
  void make_matmul() {
    const unsigned k = stick_choice();
    const unsigned n = other_than(k);
    operation_.reduced = bit(k);
    std::uint8_t left = bit(k), right = bit(k) | bit(n);
    for (unsigned d = 0; d < operation_.rank; ++d) {
      if (d == k || d == n) continue;
      const std::uint64_t kind = below(random_, 4);
      if (kind != 0) left |= bit(d);
      if (kind <= 1) right |= bit(d);
    }
    operand(0).present = left;
    operand(0).stick_dim = static_cast<std::uint8_t>(k);
    operand(1).present = right;
    output().present = all_ & ~bit(k);
    // one element in each stick of the output; of the right input, too, or its sticks along k
    if (!is_weight(row_.role[1]) && one_in(random_, 4)) {
      if (one_in(random_, 2)) operand(1).stick_dim = static_cast<std::uint8_t>(k);
      return;
    }
    operand(1).stick_dim = output().stick_dim = static_cast<std::uint8_t>(n);
  }

  void make_top_k() {
    const unsigned searched = stick_choice();
    const unsigned ranks = other_than(searched);
    operation_.reduced = bit(searched);
    operation_.extent[ranks] = std::min(operation_.extent[ranks], operation_.extent[searched]);
    Operand& input = operand(0);
    input.present = all_ & ~bit(ranks);
    output().present = all_ & ~bit(searched);
    const std::uint8_t others = input.present & output().present;
    if (others != 0 && one_in(random_, 2)) {
      input.stick_dim = output().stick_dim = static_cast<std::uint8_t>(std::countr_zero(others));
    } else {
      input.stick_dim = one_in(random_, 4) ? kNoDimension : static_cast<std::uint8_t>(searched);
      output().stick_dim = one_in(random_, 3) ? kNoDimension : static_cast<std::uint8_t>(ranks);
    }
  }

  void choose_masks() {
    if (row_.masks == Masks::None || !one_in(random_, 3)) return;
    operation_.mask_count = static_cast<std::uint8_t>(1 + below(random_, kMaxMasks));
    for (unsigned i = 0; i < operation_.mask_count; ++i) {
      const unsigned d =
          row_.masks == Masks::Reduced ? static_cast<unsigned>(std::countr_zero(operation_.reduced)) : any_dimension();
      std::uint32_t end = operation_.extent[d];
      const std::uint8_t stick_dim = row_.masks == Masks::Reduced ? operand(0).stick_dim : output().stick_dim;
      if (stick_dim == d) end = wire::align_up(end, lanes_of(output().format));
      Mask& mask = operation_.mask[i];
      mask.dimension = d;
      mask.start = static_cast<std::uint32_t>(below(random_, end));
      mask.count = static_cast<std::uint32_t>(1 + below(random_, end - mask.start));
      if (one_in(random_, 6)) mask.start = 0, mask.count = end;
    }
    if (row_.masks == Masks::Elements) operation_.mask_value = any_constant();
  }

  std::uint32_t any_constant() {
    constexpr float kValues[] = {0.0F, -0.0F, 1.0F, -2.5F, 0.001F, 65504.0F, 1e20F, -1e-20F};
    return std::bit_cast<std::uint32_t>(kValues[below(random_, std::size(kValues))]);
  }
  void choose_constants() {
    for (unsigned i = 0; i < row_.constants; ++i) operation_.constant[i] = any_constant();
    const auto set = [&](unsigned i, float value) { operation_.constant[i] = std::bit_cast<std::uint32_t>(value); };
    switch (operation_.opcode) {
      case Opcode::Clip: set(0, -2.75F), set(1, one_in(random_, 4) ? -3.0F : 6.1F); break;
      case Opcode::Softplus: set(0, 1.0F), set(1, 20.0F); break;
      case Opcode::LayerNormScale: set(0, 1e-5F); break;
      default: break;
    }
  }

  std::mt19937_64& random_;
  const OpcodeRow& row_;
  const ProgramLimits& limits_;
  Operation operation_{};
  unsigned long_dim_ = 0;
  std::uint8_t all_ = 0;
};

}  // namespace

Operation random_operation(std::mt19937_64& random, Opcode opcode, const ProgramLimits& limits) {
  return Maker(random, opcode, limits).make();
}

}  // namespace svp::test
