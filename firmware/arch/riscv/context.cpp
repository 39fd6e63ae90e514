// SPDX-License-Identifier: Apache-2.0
// hal/context.hpp for RV64: contexts are entered by mret and left by a trap (trap.S).
//
// f and v registers are kept lazily. The registers of a suspended context stay where they are until something else
// needs them: another context that enters, or a vector move of the firmware. mstatus.FS and VS tell whether a kernel
// used them at all: it is entered with Initial, the hardware says Dirty afterwards.
#include "firmware/hal/context.hpp"

#include <atomic>
#include <cstddef>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/arch/riscv/code_generation.hpp"
#include "firmware/arch/riscv/csr.hpp"
#include "firmware/arch/riscv/hart_local.hpp"
#include "firmware/arch/riscv/imsic.hpp"
#include "firmware/arch/riscv/panic.hpp"
#include "firmware/arch/riscv/timer.hpp"
#include "firmware/arch/riscv/translation_cache.hpp"
#include "firmware/arch/riscv/unit_owner.hpp"
#include "firmware/arch/riscv/vector_unit.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/kernel_abi.hpp"

namespace hal {

static_assert(offsetof(Context, integer) == 0 && CTX_X(31) == 30 * 8 && CTX_PC == 31 * 8);
static_assert(CTX_ARGUMENT / 8 < std::tuple_size_v<decltype(Context::integer)>);
static_assert(offsetof(Context, array_orders) == CTX_ORDERS);
static_assert(offsetof(Context, floating) == CTX_FLOATING && sizeof(Context::floating) >= 33 * 8);
static_assert(offsetof(Context, vector_control) == CTX_VECTOR_CONTROL && offsetof(Context, vector) == CTX_VECTOR);

namespace {

using riscv::Cause;
using riscv::HartLocal;

constexpr std::size_t kA0 = 9;
constexpr std::size_t kA7 = 16;
constexpr std::size_t kSp = 1;
constexpr std::size_t kS11 = 26;
constexpr std::size_t kPc = CTX_PC / 8;
constexpr std::size_t kRoot = CTX_ROOT / 8;
constexpr std::size_t kFlags = CTX_FLAGS / 8;
constexpr std::size_t kArgument = CTX_ARGUMENT / 8;
constexpr std::uint64_t kCallBytes = 4;  // ecall has no compressed form

void use_root(HartLocal& hart, std::uint64_t root) {
  if (std::atomic_ref(hart.root).load(std::memory_order_relaxed) == root) return;
  // The emulator drops all translations when satp changes; the architecture asks for the fence, without ASIDs.
  riscv::write_csr<riscv::Csr::kSatp>(riscv::kSatpSv39 | root >> 12);
  riscv::drop_translations();
  std::atomic_ref(hart.root).store(root, std::memory_order_relaxed);
}

// What mstatus says of the units before a kernel has used them.
constexpr std::uint64_t kUnused =
    riscv::float_state(riscv::UnitState::kInitial) | riscv::vector_state(riscv::UnitState::kInitial);

using Owner = riscv::UnitOwner<Context>;

// Whether the hart stands as a new context wants it: its address space is in use, no code has come, nobody's registers
// stand in the units, and both are zero. One question and not seven, because every branch ends a block of the emulator.
bool stands_ready(HartLocal& hart, const Context& context) {
  const std::uint64_t owned = reinterpret_cast<std::uintptr_t>(Owner(hart.float_owner).seen_here()) |
                              reinterpret_cast<std::uintptr_t>(Owner(hart.vector_owner).seen_here());
  const std::uint64_t zero = static_cast<unsigned>(hart.float_zero) & static_cast<unsigned>(hart.vector_zero);
  return ((std::atomic_ref(hart.root).load(std::memory_order_relaxed) ^ context.integer[kRoot]) |
          (riscv::code_generation.load(std::memory_order_acquire) ^ hart.code_generation) |
          (hart.unit_status ^ kUnused) | (context.integer[kFlags] ^ CTX_FRESH) | owned | (zero ^ 1)) == 0;
}

// Brings the registers to what `context` left, or to zero, and mstatus to what tells us its next use.
void load_units(HartLocal& hart, Context& context) {
  const std::uint64_t flags = context.integer[kFlags];
  if (flags & CTX_FRESH) riscv::forget_units(hart, context);
  if ((flags & CTX_FRESH) != 0 && fw::mutated(fw::Mutant::ClearRegisters)) {
    hart.float_owner = hart.vector_owner = &context;
  }
  if (hart.float_owner != &context) riscv::take_float(hart, context);
  if (hart.vector_owner != &context) riscv::take_vector(hart, context);
  const std::uint64_t wanted =
      riscv::float_state(flags & CTX_FLOAT ? riscv::UnitState::kDirty : riscv::UnitState::kInitial) |
      riscv::vector_state(flags & CTX_VECTORS ? riscv::UnitState::kDirty : riscv::UnitState::kInitial);
  if (hart.unit_status != wanted) {
    riscv::clear_csr<riscv::Csr::kMstatus>(riscv::kStatusFloat | riscv::kStatusVector);
    riscv::set_csr<riscv::Csr::kMstatus>(wanted);
    hart.unit_status = wanted;
  }
}

void note_unit_use(HartLocal& hart, Context& context) {
  const std::uint64_t now = hart.status & (riscv::kStatusFloat | riscv::kStatusVector);
  hart.unit_status = now;
  if (now == kUnused) return;
  const bool vectors_used = (now & riscv::kStatusVector) == riscv::kStatusVector;
  bool floats_used = (now & riscv::kStatusFloat) == riscv::kStatusFloat;
  // Vector instructions that raise float exceptions change fcsr, but this emulator does not count that as use of F.
  if (vectors_used && !floats_used) floats_used = riscv::read_csr<riscv::Csr::kFcsr>() != 0;
  if (floats_used) {
    context.integer[kFlags] |= CTX_FLOAT;
    hart.float_zero = false;
  }
  if (vectors_used) {
    context.integer[kFlags] |= CTX_VECTORS;
    hart.vector_zero = false;
  }
}

// The usual end, of which trap.S saved nothing else.
Stop exit_stop(HartLocal& hart, Context& context) {
  riscv::forget_units(hart, context);
  Stop stop{};
  stop.reason = StopReason::Exit;
  stop.argument = hart.argument;
  return stop;
}

Stop call_stop(const HartLocal& hart, Context& context) {
  Stop stop{};
  stop.pc = context.integer[kPc];
  stop.argument = hart.argument;
  switch (static_cast<wire::KernelCall>(context.integer[kA7])) {
    case wire::KernelCall::Barrier:
      stop.reason = StopReason::Barrier;
      stop.argument = progress(context);
      break;
    case wire::KernelCall::ArrayOrder:
      stop.reason = StopReason::ArrayOrder;
      stop.argument = progress(context);
      break;
    case wire::KernelCall::TraceMark: stop.reason = StopReason::TraceMark; break;
    case wire::KernelCall::Claim: stop.reason = StopReason::Claim; break;
    default:
      stop.reason = StopReason::BadCall;
      stop.argument = context.integer[kA7];
      return stop;
  }
  context.integer[kPc] += kCallBytes;
  return stop;
}

Stop fault_stop(const HartLocal& hart, const Context& context) {
  Stop stop{};
  stop.reason = StopReason::Fault;
  stop.argument = progress(context);
  stop.address = hart.value;
  stop.pc = context.integer[kPc];
  const auto is = [&](wire::Status status, Access access) {
    stop.status = status;
    stop.access = access;
  };
  switch (static_cast<Cause>(hart.cause)) {
    case Cause::kLoadAccess:
    case Cause::kLoadPage: is(wire::Status::LoadFault, Access::Load); break;
    case Cause::kStoreAccess:
    case Cause::kStorePage: is(wire::Status::StoreFault, Access::Store); break;
    case Cause::kFetchAccess:
    case Cause::kFetchPage: is(wire::Status::FetchFault, Access::Fetch); break;
    case Cause::kLoadMisaligned: is(wire::Status::MisalignedAccess, Access::Load); break;
    case Cause::kStoreMisaligned: is(wire::Status::MisalignedAccess, Access::Store); break;
    case Cause::kFetchMisaligned: is(wire::Status::MisalignedAccess, Access::Fetch); break;
    case Cause::kBreakpoint: is(wire::Status::Breakpoint, Access::Fetch); break;
    default: is(wire::Status::IllegalInstruction, Access::Fetch); break;
  }
  return stop;
}

Stop trap_stop(const HartLocal& hart, Context& context) {
  if (hart.cause == static_cast<std::uint64_t>(Cause::kCallFromUser)) return call_stop(hart, context);
  if (!(hart.cause & riscv::kCauseInterrupt)) return fault_stop(hart, context);
  Stop stop{};
  stop.pc = context.integer[kPc];
  if (riscv::panicking()) [[unlikely]]
    riscv::leave_registers(hart, context);
  const bool timer = (hart.cause & ~riscv::kCauseInterrupt) == 7;
  if (!timer) riscv::imsic_claim_all();
  stop.reason = timer ? StopReason::Timer : StopReason::Interrupted;
  stop.argument = progress(context);  // the slice that spends the last of the budget may end with either
  return stop;
}

}  // namespace

bool contexts_supported() { return true; }

// Registers of one that has not been entered are what the last kernel left.
std::uint64_t progress(const Context& context) {
  const std::uint64_t value = context.integer[kS11];
  return wire::is_progress(value) && (context.integer[kFlags] & CTX_FRESH) == 0 ? value : 0;
}

void start(Context& context, std::uint64_t root, std::uint64_t entry, std::uint64_t stack_end, std::uint64_t argument) {
  context.integer[kSp] = stack_end;
  context.integer[kA0] = argument;
  context.integer[kArgument] = argument;
  context.integer[kPc] = entry;
  context.integer[kRoot] = root;
  context.integer[kFlags] = CTX_FRESH;  // the other registers are set to zero on entry
  context.array_orders = {};
}

namespace {

[[gnu::noinline]] void make_ready(HartLocal& hart, Context& context) {
  use_root(hart, context.integer[kRoot]);
  riscv::fetch_new_code(hart);
  load_units(hart, context);
}

}  // namespace

Stop run(Context& context, std::uint64_t began, std::uint64_t slice_ticks) {
  HartLocal& hart = riscv::local();
  if (stands_ready(hart, context) && !fw::mutated(fw::Mutant::ClearRegisters)) [[likely]] {
    Owner(hart.float_owner).set(&context);
    Owner(hart.vector_owner).set(&context);
    hart.vector_ready = false;
  } else {
    make_ready(hart, context);
  }
  const std::uint64_t end = riscv::deadline_after(began, slice_ticks);
  riscv::timer_cover(hart, began, end);
  for (;;) {
    riscv::park_if_panicking();
    const bool resumable = riscv_enter(&context) != 0;
    note_unit_use(hart, context);
    Stop stop = resumable ? trap_stop(hart, context) : exit_stop(hart, context);
    stop.began = began;
    stop.ended = now();
    stop.ran_ticks = stop.ended - began;
    if (stop.reason != StopReason::Timer || stop.ended >= end) return stop;
    riscv::timer_arm(hart, end);  // what fired was armed for something earlier: not the end of this slice
  }
}

void answer(Context& context, std::uint64_t value) { context.integer[kA0] = value; }

void drop(Context& context) { riscv::forget_units_everywhere(context); }

}  // namespace hal
