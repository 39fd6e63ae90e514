// SPDX-License-Identifier: Apache-2.0
// Slots: ivshmem-doorbell devices (QEMU docs/specs/ivshmem-spec.rst) on the root bus, numbered by devfn.
#include "firmware/platform/virt/slots.hpp"

#include <array>

#include "firmware/arch/riscv/imsic.hpp"
#include "firmware/arch/riscv/mmio.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/platform/virt/pci_function.hpp"
#include "firmware/platform/virt/window_allocator.hpp"

namespace virt {

namespace {

constexpr std::uint32_t kIvshmem = 0x1110'1af4;
constexpr unsigned kMostSlots = 256;
constexpr unsigned kFunctionsPerDevice = 8;
constexpr std::uint64_t kConfigBytes = 4096;

constexpr unsigned kRegisterBar = 0;
constexpr unsigned kWindowBar = 2;
constexpr std::uint64_t kDoorbell = 12;
// The host is the one other peer of each device, with one vector (host side: qemu/slot_handle.hpp).
constexpr std::uint32_t kHostPeer = 0;
constexpr std::uint32_t kBellVector = 0;

struct Slot {
  PciFunction function{0};
  MsixTable msix{};
  std::uint64_t registers = 0;  // BAR addresses; 0 while the slot is not mapped
  std::uint64_t msix_page = 0;
  std::uint64_t window = 0;
  std::uint64_t window_bytes = 0;
};

std::array<Slot, kMostSlots> slots;
unsigned found;
WindowAllocator<2 * kMostSlots> addresses32;
WindowAllocator<kMostSlots> addresses64;

void add(PciFunction function) {
  const auto msix = function.find_msix();
  if (!msix || msix->bar == kRegisterBar || msix->bar >= kWindowBar) {
    hal::panic("an ivshmem device without doorbells: use ivshmem-doorbell");
  }
  function.disable();
  slots[found++] = {.function = function, .msix = *msix};
}

bool allocate(Slot& slot) {
  PciFunction& function = slot.function;
  slot.registers = addresses32.allocate(function.bar_bytes(kRegisterBar));
  slot.msix_page = addresses32.allocate(function.bar_bytes(slot.msix.bar));
  slot.window_bytes = function.bar_bytes(kWindowBar);
  slot.window = addresses64.allocate(slot.window_bytes);
  return slot.registers != 0 && slot.msix_page != 0 && slot.window != 0;
}

void give_back(Slot& slot) {
  addresses32.release(slot.registers);
  addresses32.release(slot.msix_page);
  addresses64.release(slot.window);
  slot.registers = slot.msix_page = slot.window = slot.window_bytes = 0;
}

// MSI-X table entry: address, address high, data, control (bit 0: masked).
void route_interrupt(const Slot& slot, std::uint32_t identity) {
  const std::uint64_t entry = slot.msix_page + slot.msix.offset;
  const std::uint64_t file = riscv::imsic_file(0);
  riscv::mmio_write32(entry + 0, static_cast<std::uint32_t>(file));
  riscv::mmio_write32(entry + 4, static_cast<std::uint32_t>(file >> 32));
  riscv::mmio_write32(entry + 8, identity);
  riscv::mmio_write32(entry + 12, 0);
}

}  // namespace

void find_slots(const BoardDescription& board) {
  found = 0;
  addresses32.initialize(board.pcie_window32.base, board.pcie_window32.bytes);
  addresses64.initialize(board.pcie_window64.base, board.pcie_window64.bytes);
  for (unsigned devfn = 0; devfn < kMostSlots;) {
    const PciFunction function(board.pcie_config.base + devfn * kConfigBytes);
    const std::uint32_t identity = function.identity();
    if (identity == kIvshmem) add(function);
    // Other functions of a device exist only when function 0 says so.
    const bool first = devfn % kFunctionsPerDevice == 0;
    devfn += first && (identity == ~0u || !function.multifunction()) ? kFunctionsPerDevice : 1;
  }
}

}  // namespace virt

namespace hal {

unsigned slot_count() { return virt::found; }

bool map_slot(unsigned number) {
  if (number >= virt::found) return false;
  virt::Slot& slot = virt::slots[number];
  if (slot.window != 0) return true;
  if (!virt::allocate(slot)) {
    virt::give_back(slot);
    return false;
  }
  slot.function.set_bar(virt::kRegisterBar, slot.registers);
  slot.function.set_bar(slot.msix.bar, slot.msix_page);
  slot.function.set_bar(virt::kWindowBar, slot.window);
  slot.function.enable();
  virt::route_interrupt(slot, riscv::slot_identity(number));
  slot.function.set_msix_enabled(slot.msix, true);
  return true;
}

void unmap_slot(unsigned number) {
  if (number >= virt::found) return;
  virt::Slot& slot = virt::slots[number];
  if (slot.window == 0) return;
  slot.function.set_msix_enabled(slot.msix, false);
  slot.function.disable();
  virt::give_back(slot);
}

std::span<std::byte> window(unsigned number) {
  if (number >= virt::found) return {};
  const virt::Slot& slot = virt::slots[number];
  if (slot.window == 0) return {};
  return {reinterpret_cast<std::byte*>(slot.window), slot.window_bytes};
}

void ring(unsigned number) {
  if (number >= virt::found || virt::slots[number].registers == 0) return;
  asm volatile("fence w, o" ::: "memory");
  riscv::mmio_write32(virt::slots[number].registers + virt::kDoorbell, virt::kHostPeer << 16 | virt::kBellVector);
}

}  // namespace hal
