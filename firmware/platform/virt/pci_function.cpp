// SPDX-License-Identifier: Apache-2.0
#include "firmware/platform/virt/pci_function.hpp"

#include "firmware/arch/riscv/mmio.hpp"

namespace virt {

namespace {

constexpr std::uint64_t kCommand = 0x04;
constexpr std::uint64_t kHeaderType = 0x0c;  // third byte
constexpr std::uint64_t kBar0 = 0x10;
constexpr std::uint64_t kCapabilities = 0x34;
constexpr std::uint32_t kMemoryDecoding = 1 << 1;
constexpr std::uint32_t kBusMaster = 1 << 2;
constexpr std::uint32_t kMultifunction = 1u << 23;
constexpr std::uint32_t kBarFlags = 0xf;
constexpr std::uint32_t kBarTypeMask = 0x6;
constexpr std::uint32_t kBarType64 = 0x4;
constexpr std::uint8_t kMsixIdentity = 0x11;
constexpr std::uint32_t kMsixEnable = 1u << 31;
constexpr std::uint32_t kMsixFunctionMask = 1u << 30;
// Capabilities are at least 4 bytes each in the 192 bytes behind the header: a longer list is a circle.
constexpr unsigned kMostCapabilities = 48;

}  // namespace

std::uint32_t PciFunction::read(std::uint64_t offset) const { return riscv::mmio_read32(config_ + offset); }
void PciFunction::write(std::uint64_t offset, std::uint32_t value) { riscv::mmio_write32(config_ + offset, value); }

std::uint16_t PciFunction::read16(std::uint64_t offset) const { return riscv::mmio_read16(config_ + offset); }
void PciFunction::write16(std::uint64_t offset, std::uint16_t value) { riscv::mmio_write16(config_ + offset, value); }

bool PciFunction::multifunction() const { return read(kHeaderType) & kMultifunction; }

// The upper half of the word is the status register, whose bits are cleared by writing ones: write zeros.
void PciFunction::disable() { write(kCommand, 0); }
void PciFunction::enable() { write(kCommand, kMemoryDecoding | kBusMaster); }

bool PciFunction::bar_is_64bit(unsigned bar) const { return (read(kBar0 + 4 * bar) & kBarTypeMask) == kBarType64; }

std::uint64_t PciFunction::bar_bytes(unsigned bar) {
  const std::uint64_t offset = kBar0 + 4 * bar;
  const bool wide = bar_is_64bit(bar);
  write(offset, ~0u);
  if (wide) write(offset + 4, ~0u);
  const std::uint64_t low = read(offset) & ~kBarFlags;
  const std::uint64_t mask = wide ? std::uint64_t{read(offset + 4)} << 32 | low : low == 0 ? 0 : ~0xffffffffull | low;
  return mask == 0 ? 0 : ~mask + 1;
}

void PciFunction::set_bar(unsigned bar, std::uint64_t address) {
  write(kBar0 + 4 * bar, static_cast<std::uint32_t>(address));
  if (bar_is_64bit(bar)) write(kBar0 + 4 * bar + 4, static_cast<std::uint32_t>(address >> 32));
}

// All ones are no address: the BAR decodes nothing.
void PciFunction::clear_bar(unsigned bar) { set_bar(bar, ~std::uint64_t{0}); }

std::uint64_t PciFunction::find_capability(std::uint8_t identity) const {
  std::uint64_t at = read(kCapabilities) & 0xfc;
  for (unsigned i = 0; i < kMostCapabilities && at != 0; ++i) {
    const std::uint32_t header = read(at);
    if ((header & 0xff) == identity) return at;
    at = header >> 8 & 0xfc;
  }
  return 0;
}

std::optional<MsixTable> PciFunction::find_msix() const {
  const std::uint64_t at = find_capability(kMsixIdentity);
  if (at == 0) return std::nullopt;
  const std::uint32_t place = read(at + 4);
  return MsixTable{.capability = at, .bar = place & 7, .offset = place & ~7u, .entries = (read(at) >> 16 & 0x7ff) + 1};
}

void PciFunction::set_msix_enabled(const MsixTable& table, bool enabled) {
  const std::uint32_t header = read(table.capability) & ~(kMsixEnable | kMsixFunctionMask);
  write(table.capability, header | (enabled ? kMsixEnable : kMsixFunctionMask));
}

}  // namespace virt
