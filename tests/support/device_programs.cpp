// SPDX-License-Identifier: Apache-2.0
#include "tests/support/device_programs.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <stdexcept>

#include "host_driver/program/function_tables.hpp"
#include "shared/device_program_check.hpp"
#include "shared/device_program_names.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/support/random_numbers.hpp"
#include "tests/support/random_operations.hpp"

namespace svp::test {
namespace {

using namespace wire::program;
using wire::kStickBytes;

// Making a table takes much longer than a program; what is in it does not matter to most tests.
std::span<const std::byte> table_of(Opcode function) {
  static std::vector<std::vector<wire::Dl16>> tables(0x100);
  auto& table = tables.at(static_cast<unsigned>(function));
  if (table.empty()) table = program::function_table(function);
  return std::as_bytes(std::span(table));
}

class ProgramMaker {
 public:
  ProgramMaker(std::mt19937_64& random, const ProgramLimits& limits) : random_(random), limits_(limits) {}

  RandomProgram make() {
    for (unsigned i = 0; i < limits_.operations; ++i) add_operation();
    builder_.pool_bytes = pool_bytes_;
    if (one_in(random_, 4)) builder_.flags |= kOneStorage;
    builder_.slices = slices_;
    builder_.scratchpad_bytes = static_cast<std::uint32_t>(scratchpad_bytes_);
    for (std::size_t i = 0; i < contents_.size(); ++i) builder_.arguments()[i].bytes = contents_[i].size();
    RandomProgram made{builder_.build(), builder_.arguments(), std::move(contents_), builder_.header(),
                       std::move(text_)};
    const Refusal refusal = check_program(made.program);
    if (refusal.ok()) return made;
    throw std::logic_error("a random program is refused: " + std::string(name(refusal.where)) + ", operation " +
                           std::to_string(refusal.operation) + ", operand " + std::to_string(refusal.operand) + ": " +
                           made.text);
  }

 private:
  struct Region {
    std::uint8_t argument;
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  void add_operation() {
    const Opcode opcode = limits_.opcodes[below(random_, limits_.opcodes.size())];
    operation_ = random_operation(random_, opcode, limits_);
    row_ = find_opcode(opcode);
    describe();
    loops_.clear();
    if (limits_.loops && one_in(random_, 2)) loops_.resize(1 + below(random_, 2));
    for (std::uint32_t& iterations : loops_) iterations = static_cast<std::uint32_t>(1 + below(random_, 3));
    for (const std::uint32_t iterations : loops_) builder_.begin_loop(iterations);
    place_operands();
    const auto behind = take_detours();
    builder_.add(operation_);
    for (const Operation& copy : behind) builder_.add(copy);
    for (std::size_t i = 0; i < loops_.size(); ++i) builder_.end_loop();
  }

  void describe() {
    text_ += std::string(text_.empty() ? "" : "; ") + std::string(name(operation_.opcode));
    for (unsigned i = 0; i < operation_.operand_count; ++i) {
      text_ += (i == 0 ? " " : ",") + std::string(name(operation_.operand[i].format));
    }
    for (unsigned d = 0; d < operation_.rank; ++d)
      text_ += (d == 0 ? " [" : ",") + std::to_string(operation_.extent[d]);
    text_ += "]";
  }

  unsigned last() const { return operation_.operand_count - 1u; }
  Role role(unsigned i) const { return role_of(*row_, operation_, i); }

  // ---- where operands lie -------------------------------------------------------------------------------------------

  // Dimensions and loops step over each other in any order, with gaps; what is only read may have strides of 0. Returns
  // the bytes from the offset to the end.
  std::uint64_t lay_out(Operand& operand, unsigned i, bool may_repeat) {
    struct Level {
      std::uint64_t* stride;
      std::uint64_t count;
    };
    std::vector<Level> levels;
    for (unsigned d = 0; d < operation_.rank; ++d) {
      if (!has_dimension(operand.present, d)) continue;
      const std::uint32_t per_step = positions_per_step(*row_, operation_, i, d);
      levels.push_back({&operand.stride[d], (operation_.extent[d] / operand.split[d] + per_step - 1) / per_step});
    }
    for (std::size_t l = 0; l < loops_.size(); ++l) {
      if (!one_in(random_, 3)) levels.push_back({&operand.loop_stride[l], loops_[l]});
    }
    std::ranges::shuffle(levels, random_);
    std::uint64_t reach = kStickBytes;
    for (const Level& level : levels) {
      const bool repeats = may_repeat && one_in(random_, 16);
      *level.stride = repeats ? 0 : reach + (one_in(random_, 4) ? kStickBytes * (1 + below(random_, 3)) : 0);
      reach += *level.stride * (level.count - 1);
    }
    return reach;
  }

