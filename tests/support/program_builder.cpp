// SPDX-License-Identifier: Apache-2.0
#include "tests/support/program_builder.hpp"

#include <algorithm>
#include <cstring>

#include "shared/device_program_check.hpp"

namespace svp::test {
namespace {

using namespace wire::program;

std::uint64_t steps_along(const Operand& operand, std::span<const std::uint32_t> extent, unsigned dimension) {
  const std::uint32_t lanes = dimension == operand.stick_dim ? lanes_of(operand.format) : 1;
  return (extent[dimension] + lanes - 1) / lanes;
}

}  // namespace

Operand dense_operand(Format format, std::span<const std::uint32_t> extent, std::span<const unsigned> order,
                      std::uint8_t stick_dim) {
  Operand operand{};
  operand.base = Base::Argument;
  operand.format = format;
  operand.stick_dim = stick_dim;
  std::ranges::fill(operand.split, std::uint8_t{1});
  std::uint64_t step = wire::kStickBytes;
  for (const unsigned d : order) {
    operand.present |= static_cast<std::uint8_t>(1u << d);
    operand.stride[d] = step;
    step *= steps_along(operand, extent, d);
  }
  return operand;
}

std::uint64_t bytes_of(const Operand& operand, std::span<const std::uint32_t> extent) {
  std::uint64_t bytes = wire::kStickBytes;
  for (unsigned d = 0; d < extent.size(); ++d) bytes += operand.stride[d] * (steps_along(operand, extent, d) - 1);
  return bytes;
}

Operation operation_of(Opcode opcode, std::span<const std::uint32_t> extent) {
  Operation operation{};
  operation.opcode = opcode;
  operation.rank = static_cast<std::uint8_t>(extent.size());
  std::ranges::copy(extent, operation.extent);
  return operation;
}

std::uint8_t ProgramBuilder::add_argument(std::uint64_t bytes, Access access) {
  arguments_.push_back({bytes, access, 0});
  return static_cast<std::uint8_t>(arguments_.size() - 1);
}

std::uint64_t ProgramBuilder::add_data(std::span<const std::byte> bytes) {
  const std::uint64_t at = data_.size();
  data_.insert(data_.end(), bytes.begin(), bytes.end());
  data_.resize(wire::align_up(data_.size(), wire::kStickBytes));
  return at;
}

Header ProgramBuilder::header() const {
  Header header{};
  header.magic = kMagic;
  header.version = kVersion;
  header.argument_count = static_cast<std::uint32_t>(arguments_.size());
  header.operation_count = static_cast<std::uint32_t>(operations_.size());
  header.arguments_offset = sizeof header;
  header.operations_offset =
      wire::align_up(header.arguments_offset + arguments_.size() * sizeof(Argument), wire::kStickBytes);
  header.data_offset = header.operations_offset + operations_.size() * sizeof(Operation);
  header.data_bytes = data_.size();
  header.program_bytes = header.data_offset + header.data_bytes;
  header.pool_bytes = pool_bytes;
  header.slices = slices;
  header.scratchpad_bytes = scratchpad_bytes;
  header.flags = flags;
  return header;
}

std::vector<std::byte> ProgramBuilder::build() const {
  const Header head = header();
  std::vector<std::byte> program(head.program_bytes);
  std::memcpy(program.data(), &head, sizeof head);
  const auto put = [&](std::uint64_t at, const auto& parts) {
    const auto bytes = std::as_bytes(std::span(parts));
    std::ranges::copy(bytes, program.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(head.arguments_offset, arguments_);
  put(head.operations_offset, operations_);
  put(head.data_offset, data_);
  seal(program);
  return program;
}

Operation dense_operation(ProgramBuilder& builder, Opcode opcode, std::uint32_t elements, unsigned inputs) {
  constexpr unsigned kOrder[] = {0};
  const std::uint32_t extent[] = {elements};
  Operation operation = operation_of(opcode, extent);
  for (unsigned i = 0; i <= inputs; ++i) {
    Operand operand = dense_operand(Format::Dl16, extent, kOrder, 0);
    operand.argument = builder.add_argument(bytes_of(operand, extent), i < inputs ? Access::Read : Access::Write);
    operation.operand[operation.operand_count++] = operand;
  }
  return operation;
}

void seal(std::span<std::byte> program) {
  const std::uint32_t crc = checksum_of(program);
  std::memcpy(program.data() + offsetof(Header, crc32c), &crc, sizeof crc);
}

}  // namespace svp::test
