// SPDX-License-Identifier: Apache-2.0
// Slots: ivshmem-doorbell devices (QEMU docs/specs/ivshmem-spec.rst) and root ports on the root bus, numbered by devfn.
// Only ivshmem-plain is plugged into ports: the emulator does not survive a second ivshmem-doorbell.
#include "firmware/platform/virt/slots.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "firmware/arch/riscv/dma_engine.hpp"
#include "firmware/arch/riscv/imsic.hpp"
#include "firmware/arch/riscv/mmio.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/platform/virt/pci_function.hpp"
#include "firmware/platform/virt/root_port.hpp"
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
// Every peer has one vector (host side: host_driver/transport/slot_handle.hpp).
constexpr std::uint32_t kDoorbellVector = 0;

struct Slot {
  PciFunction function{0};  // renewable: what is plugged into the port
  MsixTable msix{};
  std::optional<RootPort> port{};  // of a renewable slot
  std::uint64_t registers = 0;     // BAR addresses; 0 while they are not mapped
  std::uint64_t msix_page = 0;
  std::uint64_t window = 0;
  std::uint64_t window_bytes = 0;
};

std::array<Slot, kMostSlots> slots;
unsigned found;
unsigned ports;
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

// Behind a port that is new: nothing is decoded, nothing is powered that is not bound.
void add_port(PciFunction function) {
  RootPort port(function, ++ports);
  if (!port.usable()) return;
  port.initialize();
  slots[found++] = {.function = PciFunction(port.below()), .port = port};
}

bool allocate_doorbell(Slot& slot) {
  slot.registers = addresses32.allocate(slot.function.bar_bytes(kRegisterBar));
  slot.msix_page = addresses32.allocate(slot.function.bar_bytes(slot.msix.bar));
  return slot.registers != 0 && slot.msix_page != 0;
}

void give_doorbell_back(Slot& slot) {
  addresses32.release(slot.registers);
  addresses32.release(slot.msix_page);
  slot.registers = slot.msix_page = 0;
}

// A bridge's window is a multiple of 1 MiB.
bool allocate_window(Slot& slot) {
  slot.window_bytes = slot.function.bar_bytes(kWindowBar);
  slot.window = addresses64.allocate(slot.port ? std::max(slot.window_bytes, kBridgeGranule) : slot.window_bytes);
  return slot.window != 0;
}

void give_window_back(Slot& slot) {
  addresses64.release(slot.window);
  slot.window = slot.window_bytes = 0;
}

void show_window(const Slot& slot) {
  riscv::dma_engine::show(reinterpret_cast<std::byte*>(slot.window), slot.window_bytes);
}
void hide_window(const Slot& slot) {
  if (slot.window != 0) riscv::dma_engine::hide(reinterpret_cast<const std::byte*>(slot.window));
}

bool map_renewable(Slot& slot) {
  slot.port->power_on();
  if (slot.function.identity() != kIvshmem) return false;
  slot.function.disable();
  if (!allocate_window(slot)) {
    give_window_back(slot);
    return false;
  }
  slot.port->forward(slot.window, std::max(slot.window_bytes, kBridgeGranule));
  slot.function.set_bar(kWindowBar, slot.window);
  slot.function.enable();
  show_window(slot);
  return true;
}

void unplug(Slot& slot) {
  hide_window(slot);
  slot.port->power_off();
  slot.port->forward_nothing();
  give_window_back(slot);
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

void begin_doorbell(Slot& slot, std::uint32_t identity) {
  slot.function.set_bar(kRegisterBar, slot.registers);
  slot.function.set_bar(slot.msix.bar, slot.msix_page);
  slot.function.enable();
  route_interrupt(slot, identity);
  slot.function.set_msix_enabled(slot.msix, true);
}

}  // namespace

void find_slots(const BoardDescription& board) {
  found = ports = 0;
  addresses32.initialize(board.pcie_window32.base, board.pcie_window32.bytes);
  addresses64.initialize(board.pcie_window64.base, board.pcie_window64.bytes);
  for (unsigned devfn = 0; devfn < kMostSlots;) {
    const PciFunction function(board.pcie_config.base + devfn * kConfigBytes);
    const std::uint32_t identity = function.identity();
    if (identity == kIvshmem) add(function);
    if (identity == kRootPort) add_port(function);
    // Other functions of a device exist only when function 0 says so.
    const bool first = devfn % kFunctionsPerDevice == 0;
    devfn += first && (identity == ~0u || !function.multifunction()) ? kFunctionsPerDevice : 1;
  }
}

}  // namespace virt

namespace hal {

unsigned slot_count() { return virt::found; }
bool slot_renewable(unsigned number) { return number < virt::found && virt::slots[number].port.has_value(); }

bool map_slot(unsigned number) {
  if (number >= virt::found) return false;
  virt::Slot& slot = virt::slots[number];
  if (slot.window != 0) return true;
  if (slot.port) return virt::map_renewable(slot);
  virt::give_doorbell_back(slot);
  slot.function.disable();
  if (!virt::allocate_doorbell(slot) || !virt::allocate_window(slot)) {
    virt::give_doorbell_back(slot);
    virt::give_window_back(slot);
    return false;
  }
  slot.function.set_bar(virt::kWindowBar, slot.window);
  virt::begin_doorbell(slot, riscv::slot_identity(number));
  virt::show_window(slot);
  return true;
}

void unmap_slot(unsigned number) {
  if (number >= virt::found) return;
  virt::Slot& slot = virt::slots[number];
  if (slot.port) return virt::unplug(slot);
  if (slot.window == 0) return;
  virt::hide_window(slot);
  slot.function.set_msix_enabled(slot.msix, false);
  slot.function.disable();
  virt::give_doorbell_back(slot);
  virt::give_window_back(slot);
}

bool open_doorbell(unsigned number) {
  if (number >= virt::found || virt::slots[number].port) return false;
  virt::Slot& slot = virt::slots[number];
  if (slot.registers == 0) {
    if (!virt::allocate_doorbell(slot)) {
      virt::give_doorbell_back(slot);
      return false;
    }
    slot.function.clear_bar(virt::kWindowBar);
  }
  virt::begin_doorbell(slot, riscv::slot_identity(number));
  return true;
}

void close_doorbell(unsigned number) {
  if (number >= virt::found || virt::slots[number].registers == 0) return;
  virt::slots[number].function.set_msix_enabled(virt::slots[number].msix, false);
}

std::span<std::byte> window(unsigned number) {
  if (number >= virt::found) return {};
  const virt::Slot& slot = virt::slots[number];
  if (slot.window == 0) return {};
  return {reinterpret_cast<std::byte*>(slot.window), slot.window_bytes};
}

void signal(unsigned number, std::uint32_t peer) {
  if (number >= virt::found || virt::slots[number].registers == 0) return;
  asm volatile("fence w, o" ::: "memory");
  riscv::mmio_write32(virt::slots[number].registers + virt::kDoorbell, peer << 16 | virt::kDoorbellVector);
}

}  // namespace hal
