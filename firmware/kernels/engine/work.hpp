// SPDX-License-Identifier: Apache-2.0
// What a family of operations gets to execute one operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "shared/array.hpp"
#include "shared/device_program.hpp"
#include "shared/kernel_abi.hpp"

namespace kernel::engine {

using wire::program::Opcode;
using wire::program::Operand;
using wire::program::Operation;
using wire::program::Refusal;
using wire::program::Where;
namespace program = wire::program;

// Where the program and its operands lie, in the address space of the launch.
struct Places {
  std::uint64_t program;
  const std::uint64_t* argument;
  std::uint64_t tables;  // of functions
  std::uint64_t pool;
  std::uint64_t scratchpads;  // that of slice 0; the others at multiples of program::kScratchpadStride
};

// Memory of a core for whatever a family needs while it executes one operation. Undefined at its start.
inline constexpr std::size_t kWorkingBytes = 1280 * wire::kKiB;
struct alignas(wire::kStickBytes) Working {
  std::byte bytes[kWorkingBytes];
};

// One operation, checked, as this core has to execute it: cores 0 … cores - 1 execute it at the same time, each another
// part of its outputs.
struct Work {
  const program::Header& header;
  std::span<const program::Argument> arguments;
  const Places& places;
  const Operation& operation;
  std::uint32_t number;
  const std::uint32_t* iteration;  // of the enclosing loops, outermost first
  unsigned depth;
  unsigned core;
  unsigned cores;
  Working& working;
  wire::array::Request* array;  // null: the card has no compute array

  unsigned inputs() const { return operation.operand_count - 1u; }
  const Operand& output() const { return operation.operand[operation.operand_count - 1]; }
  Refusal refuse(Where where, unsigned operand = program::kNoOperand) const {
    return {where, static_cast<std::uint8_t>(operand), number};
  }
  // Of the element with all indices 0; in the scratchpad of slice 0.
  std::uint64_t address(const Operand& operand) const;
};

// What one core takes for the operation, about, in nanoseconds of the emulated card: what decides whether more than one
// core executes it.
std::uint64_t cost_of(const Operation& operation);

}  // namespace kernel::engine