  // A new place in an argument that several operands share.
  Region new_region(std::uint64_t bytes) {
    const bool fresh = shared_.size() < limits_.arguments && (shared_.empty() || one_in(random_, 2));
    if (fresh) shared_.push_back(new_argument());
    const std::uint8_t argument = fresh ? shared_.back() : shared_[below(random_, shared_.size())];
    auto& content = contents_[argument];
    if (one_in(random_, 2)) content.resize(content.size() + kStickBytes * below(random_, 4));
    const Region region{argument, content.size(), bytes};
    content.resize(content.size() + bytes);
    regions_.push_back(region);
    return region;
  }
  std::uint8_t new_argument() {
    contents_.emplace_back();
    return builder_.add_argument(0, Access::None);
  }
  std::span<std::byte> bytes_of_region(const Region& region) {
    return std::span(contents_[region.argument]).subspan(region.offset, region.bytes);
  }
  void use(Operand& operand, const Region& region, Access access) {
    operand.base = Base::Argument;
    operand.argument = region.argument;
    operand.offset = region.offset;
    auto& entry = builder_.arguments()[region.argument].access;
    entry = static_cast<Access>(static_cast<std::uint32_t>(entry) | static_cast<std::uint32_t>(access));
  }

  void place_operands() {
    usable_ = regions_.size();  // what an earlier operation has read or written
    pages_ = 1;
    place_output();
    for (unsigned i = last(); i-- > 0;) place_input(i);  // the index last: its values depend on the pages
  }

  void place_output() {
    Operand& output = operation_.operand[last()];
    if (role(last()) == Role::IndirectOutput) return place_indirect(last(), Access::ReadWrite);
    const Region region = new_region(lay_out(output, last(), false));
    fill_with_any_bytes(random_, bytes_of_region(region));
    use(output, region, Access::Write);
  }

  void place_input(unsigned i) {
    Operand& input = operation_.operand[i];
    switch (role(i)) {
      case Role::Table: return place_table(input);
      case Role::Indirect: return place_indirect(i, Access::Read);
      case Role::Input:
        if (may_lie_in_place(input) && one_in(random_, 6)) return place_under_output(input);
        break;
      default: break;
    }
    const std::uint64_t bytes = lay_out(input, i, true);
    const bool numbers = role(i) == Role::Input || role(i) == Role::Weight;
    use(input, numbers ? any_region(bytes, input.format) : filled_region(i, bytes), Access::Read);
  }

  Region any_region(std::uint64_t bytes, Format format) {
    if (usable_ != 0 && one_in(random_, 3)) {
      const Region& region = regions_[below(random_, usable_)];
      if (region.bytes >= bytes) return region;
    }
    const Region region = new_region(bytes);
    fill_with_numbers(random_, format, bytes_of_region(region));
    return region;
  }
  Region filled_region(unsigned i, std::uint64_t bytes) {
    const Region region = new_region(bytes);
    if (role(i) == Role::Pair) fill_with_pairs(random_, bytes_of_region(region));
    if (role(i) == Role::Index) fill_with_indices(random_, pages_, bytes_of_region(region));
    return region;
  }

  void place_table(Operand& operand) {
    if (one_in(random_, 2) && operation_.opcode != Opcode::Softplus) {
      operand.base = Base::Tables;
      operand.offset = table_offset(operation_.opcode);
      builder_.flags |= kFunctionTables;
      return;
    }
    const bool real = !one_in(random_, 4);
    std::vector<std::byte> any;
    if (!real) fill_with_any_bytes(random_, any = std::vector<std::byte>(kTableBytes));
    operand.base = Base::Data;
    operand.offset = builder_.add_data(real ? table_of(operation_.opcode) : std::span<const std::byte>(any));
  }

