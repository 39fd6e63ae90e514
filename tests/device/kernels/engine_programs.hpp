// SPDX-License-Identifier: Apache-2.0
// Programs of one operation on dense tensors, each in an argument of its own.
#pragma once

#include <cstring>
#include <vector>

#include "host_driver/program/function_tables.hpp"
#include "shared/device_program_opcodes.hpp"
#include "tests/support/program_builder.hpp"

namespace kernel_test {

struct OneOperation {
  wire::program::Operation operation;
  svp::test::ProgramBuilder builder;
  std::vector<std::vector<std::byte>> arguments;

  OneOperation(wire::program::Opcode opcode, std::initializer_list<std::uint32_t> extent)
      : operation(svp::test::operation_of(opcode, extent)) {}

  // Dimensions of `order`, innermost first.
  void add(wire::program::Format format, std::vector<unsigned> order, std::uint8_t stick_dim,
           wire::program::Access access) {
    const std::span<const std::uint32_t> extent(operation.extent, operation.rank);
    wire::program::Operand& operand = operation.operand[operation.operand_count++];
    operand = svp::test::dense_operand(format, extent, order, stick_dim);
    const std::uint64_t bytes = svp::test::bytes_of(operand, extent);
    operand.argument = builder.add_argument(bytes, access);
    arguments.emplace_back(bytes, std::byte{0});
  }
  void add_table(std::span<const wire::Dl16> table) {
    wire::program::Operand& operand = operation.operand[operation.operand_count++];
    operand = svp::test::dense_operand(wire::program::Format::Dl16, {}, {}, wire::program::kNoDimension);
    operand.base = wire::program::Base::Data;
    operand.offset = builder.add_data(std::as_bytes(table));
    for (unsigned d = 0; d < operation.rank; ++d) operand.split[d] = 1;
  }
  std::vector<std::byte> program() const {
    svp::test::ProgramBuilder whole = builder;
    whole.add(operation);
    return whole.build();
  }
};

}  // namespace kernel_test
