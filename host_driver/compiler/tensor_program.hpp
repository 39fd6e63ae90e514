// SPDX-License-Identifier: Apache-2.0
// The compiler's intermediate form: operations on tensors in memory, with strides and loops, and nothing of the SDSC
// that they came from. Passes change it; write_program() makes a device program of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "host_driver/compiler/source_place.hpp"
#include "shared/device_program.hpp"

namespace svp::compiler {

inline constexpr unsigned kMaxRank = wire::program::kMaxRank;
inline constexpr unsigned kMaxLoops = wire::program::kMaxLoops;
inline constexpr unsigned kNoStick = kMaxRank;

// How an operation reaches a tensor: wire::program::Operand, with numbers that may still be out of its range. Dimension
// d is that of the operation.
struct TensorUse {
  wire::program::Base base = wire::program::Base::Argument;
  std::uint32_t argument = 0;
  wire::program::Format format = wire::program::Format::Dl16;
  unsigned stick = kNoStick;
  std::array<bool, kMaxRank> present{};
  std::int64_t offset = 0;
  std::array<std::int64_t, kMaxRank> stride{};
  std::array<std::int64_t, kMaxLoops> loop_stride{};
  std::array<std::uint32_t, kMaxRank> split{1, 1, 1, 1, 1, 1, 1, 1};
  std::array<std::uint32_t, kMaxRank> split_stride{};

  friend bool operator==(const TensorUse&, const TensorUse&) = default;
};

struct TensorMask {
  unsigned dimension = 0;
  std::uint32_t start = 0;
  std::uint32_t count = 0;
};

struct TensorOp {
  wire::program::Opcode opcode = wire::program::Opcode::Copy;
  std::vector<std::uint32_t> extent;  // LoopBegin: the iterations
  std::vector<TensorUse> operands;    // the output is the last one
  unsigned reduced = kNoStick;        // a dimension
  std::vector<TensorMask> masks{};
  float mask_value = 0;
  std::vector<float> constants{};
  std::uint64_t page = 0;
  unsigned line = 0;  // of bundle.mlir
};

// The bytes that the use reaches from its base, [first, second), with the loops around it.
std::pair<std::int64_t, std::int64_t> reach_of(const TensorUse& use, const std::vector<std::uint32_t>& extent,
                                               const std::vector<std::uint32_t>& loops);

struct TensorProgram {
  std::uint32_t arguments = 0;
  // Of each, at least; what operations reach is added. Empty: nothing else.
  std::vector<std::uint64_t> argument_bytes{};
  std::vector<TensorOp> operations;  // with LoopBegin and LoopEnd
  std::vector<std::byte> data;       // whole sticks
  std::uint64_t pool_bytes = 0;      // at least; what operations reach is added
};

// The end of what operations reach in the pool from below `begin`.
std::uint64_t reach_in_pool(const TensorProgram& program, std::uint64_t begin);

// Throws InvalidPlan (the line of bundle.mlir): a number is beyond what the format holds.
std::vector<std::byte> write_program(const TensorProgram& program);

}  // namespace svp::compiler
