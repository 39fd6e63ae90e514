// SPDX-License-Identifier: Apache-2.0
// Valid device programs at random, with arguments to run them on: what the golden model and the engine are compared
// with. Every program passes wire::program::check_program(), reads no byte of the workspace that it has not written,
// and has no index that leads outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "shared/device_program.hpp"

namespace svp::test {

struct ProgramLimits {
  std::vector<wire::program::Opcode> opcodes;  // one of these is chosen for each operation
  // of first inputs, where the opcode takes them; empty: all that it takes
  std::vector<wire::program::Format> formats{};
  unsigned operations = 1;         // besides copies to and from the workspace
  std::uint64_t positions = 4096;  // of an operation: the product of its extents
  unsigned rank = wire::program::kMaxRank;
  // that operands share; what an index leads to has one of its own besides
  unsigned arguments = 6;
  bool loops = false;      // up to two around each operation
  bool workspace = false;  // operands in the pool, and in scratchpads with splits
};

struct RandomProgram {
  std::vector<std::byte> program;
  std::vector<wire::program::Argument> entries;
  std::vector<std::vector<std::byte>> arguments;  // as they are before the launch
  wire::program::Header header;                   // with the workspace and the scratchpads that it needs
  std::string text;                               // opcode, formats and extents of its operations, for messages
};

RandomProgram random_program(std::mt19937_64& random, const ProgramLimits& limits);

// SPYRE_SEED, or a new one. Print it with a failure: it repeats the run.
std::uint64_t program_seed();

// Every opcode but the loops, in the order of its number.
std::vector<wire::program::Opcode> all_opcodes();

}  // namespace svp::test
