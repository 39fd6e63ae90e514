// SPDX-License-Identifier: Apache-2.0
// Device programs by hand: operands from shapes, and the bytes of a program from its parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "shared/device_program.hpp"

namespace svp::test {

// A dense tensor: dimensions of `order`, innermost first, one stick after the other. The stick dimension is one of
// them, or wire::program::kNoDimension. `extent` is that of the operation.
wire::program::Operand dense_operand(wire::program::Format format, std::span<const std::uint32_t> extent,
                                     std::span<const unsigned> order, std::uint8_t stick_dim);
// From the offset to the end of its last stick, not split, in one iteration of loops.
std::uint64_t bytes_of(const wire::program::Operand& operand, std::span<const std::uint32_t> extent);

// An operation with nothing but its extents.
wire::program::Operation operation_of(wire::program::Opcode opcode, std::span<const std::uint32_t> extent);
inline wire::program::Operation operation_of(wire::program::Opcode opcode,
                                             std::initializer_list<std::uint32_t> extent) {
  return operation_of(opcode, std::span(extent.begin(), extent.size()));
}

class ProgramBuilder {
 public:
  std::uint8_t add_argument(std::uint64_t bytes, wire::program::Access access);
  // Returns where it lies in the data of the program.
  std::uint64_t add_data(std::span<const std::byte> bytes);
  void add(const wire::program::Operation& operation) { operations_.push_back(operation); }
  void begin_loop(std::uint32_t iterations) { add(operation_of(wire::program::Opcode::LoopBegin, {iterations})); }
  void end_loop() { add(operation_of(wire::program::Opcode::LoopEnd, {})); }

  std::vector<wire::program::Argument>& arguments() { return arguments_; }
  std::vector<wire::program::Operation>& operations() { return operations_; }
  std::uint64_t pool_bytes = 0;
  std::uint32_t slices = 0;
  std::uint32_t scratchpad_bytes = 0;
  std::uint32_t flags = 0;

  wire::program::Header header() const;
  // The program, with its checksum.
  std::vector<std::byte> build() const;

 private:
  std::vector<wire::program::Argument> arguments_;
  std::vector<wire::program::Operation> operations_;
  std::vector<std::byte> data_;
};

// An element-wise operation on DL16 tensors of one dimension, each a new argument: so many inputs, then the result.
wire::program::Operation dense_operation(ProgramBuilder& builder, wire::program::Opcode opcode, std::uint32_t elements,
                                         unsigned inputs);

// Makes the checksum right again after a change.
void seal(std::span<std::byte> program);

}  // namespace svp::test
