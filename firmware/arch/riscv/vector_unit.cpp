// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/vector_unit.hpp"

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/arch/riscv/csr.hpp"
#include "firmware/arch/riscv/panic.hpp"
#include "firmware/arch/riscv/unit_owner.hpp"
#include "firmware/hal/hart.hpp"

namespace riscv {

namespace {

constexpr std::size_t kFlags = CTX_FLAGS / 8;

// Saving and restoring are f and v instructions themselves: the units must be on, and count as used.
void enable_units(HartLocal& hart) {
  constexpr std::uint64_t kOn = kStatusFloat | kStatusVector;
  if (hart.unit_status == kOn) return;
  set_csr<Csr::kMstatus>(kOn);
  hart.unit_status = kOn;
}

using Owner = UnitOwner<hal::Context>;

void pause() { park_if_panicking(); }

bool uses(const hal::Context& context, std::uint64_t used_flag) { return (context.integer[kFlags] & used_flag) != 0; }

// Saves the owner's registers when it has used them, and leaves them without owner.
void spill(HartLocal& hart, hal::Context*& owner, std::uint64_t used_flag, void (*save)(hal::Context*)) {
  spill_owner(
      owner, hart.unit_lock, [&](const hal::Context& context) { return uses(context, used_flag); }, save, pause);
}

bool used(hal::Context*& owner, std::uint64_t used_flag) {
  // Looked at without the lock: only a context that is not being dropped can be some hart's unsaved owner, and its
  // flags change on this hart alone.
  const hal::Context* const context = Owner(owner).seen_here();
  return context != nullptr && uses(*context, used_flag);
}

}  // namespace

void take_float(HartLocal& hart, hal::Context& context) {
  const bool restore = context.integer[kFlags] & CTX_FLOAT;
  if (restore || !hart.float_zero || used(hart.float_owner, CTX_FLOAT)) {
    enable_units(hart);
    spill(hart, hart.float_owner, CTX_FLOAT, riscv_save_float);
    if (restore) {
      riscv_restore_float(&context);
    } else if (!hart.float_zero) {
      riscv_clear_float();
    }
    hart.float_zero = !restore;
  }
  Owner(hart.float_owner).set(&context);
}

void take_vector(HartLocal& hart, hal::Context& context) {
  const bool restore = context.integer[kFlags] & CTX_VECTORS;
  if (restore || !hart.vector_zero || used(hart.vector_owner, CTX_VECTORS)) {
    enable_units(hart);
    spill(hart, hart.vector_owner, CTX_VECTORS, riscv_save_vector);
    if (restore) {
      riscv_restore_vector(&context);
    } else if (!hart.vector_zero) {
      riscv_clear_vector();
    }
    hart.vector_zero = !restore;
  }
  Owner(hart.vector_owner).set(&context);
  hart.vector_ready = false;
}

void take_vector_for_firmware(HartLocal& hart) {
  if (hart.vector_ready) return;
  enable_units(hart);
  spill(hart, hart.vector_owner, CTX_VECTORS, riscv_save_vector);
  riscv_vector_ready();
  hart.vector_zero = false;
  hart.vector_ready = true;
}

void forget_units_everywhere(hal::Context& context) {
  for (unsigned i = 0; i < hal::hart_count(); ++i) {
    HartLocal& hart = riscv_hart_locals[i];
    forget_owner(hart.float_owner, hart.unit_lock, &context, pause);
    forget_owner(hart.vector_owner, hart.unit_lock, &context, pause);
  }
}

}  // namespace riscv
