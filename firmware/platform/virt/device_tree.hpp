// SPDX-License-Identifier: Apache-2.0
// What the firmware needs from the flattened device tree (Devicetree Specification v0.4, chapter 5) that the emulator
// hands over: nothing is believed, every offset is checked, and a tree that does not say everything is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

namespace virt {

struct AddressRange {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  [[nodiscard]] constexpr std::uint64_t end() const { return base + bytes; }
};

struct BoardDescription {
  AddressRange memory;
  unsigned harts = 0;
  std::string_view boot_arguments;  // points into the tree; empty when there are none
  AddressRange pcie_config;         // ECAM
  AddressRange pcie_window32;       // for 32-bit BARs; bus address = CPU address
  AddressRange pcie_window64;       // for 64-bit BARs
};

enum class DeviceTreeError : std::uint8_t {
  kBadHeader,     // not a device tree of version 17, or sizes that contradict each other
  kBadStructure,  // a token, name or property that leaves its block
  kNoMemory,
  kNoHarts,
  kNoPcie,  // no pci-host-ecam-generic node, or one without the two memory windows
};
[[nodiscard]] const char* name(DeviceTreeError error);

// Bytes that the tree at the beginning of `header` claims to have; 0 when it is none or larger than any real one.
inline constexpr std::size_t kDeviceTreeHeaderBytes = 40;
inline constexpr std::size_t kMostDeviceTreeBytes = std::size_t{2} << 20;
[[nodiscard]] std::size_t device_tree_bytes(std::span<const std::byte, kDeviceTreeHeaderBytes> header);

[[nodiscard]] std::expected<BoardDescription, DeviceTreeError> read_device_tree(std::span<const std::byte> tree);

}  // namespace virt
