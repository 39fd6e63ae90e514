// SPDX-License-Identifier: Apache-2.0
// Control and status registers by number (RISC-V privileged architecture; the IMSIC ones: Advanced Interrupt
// Architecture, chapter 3). Reads and writes are never moved or dropped by the compiler.
#pragma once

#include <cstdint>

namespace riscv {

enum class Csr : unsigned {
  kFcsr = 0x003,
  kSenvcfg = 0x10a,
  kSatp = 0x180,
  kMstatus = 0x300,
  kMedeleg = 0x302,
  kMideleg = 0x303,
  kMie = 0x304,
  kMtvec = 0x305,
  kMcounteren = 0x306,
  kMenvcfg = 0x30a,
  kMscratch = 0x340,
  kMepc = 0x341,
  kMcause = 0x342,
  kMtval = 0x343,
  kMip = 0x344,
  kMiselect = 0x350,
  kMireg = 0x351,
  kMtopei = 0x35c,
  kPmpcfg0 = 0x3a0,
  kPmpaddr0 = 0x3b0,
  kPmpaddr1 = 0x3b1,
  kPmpaddr2 = 0x3b2,
  kPmpaddr3 = 0x3b3,
  kTime = 0xc01,
  kMhartid = 0xf14,
  kVlenb = 0xc22,
};

template <Csr kRegister>
inline std::uint64_t read_csr() {
  std::uint64_t value;
  asm volatile("csrr %0, %1" : "=r"(value) : "i"(static_cast<unsigned>(kRegister)));
  return value;
}

template <Csr kRegister>
inline void write_csr(std::uint64_t value) {
  asm volatile("csrw %0, %1" : : "i"(static_cast<unsigned>(kRegister)), "rJ"(value) : "memory");
}

template <Csr kRegister>
inline void set_csr(std::uint64_t bits) {
  asm volatile("csrs %0, %1" : : "i"(static_cast<unsigned>(kRegister)), "rJ"(bits) : "memory");
}

template <Csr kRegister>
inline void clear_csr(std::uint64_t bits) {
  asm volatile("csrc %0, %1" : : "i"(static_cast<unsigned>(kRegister)), "rJ"(bits) : "memory");
}

// Reads and writes in one step.
template <Csr kRegister>
inline std::uint64_t exchange_csr(std::uint64_t value) {
  std::uint64_t old;
  asm volatile("csrrw %0, %1, %2" : "=r"(old) : "i"(static_cast<unsigned>(kRegister)), "rJ"(value) : "memory");
  return old;
}

// mstatus
inline constexpr std::uint64_t kStatusMie = 1u << 3;
inline constexpr std::uint64_t kStatusVectorShift = 9;
inline constexpr std::uint64_t kStatusFloatShift = 13;
inline constexpr std::uint64_t kStatusPreviousPrivilege = 3u << 11;
enum class UnitState : std::uint64_t { kOff = 0, kInitial = 1, kClean = 2, kDirty = 3 };
constexpr std::uint64_t float_state(UnitState state) { return static_cast<std::uint64_t>(state) << kStatusFloatShift; }
constexpr std::uint64_t vector_state(UnitState state) {
  return static_cast<std::uint64_t>(state) << kStatusVectorShift;
}
inline constexpr std::uint64_t kStatusFloat = float_state(UnitState::kDirty);
inline constexpr std::uint64_t kStatusVector = vector_state(UnitState::kDirty);

// mie, mip
inline constexpr std::uint64_t kInterruptSoftware = 1u << 3;
inline constexpr std::uint64_t kInterruptTimer = 1u << 7;
inline constexpr std::uint64_t kInterruptExternal = 1u << 11;

// mcause
inline constexpr std::uint64_t kCauseInterrupt = std::uint64_t{1} << 63;
enum class Cause : std::uint64_t {
  kFetchMisaligned = 0,
  kFetchAccess = 1,
  kIllegalInstruction = 2,
  kBreakpoint = 3,
  kLoadMisaligned = 4,
  kLoadAccess = 5,
  kStoreMisaligned = 6,
  kStoreAccess = 7,
  kCallFromUser = 8,
  kFetchPage = 12,
  kLoadPage = 13,
  kStorePage = 15,
};

// satp
inline constexpr std::uint64_t kSatpSv39 = std::uint64_t{8} << 60;

}  // namespace riscv
