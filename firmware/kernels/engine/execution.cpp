// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/execution.hpp"

#include <algorithm>
#include <cstring>

#include "firmware/kernels/sdk.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::engine {
namespace {

// An operation of fewer sticks is executed by core 0 alone: a barrier costs more than the others would save.
constexpr std::uint64_t kSharedSticks = 256;

constexpr std::uint32_t kNone = ~std::uint32_t{0};

void copy_operation(const Operation* from, Operation* to) {
  static_assert(sizeof(Operation) == 8 * wire::kStickBytes);
  store_registers8(to, load_sticks8(from));
}

}  // namespace

Execution::Execution(const Launch& launch, Memory& memory, unsigned core, unsigned cores)
    : memory_(memory), places_{}, core_(core), cores_(cores) {
  refusal_ = launch.refusal.ok() ? read_header(launch) : launch.refusal;
}

Refusal Execution::read_header(const Launch& launch) {
  constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << wire::kRegionShift;
  places_.program = launch.address[0];
  program::Header& header = memory_.header;
  store_register(&header, load_stick(reinterpret_cast<const void*>(places_.program)));
  const Refusal refusal = program::check_header(header, kWindowBytes - places_.program % kWindowBytes);
  if (!refusal.ok()) return refusal;
  std::memcpy(memory_.argument, reinterpret_cast<const void*>(places_.program + header.arguments_offset),
              header.argument_count * sizeof(program::Argument));
  for (std::uint8_t i = 0; i < header.argument_count; ++i) {
    if (const Refusal bad = program::check_argument(memory_.argument[i], i); !bad.ok()) return bad;
  }
  const std::uint32_t with_workspace = program::workspace_bytes(header) != 0 ? 1 : 0;
  if (launch.count != 1 + header.argument_count + with_workspace) return {.where = Where::Correction};
  std::copy_n(launch.address + 1, header.argument_count, places_.argument);
  std::fill_n(kept_, std::min(header.operation_count, kKeptOperations), kNone);
  if (with_workspace != 0) places_.pool = launch.address[launch.count - 1];
  places_.scratchpads = places_.pool + header.pool_bytes;
  return {};
}

Refusal Execution::run() {
  if (!refusal_.ok()) return refusal_;
  std::uint32_t number = 0;
  while (number < memory_.header.operation_count) {
    const std::uint32_t slot = number % kKeptOperations;
    Refusal refusal;
    if (kept_[slot] != number) refusal = fetch(number, slot);
    if (refusal.ok()) refusal = step(memory_.operation[slot], number);
    if (!refusal.ok()) return refusal;
  }
  return program::check_end(loops_);
}

Refusal Execution::fetch(std::uint32_t number, std::uint32_t slot) {
  const auto* from = reinterpret_cast<const Operation*>(places_.program + memory_.header.operations_offset);
  copy_operation(from + number, &memory_.operation[slot]);
  const Refusal refusal = check(memory_.operation[slot], number);
  kept_[slot] = refusal.ok() ? number : kNone;
  return refusal;
}

Refusal Execution::check(const Operation& operation, std::uint32_t number) {
  program::LoopStack after = loops_;
  const Refusal refusal = program::check_operation(memory_.header, {memory_.argument, memory_.header.argument_count},
                                                   operation, number, after);
  // What it adds to the count of executed operations has all iterations in it, so it is added once.
  if (number >= checked_) loops_.executed = after.executed;
  checked_ = std::max(checked_, number + 1);
  return refusal;
}

Refusal Execution::step(const Operation& operation, std::uint32_t& number) {
  if (operation.opcode == Opcode::LoopBegin) {
    begin_loop(operation, number);
  } else if (operation.opcode == Opcode::LoopEnd) {
    end_loop(number);
  } else {
    return execute(operation, number++);
  }
  return {};
}

void Execution::begin_loop(const Operation& operation, std::uint32_t& number) {
  const unsigned l = loops_.depth++;
  loops_.count[l] = operation.extent[0];
  loop_[l] = ++number;
  iteration_[l] = 0;
}

void Execution::end_loop(std::uint32_t& number) {
  const unsigned l = loops_.depth - 1;
  if (++iteration_[l] < loops_.count[l]) {
    number = loop_[l];
  } else {
    ++number;
    loops_.count[--loops_.depth] = 0;
  }
}

Refusal Execution::execute(const Operation& operation, std::uint32_t number) {
  const bool shared = cores_ > 1 && sticks_of(operation) >= kSharedSticks;
  wait_for_others(shared);
  set_progress(number);
  if (!shared && core_ != 0) return {};
  return dispatch({.header = memory_.header,
                   .arguments = {memory_.argument, memory_.header.argument_count},
                   .places = places_,
                   .operation = operation,
                   .number = number,
                   .iteration = iteration_,
                   .depth = loops_.depth,
                   .core = shared ? core_ : 0,
                   .cores = shared ? cores_ : 1,
                   .working = memory_.working});
}

// An operation sees what the ones before it have written. What core 0 executes alone, one after the other, needs no
// barrier between.
void Execution::wait_for_others(bool shared) {
  if (cores_ > 1 && (executed_shared_ || (shared && executed_))) {
    barrier();
    executed_ = false;
    executed_shared_ = false;
  }
  executed_ = true;
  executed_shared_ = executed_shared_ || shared;
}

}  // namespace kernel::engine
