// SPDX-License-Identifier: Apache-2.0
// From the first C++ instruction to core/'s entry points.
#include "firmware/arch/riscv/boot.hpp"

#include <algorithm>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/arch/riscv/csr.hpp"
#include "firmware/arch/riscv/imsic.hpp"
#include "firmware/arch/riscv/mmio.hpp"
#include "firmware/arch/riscv/panic.hpp"
#include "firmware/arch/riscv/persistent.hpp"
#include "firmware/arch/riscv/timer.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory_map.h"

namespace fw {
[[noreturn]] void boot_main(unsigned hart);
[[noreturn]] void core_main(unsigned hart);
}  // namespace fw

alignas(HART_LOCAL_BYTES) riscv::HartLocal riscv_hart_locals[MAX_HARTS];

namespace riscv {

namespace {

unsigned known_harts = 1;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kPmpRead = 1, kPmpWrite = 2, kPmpExecute = 4, kPmpTor = 1 << 3, kPmpNapot = 3 << 3,
                        kPmpLocked = 1 << 7;

// Ends the wait in start.S. They see everything that was written before.
void release_harts() {
  asm volatile("fence rw, rw\n fence w, o" ::: "memory");
  for (unsigned hart = 1; hart < known_harts; ++hart) mmio_write32(CLINT_BASE + 4 * hart, 1);
}

std::uint64_t napot(std::uint64_t base, std::uint64_t bytes) { return base >> 2 | ((bytes >> 3) - 1); }

// Locked entries bind M-mode too: firmware text can not be written, and the lowest page of each stack can not be
// touched. All else is open; what a kernel may reach is decided by its page tables alone. All bounds are whole pages
// (a rule that ends inside a page costs the emulator a hundredfold).
void protect_memory(std::uint64_t hart) {
  const auto text_begin = reinterpret_cast<std::uint64_t>(__text_begin);
  const auto read_only_end = reinterpret_cast<std::uint64_t>(__data_begin);
  const auto guard = reinterpret_cast<std::uint64_t>(__stacks_begin) + hart * STACK_BYTES;
  write_csr<Csr::kPmpaddr0>(text_begin >> 2);
  write_csr<Csr::kPmpaddr1>(read_only_end >> 2);
  write_csr<Csr::kPmpaddr2>(napot(guard, kPageBytes));
  write_csr<Csr::kPmpaddr3>(~std::uint64_t{0} >> 10);
  const std::uint64_t text = kPmpLocked | kPmpTor | kPmpRead | kPmpExecute;
  const std::uint64_t stack_guard = kPmpLocked | kPmpNapot;
  const std::uint64_t rest = kPmpNapot | kPmpRead | kPmpWrite | kPmpExecute;
  write_csr<Csr::kPmpcfg0>(text << 8 | stack_guard << 16 | rest << 24);
}

constexpr std::uint64_t kVectorBytes = 128;  // VLEN 1024: a register is a stick
// menvcfg, senvcfg: no cache-block operations for kernels. cbo.inval (CBIE) throws away what has not been written back:
// on a card with caches, the zeros that memory was scrubbed with.
constexpr std::uint64_t kNothingAllowed = 0;

void initialize_hart(std::uint64_t hart_number) {
  HartLocal& hart = local();
  hart.hart = hart_number;
  hart.armed_deadline = kNoDeadline;
  hart.root = kNoRoot;
  hart.unit_status = kStatusFloat | kStatusVector;
  write_csr<Csr::kMscratch>(reinterpret_cast<std::uint64_t>(&hart));
  write_csr<Csr::kMtvec>(reinterpret_cast<std::uint64_t>(&riscv_trap));
  write_csr<Csr::kMstatus>(hart.unit_status);  // MIE, MPIE, MPRV, SUM, MXR: 0; MPP: U
  write_csr<Csr::kSatp>(0);
  write_csr<Csr::kMedeleg>(0);
  write_csr<Csr::kMideleg>(0);
  write_csr<Csr::kMcounteren>(0);
  write_csr<Csr::kMenvcfg>(kNothingAllowed);
  write_csr<Csr::kSenvcfg>(kNothingAllowed);  // not defined by a reset
  protect_memory(hart_number);
  imsic_initialize();
  mmio_write64(CLINT_MTIMECMP + 8 * hart_number, kNoDeadline);
  write_csr<Csr::kMie>(kInterruptExternal | kInterruptTimer);
  if (read_csr<Csr::kVlenb>() != kVectorBytes) hal::panic("vector registers are not 128 bytes: start with vlen=1024");
}

}  // namespace

void set_hart_count(unsigned count) { known_harts = std::clamp(count, 1u, unsigned{MAX_HARTS}); }

}  // namespace riscv

unsigned hal::hart_count() { return riscv::known_harts; }

void riscv_boot(std::uint64_t hart, const std::byte* device_tree) {
  riscv::initialize_hart(hart);
  riscv::persistent_initialize();
  hal::initialize_board(device_tree);
  riscv::release_harts();
  fw::boot_main(static_cast<unsigned>(hart));
}

void riscv_boot_further(std::uint64_t hart) {
  riscv::initialize_hart(hart);
  fw::core_main(static_cast<unsigned>(hart));
}