  // An argument of its own, with a few pages.
  void place_indirect(unsigned i, Access access) {
    Operand& operand = operation_.operand[i];
    const std::uint64_t reach = lay_out(operand, i, !is_output(role(i)));
    pages_ = static_cast<std::uint32_t>(1 + below(random_, 6));
    operation_.page = reach + kStickBytes * below(random_, 3);
    const Region region{new_argument(), kStickBytes * below(random_, 3), reach + (pages_ - 1) * operation_.page};
    contents_[region.argument].resize(region.offset + region.bytes);
    fill_with_numbers(random_, operand.format, contents_[region.argument]);
    use(operand, region, access);
  }

  bool may_lie_in_place(const Operand& input) const {
    const Operand& output = operation_.operand[last()];
    const Family family = row_->family;
    const bool element_wise = family == Family::Copy || family == Family::Pointwise || family == Family::Function ||
                              family == Family::LayerNorm;
    return element_wise && input.present == output.present && input.stick_dim == output.stick_dim &&
           item_bytes(input.format) == item_bytes(output.format);
  }
  void place_under_output(Operand& input) {
    const Format format = input.format;
    input = operation_.operand[last()];
    input.format = format;
    const Region region{input.argument, input.offset, box_reach(last())};
    fill_with_numbers(random_, format, bytes_of_region(region));
    use(input, region, Access::Read);
  }
  std::uint64_t box_reach(unsigned i) const {
    std::uint64_t reach = box_of(*row_, operation_, i).reach();
    for (std::size_t l = 0; l < loops_.size(); ++l) reach += operation_.operand[i].loop_stride[l] * (loops_[l] - 1);
    return reach;
  }

  // ---- through the workspace ----------------------------------------------------------------------------------------

  // Some operands are copied into the workspace before the operation, or out of it behind it. Returns the copies
  // behind.
  std::vector<Operation> take_detours() {
    std::vector<Operation> behind;
    for (unsigned i = 0; limits_.workspace && i < operation_.operand_count; ++i) {
      if (!may_take_detour(i) || one_in(random_, 2)) continue;
      if (i != last() && operation_.operand[i].offset == operation_.operand[last()].offset) continue;  // in place
      Operand& operand = operation_.operand[i];
      const Place there{operand, operation_.page};
      operand = in_workspace(i);
      const Place here{operand, operation_.page};
      // A Scatter leaves what is there on pages that no index names.
      if (i != last() || role(i) == Role::IndirectOutput) builder_.add(copy_between(i, there, here));
      if (i == last()) behind.push_back(copy_between(i, here, there));
    }
    return behind;
  }
  bool may_take_detour(unsigned i) const {
    const Role of = role(i);
    if (of == Role::Table || is_weight(of)) return false;
    return !(is_paged(of) || is_pair(of)) || operation_.rank < kMaxRank;  // their copies have one dimension more
  }
  static bool is_paged(Role of) { return of == Role::Indirect || of == Role::IndirectOutput; }
  static bool is_pair(Role of) { return of == Role::Pair || of == Role::PairOutput; }

  struct Place {
    Operand operand;
    std::uint64_t page;
  };
  // All pages of what an index leads to; the bits of whole sticks of pairs.
  Operation copy_between(unsigned i, const Place& from, const Place& to) const {
    std::array<std::uint32_t, kMaxRank> extent{};
    std::ranges::copy(operation_.extent, extent.begin());
    const unsigned added = operation_.rank;
    const bool more = is_paged(role(i)) || is_pair(role(i));
    if (more) extent.at(added) = is_paged(role(i)) ? pages_ : lanes_of(from.operand.format);
    Operation copy = operation_of(Opcode::Copy, std::span(extent).first(added + (more ? 1u : 0u)));
    copy.operand_count = 2;
    copy.operand[0] = from.operand;
    copy.operand[1] = to.operand;
    for (unsigned o = 0; more && o < 2; ++o) {
      Operand& operand = copy.operand[o];
      operand.present = static_cast<std::uint8_t>(operand.present | 1U << added);
      if (is_paged(role(i))) operand.stride[added] = o == 0 ? from.page : to.page;
      if (is_pair(role(i))) operand.stick_dim = static_cast<std::uint8_t>(added);
    }
    return copy;
  }

