// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/imsic.hpp"

#include "firmware/arch/riscv/csr.hpp"
#include "firmware/arch/riscv/mmio.hpp"
#include "firmware/hal/memory_map.h"

namespace riscv {

namespace {

// Indirect registers (AIA chapter 3.8). On RV64 only the even ones of the arrays exist, 64 identities each.
constexpr std::uint64_t kDelivery = 0x70;
constexpr std::uint64_t kThreshold = 0x72;
constexpr std::uint64_t kPending = 0x80;
constexpr std::uint64_t kEnable = 0xc0;
constexpr std::uint64_t kArrayWords = 4;  // 256 identities
constexpr unsigned kMostClaims = 512;     // twice the number of identities

void write_indirect(std::uint64_t select, std::uint64_t value) {
  write_csr<Csr::kMiselect>(select);
  write_csr<Csr::kMireg>(value);
}

}  // namespace

std::uint64_t imsic_file(unsigned hart) { return IMSIC_M_BASE + std::uint64_t{hart} * IMSIC_M_STRIDE; }

void imsic_initialize() {
  write_indirect(kDelivery, 0);
  for (std::uint64_t word = 0; word < kArrayWords; ++word) {
    write_indirect(kEnable + 2 * word, 0);
    write_indirect(kPending + 2 * word, 0);
  }
  imsic_claim_all();
  write_indirect(kThreshold, 0);
  for (std::uint64_t word = 0; word < kArrayWords; ++word) write_indirect(kEnable + 2 * word, ~std::uint64_t{0});
  write_indirect(kDelivery, 1);
}

void imsic_deliver(bool on) { write_indirect(kDelivery, on ? 1 : 0); }

void imsic_claim_all() {
  // Writing mtopei claims what is read from it; a plain read would not.
  for (unsigned i = 0; i < kMostClaims; ++i) {
    if (exchange_csr<Csr::kMtopei>(0) == 0) return;
  }
}

void imsic_send(unsigned hart, std::uint32_t identity) {
  asm volatile("fence rw, o" ::: "memory");
  mmio_write32(imsic_file(hart), identity);
}

}  // namespace riscv
