// SPDX-License-Identifier: Apache-2.0
// One core's execution of a program: what is in card memory is copied once, checked, and only the copy is used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "firmware/kernels/engine/launch.hpp"
#include "firmware/kernels/engine/work.hpp"
#include "shared/device_program_check.hpp"

namespace kernel::engine {

// Copies of operations that are kept: a loop of no more operations does not copy and check them in each iteration.
inline constexpr std::uint32_t kKeptOperations = 512;

// A program as a launch has copied and checked it. The next launch that finds the same bytes does not check them again.
// Whoever else can write here, another kernel of the same function, reaches the function's memory without the engine as
// well.
struct alignas(wire::kStickBytes) KnownProgram {
  program::Header header;
  std::uint64_t address;  // of the program
  std::uint32_t checked;  // operations in front of this number passed the check, with this header and these arguments
};
template <std::uint32_t kArguments, std::uint32_t kOperations>
struct KeptProgram {
  static constexpr std::uint32_t kMostArguments = kArguments;
  static constexpr std::uint32_t kMostOperations = kOperations;
  KnownProgram known;
  program::Argument argument[kArguments];  // whole sticks
  Operation operation[kOperations];
  static_assert(sizeof(argument) % wire::kStickBytes == 0);
};

// A model launches a few dozen small programs in turn. Each is looked for by its address, in kWays places.
using SmallProgram = KeptProgram<16, 6>;
using LargeProgram = KeptProgram<program::kMaxArguments, kKeptOperations>;
inline constexpr std::uint32_t kSets = 16;
inline constexpr std::uint32_t kWays = 2;

// What a core needs of its scratchpad.
struct alignas(wire::kStickBytes) Memory {
  wire::array::Request request;  // where the compute array looks for it
  SmallProgram small[kSets][kWays];
  LargeProgram large;
  std::uint8_t last_way[kSets];  // that was taken for another program
  Launch launch;
  Working working;
};
static_assert(sizeof(Memory) <= wire::kScratchpadBytes && offsetof(Memory, request) == 0);

class Execution {
 public:
  Execution(Memory& memory, const wire::KernelArguments& arguments);

  // Of all operations. The first refusal ends it.
  Refusal run();

 private:
  Refusal read_header(const Launch& launch);
  Refusal find_program();
  Refusal take_program();
  template <typename Kept>
  void use(Kept& kept);
  template <typename Kept>
  bool fits(const program::Header& header) const;
  std::uint64_t bytes_available() const;
  Refusal read_arguments();
  Refusal check_arguments();
  Refusal fetch(std::uint32_t number, std::uint32_t slot);
  bool is_known(const Operation& operation, std::uint32_t number);
  Refusal take_over(const Operation& operation, std::uint32_t number, std::uint32_t slot);
  Refusal check(const Operation& operation, std::uint32_t number);
  Refusal step(const Operation& operation, std::uint32_t& number);
  void begin_loop(const Operation& operation, std::uint32_t& number);
  void end_loop(std::uint32_t& number);
  Refusal execute(const Operation& operation, std::uint32_t number);
  void wait_for_others(bool shared);

  Memory& memory_;
  KnownProgram* known_ = nullptr;
  program::Argument* argument_ = nullptr;
  Operation* operation_ = nullptr;
  Places places_;
  Refusal refusal_;
  unsigned core_;
  unsigned cores_;
  bool has_array_;
  program::LoopStack loops_;
  std::uint32_t checked_ = 0;               // operations that were checked at least once: those in front of this number
  std::uint32_t loop_[program::kMaxLoops];  // first operation behind the LoopBegin
  std::uint32_t iteration_[program::kMaxLoops];
  bool executed_ = false;         // any operation since the last barrier
  bool executed_shared_ = false;  // one that all cores took part in
  std::uint32_t kept_[kKeptOperations];
};

// The family of the operation executes it (engine.cpp).
Refusal dispatch(const Work& work);

}  // namespace kernel::engine