  // In the workspace, with pages of their own.
  std::uint64_t lay_out_with_pages(Operand& operand, unsigned i) {
    const std::uint64_t reach = lay_out(operand, i, false);
    if (!is_paged(role(i))) return reach;
    operation_.page = reach + kStickBytes * below(random_, 3);
    return reach + (pages_ - 1) * operation_.page;
  }
  Operand in_workspace(unsigned i) {
    Operand operand = operation_.operand[i];
    std::ranges::fill(operand.stride, 0);
    std::ranges::fill(operand.loop_stride, 0);
    Operand in_scratchpad = operand;
    split(in_scratchpad, i);
    const std::uint64_t bytes = lay_out_with_pages(in_scratchpad, i);
    if (!one_in(random_, 3) && scratchpad_bytes_ + bytes <= kMaxSliceScratchpadBytes) {
      in_scratchpad.base = Base::Scratchpad;
      in_scratchpad.argument = 0;
      in_scratchpad.offset = scratchpad_bytes_;
      scratchpad_bytes_ += bytes;
      std::uint32_t slices = 1;
      for (unsigned d = 0; d < operation_.rank; ++d)
        slices += (in_scratchpad.split[d] - 1u) * in_scratchpad.split_stride[d];
      slices_ = std::max(slices_, slices);
      return in_scratchpad;
    }
    const std::uint64_t in_pool = lay_out_with_pages(operand, i);
    operand.base = Base::Pool;
    operand.argument = 0;
    operand.offset = pool_bytes_;
    pool_bytes_ += in_pool;
    return operand;
  }
  // Dimensions that can be, present or not, into equal parts of whole sticks.
  void split(Operand& operand, unsigned i) {
    unsigned slices = 1;
    for (unsigned d = 0; d < operation_.rank; ++d) {
      const auto parts = static_cast<unsigned>(1 + below(random_, 4));
      const std::uint32_t extent = operation_.extent[d];
      if (parts == 1 || slices * parts > kMaxSlices || extent % parts != 0) continue;
      if (extent / parts % positions_per_step(*row_, operation_, i, d) != 0) continue;
      if (extent / parts % positions_per_step(*row_, operation_, last(), d) != 0) continue;
      operand.split[d] = static_cast<std::uint8_t>(parts);
      operand.split_stride[d] = static_cast<std::uint8_t>(slices);
      slices *= parts;
    }
  }

  std::mt19937_64& random_;
  const ProgramLimits& limits_;
  ProgramBuilder builder_;
  std::vector<std::vector<std::byte>> contents_;  // of arguments
  std::vector<std::uint8_t> shared_;
  std::vector<Region> regions_;
  std::size_t usable_ = 0;
  std::uint64_t pool_bytes_ = 0;
  std::uint64_t scratchpad_bytes_ = 0;
  std::uint32_t slices_ = 0;
  std::string text_;
  // Of the operation that is being made:
  Operation operation_{};
  const OpcodeRow* row_ = nullptr;
  std::vector<std::uint32_t> loops_;
  std::uint32_t pages_ = 1;
};

}  // namespace

RandomProgram random_program(std::mt19937_64& random, const ProgramLimits& limits) {
  return ProgramMaker(random, limits).make();
}

std::uint64_t program_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("SPYRE_SEED");
    const std::uint64_t value = text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device{}();
    std::printf("  device programs with seed %llu; SPYRE_SEED=%llu repeats them\n",
                static_cast<unsigned long long>(value), static_cast<unsigned long long>(value));
    return value;
  }();
  return seed;
}

std::vector<Opcode> all_opcodes() {
  std::vector<Opcode> opcodes;
  for (const OpcodeRow& row : kOpcodes) {
    if (row.family != Family::Loop) opcodes.push_back(row.opcode);
  }
  return opcodes;
}

}  // namespace svp::test
