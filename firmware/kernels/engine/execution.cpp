// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/execution.hpp"

#include <algorithm>
#include <cstring>

#include "firmware/kernels/engine/aligned_sticks.hpp"
#include "firmware/kernels/sdk.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::engine {
namespace {

// Nanoseconds. What costs less is executed by core 0 alone: a barrier costs more than the others would save. Measured
// with two cores: docs/notes/2026-11-25-handing-out-work.md.
constexpr std::uint64_t kSharedCost = 40'000;

constexpr std::uint32_t kNone = ~std::uint32_t{0};

void copy_operation(const Operation* from, Operation* to) {
  static_assert(sizeof(Operation) == 8 * wire::kStickBytes);
  store_registers8(to, load_sticks8(from));
}

bool same_stick(vuint16m1_t a, vuint16m1_t b) { return largest_lane(__riscv_vxor_vv_u16m1(a, b, kVector16)) == 0; }

bool same_operation(const Operation* a, const Operation* b) {
  constexpr std::size_t vl = 8 * kVector64;
  const auto words = [](const Operation* from) { return __riscv_vreinterpret_v_u16m8_u64m8(load_sticks8(from)); };
  const vuint64m8_t differing = __riscv_vxor_vv_u64m8(words(a), words(b), vl);
  const vuint64m1_t any = __riscv_vredor_vs_u64m8_u64m1(differing, __riscv_vmv_v_x_u64m1(0, kVector64), vl);
  return __riscv_vmv_x_s_u64m1_u64(any) == 0;
}

}  // namespace

Execution::Execution(Memory& memory, const wire::KernelArguments& arguments)
    : memory_(memory),
      places_{},
      refusal_(memory.launch.refusal),
      core_(arguments.core_index),
      cores_(arguments.core_count),
      has_array_(arguments.array_version == wire::array::kVersion) {
  if (refusal_.ok()) [[clang::always_inline]]
    refusal_ = read_header(memory.launch);
}

Refusal Execution::read_header(const Launch& launch) {
  places_.program = launch.address[0];
  Refusal bad = find_program();
  if (!bad.ok()) return bad;
  [[clang::always_inline]] bad = read_arguments();
  if (!bad.ok()) return bad;
  const program::Header& header = known_->header;
  if (launch.count != program::launch_operands(header)) return {.where = Where::Correction};
  places_.argument = launch.address + 1;
  std::fill_n(kept_, std::min(header.operation_count, kKeptOperations), kNone);
  const std::uint64_t* own = places_.argument + header.argument_count;
  if (program::uses_tables(header)) places_.tables = *own++;
  if (program::workspace_bytes(header) != 0) places_.pool = *own++;
  if (program::scratchpads_bytes(header) != 0) places_.scratchpads = *own;
  return {};
}

template <typename Kept>
void Execution::use(Kept& kept) {
  known_ = &kept.known;
  argument_ = kept.argument;
  operation_ = kept.operation;
}

// Neighbours are often the programs of one model: all bits of the address take part.
constexpr std::uint32_t set_of(std::uint64_t address) {
  return static_cast<std::uint32_t>(address / wire::kStickBytes * 0x9E3779B97F4A7C15u >> 60);
}
static_assert(kSets == 16);

// The same bytes at the same address, where there is as much room in front of the region's end.
Refusal Execution::find_program() {
  const vuint16m1_t given = load_stick(reinterpret_cast<const void*>(places_.program));
  const auto is_it = [&](const KnownProgram& known) {
    return known.address == places_.program && known.checked != 0 && same_stick(given, load_stick(&known.header));
  };
  for (SmallProgram& small : memory_.small[set_of(places_.program)]) {
    if (!is_it(small.known)) continue;
    use(small);
    return {};
  }
  if (!is_it(memory_.large.known)) return take_program();
  use(memory_.large);
  return {};
}

template <typename Kept>
bool Execution::fits(const program::Header& header) const {
  return header.argument_count <= Kept::kMostArguments && header.operation_count <= Kept::kMostOperations;
}

