// SPDX-License-Identifier: Apache-2.0
// A program of one operation for the golden model: each operand is a dense tensor in an argument of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "host_driver/program/golden/golden.hpp"
#include "tests/support/program_builder.hpp"

namespace svp::test {

class OneOperation {
 public:
  OneOperation(wire::program::Opcode opcode, std::initializer_list<std::uint32_t> extent)
      : operation(operation_of(opcode, extent)) {}

  void input(wire::program::Format format, std::span<const unsigned> order, std::uint8_t stick_dim) {
    add(format, order, stick_dim, wire::program::Access::Read);
  }
  void output(wire::program::Format format, std::span<const unsigned> order, std::uint8_t stick_dim) {
    add(format, order, stick_dim, wire::program::Access::Write);
  }
  void resize_argument(unsigned argument, std::size_t bytes) {
    arguments_[argument].assign(bytes, std::byte{0xC3});
    builder_.arguments()[argument].bytes = bytes;
  }

  // An element of an argument.
  template <typename T>
  T& at(unsigned argument, std::size_t offset) {
    return reinterpret_cast<T&>(arguments_.at(argument).at(offset));
  }
  // Different bits in most elements.
  void number_elements(unsigned argument) {
    for (std::size_t i = 0; i < arguments_[argument].size(); i += 2) {
      at<std::uint16_t>(argument, i) = static_cast<std::uint16_t>(i / 2 * 7 + 1);
    }
  }

  void run() {
    ProgramBuilder program = builder_;
    program.add(operation);
    std::vector<std::span<std::byte>> spans(arguments_.begin(), arguments_.end());
    program::golden::run(program.build(), spans);
  }

  wire::program::Operation operation;

 private:
  void add(wire::program::Format format, std::span<const unsigned> order, std::uint8_t stick_dim,
           wire::program::Access access) {
    const std::span<const std::uint32_t> extent(operation.extent, operation.rank);
    wire::program::Operand& operand = operation.operand[operation.operand_count++];
    operand = dense_operand(format, extent, order, stick_dim);
    const std::uint64_t bytes = bytes_of(operand, extent);
    operand.argument = builder_.add_argument(bytes, access);
    arguments_.emplace_back(bytes, std::byte{0xC3});
  }

  ProgramBuilder builder_;
  std::vector<std::vector<std::byte>> arguments_;
};

}  // namespace svp::test
