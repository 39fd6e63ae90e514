// SPDX-License-Identifier: Apache-2.0
#include "tests/device/kernels/engine_layouts.hpp"

#include <algorithm>
#include <cstring>

namespace kernel_test {
namespace {

template <typename T>
std::uint64_t append(Bytes& bytes, std::span<const T> items) {
  const std::uint64_t offset = wire::align_up(bytes.size(), wire::kStickBytes);
  bytes.resize(offset + wire::align_up(items.size_bytes(), wire::kStickBytes));
  if (!items.empty()) std::memcpy(bytes.data() + offset, items.data(), items.size_bytes());
  return offset;
}

}  // namespace

program::Header new_header() {
  program::Header header{};
  header.magic = program::kMagic;
  header.version = program::kVersion;
  return header;
}

Bytes Program::bytes() const {
  Bytes all(sizeof header);
  program::Header written = header;
  written.argument_count = static_cast<std::uint32_t>(arguments.size());
  written.operation_count = static_cast<std::uint32_t>(operations.size());
  written.arguments_offset = append<program::Argument>(all, arguments);
  written.operations_offset = append<program::Operation>(all, operations);
  written.data_offset = append<std::byte>(all, data);
  written.data_bytes = data.size();
  written.program_bytes = all.size();
  std::memcpy(all.data(), &written, sizeof written);
  return all;
}

std::uint64_t add_operand(program::Operation& operation, const Layout& layout) {
  program::Operand& operand = operation.operand[operation.operand_count++];
  operand.format = layout.format;
  operand.stick_dim = layout.stick_dim;
  std::ranges::copy(layout.split, operand.split);
  std::ranges::copy(layout.split_stride, operand.split_stride);
  const bool is_weight = layout.alternates != program::kNoDimension;
  const unsigned lanes = program::lanes_of(layout.format) / (is_weight ? 2 : 1);
  std::uint64_t step = wire::kStickBytes;
  for (const unsigned d : layout.order) {
    operand.present = static_cast<std::uint8_t>(operand.present | 1u << d);
    operand.stride[d] = step;
    std::uint64_t units = operation.extent[d] / layout.split[d];
    if (d == layout.stick_dim) units = wire::align_up(units, lanes) / lanes;
    if (d == layout.alternates) units = wire::align_up(units, 2) / 2;
    step *= units + (d == layout.order.front() ? layout.gap : 0);
  }
  return step;
}

void add_argument(Program& made, program::Operation& operation, const Layout& layout, program::Access access,
                  Random& random) {
  const std::uint64_t bytes = add_operand(operation, layout);
  program::Operand& operand = operation.operand[operation.operand_count - 1];
  operand.base = program::Base::Argument;
  operand.argument = static_cast<std::uint8_t>(made.arguments.size());
  operand.offset = random() % 3 * wire::kStickBytes;
  made.arguments.push_back(
      {.bytes = operand.offset + bytes + random() % 3 * wire::kStickBytes, .access = access, .reserved = 0});
}

// ---- random ones ----------------------------------------------------------------------------------------------------

namespace {

// Extents of random size whose product stays small: one dimension after the other takes what is left.
void choose_extents(program::Operation& operation, std::uint8_t stick_dim, unsigned lanes, std::uint32_t sticks,
                    Random& random) {
  for (unsigned d = 0; d < operation.rank; ++d) {
    const std::uint32_t limit = std::max<std::uint32_t>(1, std::min<std::uint32_t>(sticks, 1 + below(random, 40)));
    const std::uint32_t units = 1 + below(random, limit);
    sticks /= units;
    operation.extent[d] = d == stick_dim ? (units - 1) * lanes + 1 + below(random, lanes) : units;
  }
}

void add_masks(program::Operation& operation, std::uint8_t stick_dim, unsigned lanes, Random& random) {
  operation.mask_count = static_cast<std::uint8_t>(below(random, 3));
  if (operation.mask_count != 0) operation.mask_value = static_cast<std::uint32_t>(random());
  for (unsigned m = 0; m < operation.mask_count; ++m) {
    const std::uint32_t d = below(random, operation.rank);
    const std::uint32_t end =
        d == stick_dim ? static_cast<std::uint32_t>(wire::align_up(operation.extent[d], lanes)) : operation.extent[d];
    const std::uint32_t start = below(random, end);
    operation.mask[m] = {d, start, 1 + below(random, end - start)};
  }
}

}  // namespace

std::uint32_t below(Random& random, std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); }

Layout random_layout(const program::Operation& operation, program::Format format, std::uint8_t present,
                     std::uint8_t stick_dim, Random& random) {
  Layout layout{.format = format, .stick_dim = stick_dim, .order = {}, .gap = random() % 3 == 0 ? below(random, 3) : 0};
  for (unsigned d = 0; d < operation.rank; ++d) {
    if ((present >> d & 1) != 0) layout.order.push_back(d);
  }
  if (random() % 3 != 0) std::ranges::shuffle(layout.order, random);
  return layout;
}

Program random_elementwise(const Recipe& recipe, Random& random) {
  Program made;
  program::Operation operation{};
  operation.opcode = recipe.opcode;
  operation.rank = static_cast<std::uint8_t>(1 + below(random, program::kMaxRank));
  const unsigned lanes = program::lanes_of(recipe.to);
  const std::uint8_t stick_dim =
      random() % 8 == 0 ? program::kNoDimension : static_cast<std::uint8_t>(below(random, operation.rank));
  choose_extents(operation, stick_dim, lanes, recipe.largest_sticks, random);
  if (random() % 4 == 0) add_masks(operation, stick_dim, lanes, random);
  if (recipe.opcode == program::Opcode::Clip) {
    for (unsigned i = 0; i < 2; ++i) operation.constant[i] = static_cast<std::uint32_t>(random()) & 0xCF7FFFFF;
  }
  const auto all = static_cast<std::uint8_t>((1u << operation.rank) - 1);
  for (unsigned i = 0; i < recipe.inputs; ++i) {
    const auto present = static_cast<std::uint8_t>(random() % 2 == 0 ? all : all & random());
    const bool in_lanes = stick_dim != program::kNoDimension && (present >> stick_dim & 1) != 0;
    const Layout layout =
        random_layout(operation, recipe.from, present, in_lanes ? stick_dim : program::kNoDimension, random);
    add_argument(made, operation, layout, program::Access::Read, random);
  }
  add_argument(made, operation, random_layout(operation, recipe.to, all, stick_dim, random), program::Access::Write,
               random);
  made.operations.push_back(operation);
  return made;
}

}  // namespace kernel_test
