// SPDX-License-Identifier: Apache-2.0
// Ends of a boot: a warm reset keeps persistent memory and starts with clean interrupt files; a broken firmware leaves
// a record and an exit code.
#include "firmware/arch/riscv/imsic.hpp"
#include "firmware/arch/riscv/persistent.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"
#include "shared/units.hpp"

namespace probe {

namespace {

constexpr std::uint64_t kSeed = 99;
constexpr std::uint64_t kLast = 4096;

std::uint64_t in_data = 1;  // .data: loaded anew by a reset
std::uint64_t in_bss;       // .bss: cleared by start.S

std::span<std::byte> first_bytes() { return {hal::persistent(), kLast}; }
std::span<std::byte> last_bytes() { return {hal::persistent() + hal::persistent_bytes() - kLast, kLast}; }

}  // namespace

void prove_warm_reset() {
  constexpr std::uint64_t kBoots = 4;
  const std::uint64_t boot = riscv::persistent_memory().boot_count;
  {
    Proof proof("persistent memory and only that survives a warm reset, and no interrupt does");
    proof.expect_equal(in_data, 1, "initialised data");
    proof.expect_equal(in_bss, 0, "cleared data");
    proof.expect(boot >= 1 && boot <= kBoots, "the count of boots");
    if (boot > 1) {
      proof.expect(scrambled(first_bytes(), kSeed + boot - 1), "the first bytes");
      proof.expect(scrambled(last_bytes(), kSeed + boot), "the last bytes");
    }
    // What the previous boot left pending in the interrupt file must not end this sleep.
    const std::uint64_t began = hal::now();
    hal::sleep_until(began + 5 * wire::kTicksPerSecond / 1000);
    proof.expect(hal::now() - began >= 4 * wire::kTicksPerSecond / 1000, "an undisturbed sleep");
  }
  if (boot >= kBoots || failures() > 0) finish();
  in_data = 2;
  in_bss = 2;
  scramble(first_bytes(), kSeed + boot);
  scramble(last_bytes(), kSeed + boot + 1);
  for (unsigned i = 1; i < 250; ++i) riscv::imsic_send(0, i);
  hal::restart_board();
}

void break_on_purpose(std::string_view how) {
  if (how == "load") {
    asm volatile("ld t0, 0(%0)" : : "r"(std::uint64_t{8}) : "t0", "memory");
  } else if (how == "text") {
    auto* const text = reinterpret_cast<volatile std::uint32_t*>(&break_on_purpose);
    *text = 0;
  } else if (how == "stack") {
    asm volatile("1: addi sp, sp, -1024\n sd zero, 0(sp)\n j 1b" ::: "memory");
  } else if (how == "illegal") {
    asm volatile(".word 0" ::: "memory");
  } else if (how == "other") {
    (void)helper_present();
    helper_break();
    // bounded: the other hart breaks and ends the emulator; the host test bounds it
    hal::sleep_until(~std::uint64_t{0});
  } else if (how == "panic") {
    hal::panic("on purpose");
  }
  finish();
}

}  // namespace probe
