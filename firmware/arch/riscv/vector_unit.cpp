// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/vector_unit.hpp"

#include <atomic>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/arch/riscv/csr.hpp"
#include "firmware/arch/riscv/panic.hpp"
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

// Between this hart saving an owner's registers and another hart that gives up the owner's memory.
class UnitLock {
 public:
  explicit UnitLock(HartLocal& hart) : word_(hart.unit_lock) {
    while (word_.exchange(1, std::memory_order_acquire) != 0) park_if_panicking();
  }
  ~UnitLock() { word_.store(0, std::memory_order_release); }
  UnitLock(const UnitLock&) = delete;
  UnitLock& operator=(const UnitLock&) = delete;

 private:
  std::atomic_ref<std::uint32_t> word_;
};

using Owner = hal::Context*;

Owner load(Owner& owner) { return std::atomic_ref(owner).load(std::memory_order_relaxed); }

// Saves the owner's registers when it has used them, and leaves them without owner.
void spill(HartLocal& hart, Owner& owner, std::uint64_t used_flag, void (*save)(hal::Context*)) {
  if (load(owner) == nullptr) return;
  const UnitLock lock(hart);
  if (Owner const context = load(owner); context != nullptr && (context->integer[kFlags] & used_flag)) save(context);
  std::atomic_ref(owner).store(nullptr, std::memory_order_relaxed);
}

bool used(Owner& owner, std::uint64_t used_flag) {
  // Looked at without the lock: only a context that is not being dropped can be some hart's unsaved owner, and its
  // flags change on this hart alone.
  Owner const context = load(owner);
  return context != nullptr && (context->integer[kFlags] & used_flag);
}

void forget(HartLocal& hart, Owner& owner, Owner context) {
  if (load(owner) != context) return;
  const UnitLock lock(hart);
  std::atomic_ref(owner).compare_exchange_strong(context, nullptr, std::memory_order_relaxed);
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
  std::atomic_ref(hart.float_owner).store(&context, std::memory_order_relaxed);
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
  std::atomic_ref(hart.vector_owner).store(&context, std::memory_order_relaxed);
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
    forget(hart, hart.float_owner, &context);
    forget(hart, hart.vector_owner, &context);
  }
}

}  // namespace riscv
