// SPDX-License-Identifier: Apache-2.0
// Configuration space of one PCI function through ECAM (PCI Express Base Specification, chapter 7).
#pragma once

#include <cstdint>
#include <optional>

namespace virt {

struct MsixTable {
  std::uint64_t capability;  // offset of the capability in configuration space
  unsigned bar;
  std::uint32_t offset;  // of the table in that BAR
  unsigned entries;
};

class PciFunction {
 public:
  constexpr explicit PciFunction(std::uint64_t config) : config_(config) {}

  // 0xffffffff when no function is there.
  [[nodiscard]] std::uint32_t identity() const { return read(0x00); }
  [[nodiscard]] bool multifunction() const;

  // Address decoding off, interrupts and bus mastering off.
  void disable();
  // Memory decoding and bus mastering (without it the function's interrupts go nowhere).
  void enable();

  // Size of a BAR; 0 when it is not implemented. Only while the function is disabled.
  [[nodiscard]] std::uint64_t bar_bytes(unsigned bar);
  [[nodiscard]] bool bar_is_64bit(unsigned bar) const;
  void set_bar(unsigned bar, std::uint64_t address);
  // Takes the BAR's address away; the others stay.
  void clear_bar(unsigned bar);

  [[nodiscard]] std::optional<MsixTable> find_msix() const;
  void set_msix_enabled(const MsixTable& table, bool enabled);

 protected:
  [[nodiscard]] std::uint64_t config() const { return config_; }
  // Offset of a capability in configuration space; 0: the function has none of this kind.
  [[nodiscard]] std::uint64_t find_capability(std::uint8_t identity) const;
  [[nodiscard]] std::uint32_t read(std::uint64_t offset) const;
  void write(std::uint64_t offset, std::uint32_t value);
  [[nodiscard]] std::uint16_t read16(std::uint64_t offset) const;
  void write16(std::uint64_t offset, std::uint16_t value);

 private:
  std::uint64_t config_;
};

}  // namespace virt
