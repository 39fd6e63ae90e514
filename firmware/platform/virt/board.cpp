// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "firmware/arch/riscv/arena.hpp"
#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/arch/riscv/boot.hpp"
#include "firmware/arch/riscv/mmio.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/memory_map.h"
#include "firmware/platform/virt/device_tree.hpp"
#include "firmware/platform/virt/slots.hpp"
#include "shared/units.hpp"

namespace virt {

namespace {

std::array<char, 4096> boot_argument_text;
std::size_t boot_argument_bytes;
hal::MemoryRange regions;

// The tree lies in memory that is used for other things later: keep the text.
void keep_boot_arguments(std::string_view text) {
  if (text.size() > boot_argument_text.size()) hal::panic("boot arguments longer than 4096 bytes");
  std::copy(text.begin(), text.end(), boot_argument_text.begin());
  boot_argument_bytes = text.size();
}

void divide_memory(const AddressRange& memory) {
  const auto arena_begin = reinterpret_cast<std::uint64_t>(__arena_begin);
  const auto arena_end = std::uint64_t{REGIONS_BASE};
  if (memory.base != RAM_BASE || memory.end() < arena_end + wire::kGranuleBytes) {
    hal::panic("memory: the card needs more than 2 GiB (-m)");
  }
  riscv::arena_initialize(arena_begin, arena_end);
  regions = {.begin = arena_end, .end = memory.end() / wire::kGranuleBytes * wire::kGranuleBytes};
}

BoardDescription describe(const std::byte* device_tree) {
  const std::span<const std::byte, kDeviceTreeHeaderBytes> header(device_tree, kDeviceTreeHeaderBytes);
  const auto board = read_device_tree({device_tree, device_tree_bytes(header)});
  if (!board) hal::panic(name(board.error()));
  return *board;
}

}  // namespace

}  // namespace virt

namespace hal {

void initialize_board(const std::byte* device_tree) {
  const virt::BoardDescription board = virt::describe(device_tree);
  riscv::set_hart_count(board.harts);
  virt::keep_boot_arguments(board.boot_arguments);
  virt::divide_memory(board.memory);
  virt::find_slots(board);
  find_array();
}

void restart_board() {
  riscv::mmio_write32(FINISHER_BASE, FINISHER_RESET);
  riscv_park();
}

std::string_view boot_arguments() { return {virt::boot_argument_text.data(), virt::boot_argument_bytes}; }

MemoryRange region_memory() { return virt::regions; }

void exit(unsigned code) {
  const std::uint32_t word = code == 0 ? std::uint32_t{FINISHER_PASS} : (code & 0xffff) << 16 | FINISHER_FAIL;
  riscv::mmio_write32(FINISHER_BASE, word);
  riscv_park();
}

}  // namespace hal
