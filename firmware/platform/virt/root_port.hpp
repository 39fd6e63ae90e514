// SPDX-License-Identifier: Apache-2.0
// A PCI Express root port with a hot-plug slot (PCI Express Base Specification, sections 7.5.1.3 and 7.5.3): one device
// behind it on a bus of its own, whose only window is forwarded while it is bound.
#pragma once

#include <cstdint>

#include "firmware/platform/virt/pci_function.hpp"

namespace virt {

inline constexpr std::uint32_t kRootPort = 0x000c'1b36;  // QEMU's pcie-root-port
inline constexpr std::uint64_t kBridgeGranule = std::uint64_t{1} << 20;

class RootPort : private PciFunction {
 public:
  // `bus`: of the device behind it, from 1.
  RootPort(const PciFunction& function, unsigned bus);

  // Without slot registers nothing can be plugged or unplugged.
  [[nodiscard]] bool usable() const { return capability_ != 0; }
  // Configuration space of the device behind the port.
  [[nodiscard]] std::uint64_t below() const;

  // After every reset of the board: bus numbers, no window. The slot's power is left as it is.
  void initialize();
  void forward(std::uint64_t address, std::uint64_t bytes);
  void forward_nothing();

  void power_on();
  // What is plugged is unplugged by this, whatever the slot's power was before. Nothing happens to an empty slot.
  void power_off();

 private:
  void set_power(std::uint16_t bits);

  unsigned bus_;
  std::uint64_t capability_;
};

}  // namespace virt
