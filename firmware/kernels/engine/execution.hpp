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

// What a core needs of its scratchpad.
struct alignas(wire::kStickBytes) Memory {
  wire::array::Request request;  // where the compute array looks for it
  program::Header header;
  program::Argument argument[program::kMaxArguments];  // whole sticks
  Operation operation[kKeptOperations];
  // Operations in front of this number passed the check, with this header and these arguments. The next launch that
  // finds the same bytes does not check them again. Whoever else can write here, another kernel of the same function,
  // reaches the function's memory without the engine as well.
  std::uint32_t checked;
  Launch launch;
  Working working;
};
static_assert(sizeof(Memory) <= wire::kScratchpadBytes && offsetof(Memory, request) == 0);
static_assert(sizeof(Memory::argument) % wire::kStickBytes == 0);

class Execution {
 public:
  Execution(Memory& memory, const wire::KernelArguments& arguments);

  // Of all operations. The first refusal ends it.
  Refusal run();

 private:
  Refusal read_header(const Launch& launch);
  Refusal check_header() const;
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
