// SPDX-License-Identifier: Apache-2.0
// hal/hart.hpp: identity, time, sleeping, waking.
#include "firmware/hal/hart.hpp"

#include "firmware/arch/riscv/boot.hpp"
#include "firmware/arch/riscv/csr.hpp"
#include "firmware/arch/riscv/hart_local.hpp"
#include "firmware/arch/riscv/imsic.hpp"
#include "firmware/arch/riscv/panic.hpp"
#include "firmware/arch/riscv/timer.hpp"
#include "firmware/hal/record.hpp"

namespace hal {

unsigned hart_id() { return static_cast<unsigned>(riscv::local().hart); }

std::uint64_t now() { return riscv::read_csr<riscv::Csr::kTime>(); }

void sleep_until(std::uint64_t deadline) {
  riscv::park_if_panicking();
  riscv::HartLocal& hart = riscv::local();
  if (now() < deadline) {
    riscv::timer_arm(hart, deadline);
    const wire::Waypoint before = hart.waypoint;
    mark(wire::Waypoint::Sleep);
    // MIE is 0: an interrupt that is pending, or comes, ends the wait and is not taken. One that came before ends it at
    // once, so nothing between the caller's last look and here is lost.
    asm volatile("wfi" ::: "memory");
    riscv::park_if_panicking();
    mark(before);
  }
  riscv::imsic_claim_all();
}

void hold_doorbells() { riscv::imsic_deliver(false); }
void accept_doorbells() {
  riscv::imsic_deliver(true);
  riscv::imsic_claim_all();
}

void wake(unsigned hart) {
  if (hart < hart_count()) riscv::imsic_send(hart, riscv::kWakeIdentity);
}

}  // namespace hal