[[gnu::noinline]] Refusal Execution::take_program() {
  alignas(wire::kStickBytes) program::Header header;
  store_register(&header, load_stick(reinterpret_cast<const void*>(places_.program)));
  if (const Refusal bad = program::check_header(header, bytes_available()); !bad.ok()) return bad;
  if (fits<SmallProgram>(header)) {
    const std::uint32_t set = set_of(places_.program);
    std::uint8_t& way = memory_.last_way[set];
    way = (way + 1u) % kWays;
    use(memory_.small[set][way]);
  } else {
    use(memory_.large);
  }
  known_->header = header;
  known_->address = places_.program;
  known_->checked = 0;
  return {};
}

// From the program to the end of its region's window.
std::uint64_t Execution::bytes_available() const {
  constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << wire::kRegionShift;
  return kWindowBytes - places_.program % kWindowBytes;
}

// In whole sticks, as they lie in the program. What the launch before has checked is not checked again.
Refusal Execution::read_arguments() {
  constexpr std::uint32_t kInStick = wire::kStickBytes / sizeof(program::Argument);
  const auto* from = reinterpret_cast<const program::Argument*>(places_.program + known_->header.arguments_offset);
  bool same = known_->checked != 0;
  for (std::uint32_t i = 0; i < known_->header.argument_count; i += kInStick) {
    const vuint16m1_t given = load_stick(from + i);
    same = same && same_stick(given, load_stick(argument_ + i));
    store_register(argument_ + i, given);
  }
  return same ? Refusal{} : check_arguments();
}

[[gnu::noinline]] Refusal Execution::check_arguments() {
  known_->checked = 0;
  for (std::uint8_t i = 0; i < known_->header.argument_count; ++i) {
    if (const Refusal bad = program::check_argument(argument_[i], i); !bad.ok()) return bad;
  }
  return {};
}

Refusal Execution::run() {
  if (!refusal_.ok()) return refusal_;
  std::uint32_t number = 0;
  while (number < known_->header.operation_count) {
    const std::uint32_t slot = number % kKeptOperations;
    Refusal refusal;
    if (kept_[slot] != number) [[clang::always_inline]]
      refusal = fetch(number, slot);
    if (refusal.ok()) [[clang::always_inline]]
      refusal = step(operation_[slot], number);
    if (!refusal.ok()) return refusal;
  }
  return program::check_end(loops_);
}

Refusal Execution::fetch(std::uint32_t number, std::uint32_t slot) {
  const auto* from = reinterpret_cast<const Operation*>(places_.program + known_->header.operations_offset) + number;
  if (!is_known(*from, number)) return take_over(*from, number, slot);
  kept_[slot] = number;
  return {};
}

[[gnu::noinline]] Refusal Execution::take_over(const Operation& operation, std::uint32_t number, std::uint32_t slot) {
  known_->checked = std::min(known_->checked, slot);
  copy_operation(&operation, &operation_[slot]);
  const Refusal refusal = check(operation_[slot], number);
  kept_[slot] = refusal.ok() ? number : kNone;
  if (refusal.ok() && known_->checked == number) ++known_->checked;
  return refusal;
}

// It has the bytes of the copy that a launch before has checked. Then so have all in front of it.
bool Execution::is_known(const Operation& operation, std::uint32_t number) {
  if (number >= known_->checked || !same_operation(&operation, &operation_[number])) return false;
  if (number >= checked_) loops_.executed += program::iterations(loops_);
  checked_ = std::max(checked_, number + 1);
  return true;
}

Refusal Execution::check(const Operation& operation, std::uint32_t number) {
  program::LoopStack after = loops_;
  const Refusal refusal =
      program::check_operation(known_->header, {argument_, known_->header.argument_count}, operation, number, after);
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
    [[clang::always_inline]] return execute(operation, number++);
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
  const bool shared = cores_ > 1 && cost_of(operation) >= kSharedCost;
  wait_for_others(shared);
  set_progress(number);
  if (!shared && core_ != 0) return {};
  return dispatch({.header = known_->header,
                   .arguments = {argument_, known_->header.argument_count},
                   .places = places_,
                   .operation = operation,
                   .number = number,
                   .iteration = iteration_,
                   .depth = loops_.depth,
                   .core = shared ? core_ : 0,
                   .cores = shared ? cores_ : 1,
                   .working = memory_.working,
                   .array = has_array_ ? &memory_.request : nullptr});
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
