// SPDX-License-Identifier: Apache-2.0
#include "tests/device/kernels/engine_programs.hpp"

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

program::Operation operation_of(program::Opcode opcode, std::initializer_list<std::uint32_t> extents) {
  program::Operation operation{};
  operation.opcode = opcode;
  operation.rank = static_cast<std::uint8_t>(extents.size());
  std::ranges::copy(extents, operation.extent);
  return operation;
}

std::uint64_t add_operand(program::Operation& operation, const Layout& layout) {
  program::Operand& operand = operation.operand[operation.operand_count++];
  operand.format = layout.format;
  operand.stick_dim = layout.stick_dim;
  std::ranges::copy(layout.split, operand.split);
  std::ranges::copy(layout.split_stride, operand.split_stride);
  std::uint64_t step = wire::kStickBytes;
  for (const unsigned d : layout.order) {
    operand.present = static_cast<std::uint8_t>(operand.present | 1u << d);
    operand.stride[d] = step;
    std::uint64_t units = operation.extent[d] / layout.split[d];
    if (d == layout.stick_dim)
      units = wire::align_up(units, program::lanes_of(layout.format)) / program::lanes_of(layout.format);
    step *= units + layout.gap;
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

}  // namespace kernel_test
