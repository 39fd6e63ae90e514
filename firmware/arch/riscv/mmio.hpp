// SPDX-License-Identifier: Apache-2.0
// Device registers. Each access costs 70 to 95 ns on the emulator.
#pragma once

#include <cstdint>

namespace riscv {

inline std::uint32_t mmio_read32(std::uint64_t address) {
  return *reinterpret_cast<const volatile std::uint32_t*>(address);
}
inline void mmio_write32(std::uint64_t address, std::uint32_t value) {
  *reinterpret_cast<volatile std::uint32_t*>(address) = value;
}
inline std::uint16_t mmio_read16(std::uint64_t address) {
  return *reinterpret_cast<const volatile std::uint16_t*>(address);
}
inline void mmio_write16(std::uint64_t address, std::uint16_t value) {
  *reinterpret_cast<volatile std::uint16_t*>(address) = value;
}
inline std::uint8_t mmio_read8(std::uint64_t address) {
  return *reinterpret_cast<const volatile std::uint8_t*>(address);
}
inline void mmio_write8(std::uint64_t address, std::uint8_t value) {
  *reinterpret_cast<volatile std::uint8_t*>(address) = value;
}
inline void mmio_write64(std::uint64_t address, std::uint64_t value) {
  *reinterpret_cast<volatile std::uint64_t*>(address) = value;
}

}  // namespace riscv
