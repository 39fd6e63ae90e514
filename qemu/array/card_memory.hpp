// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The card's memory as the emulator holds it, and what a hart in U-mode may reach of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace svp::array {

// Physical addresses first … first + bytes - 1 lie at `memory`. Whoever makes one vouches for that.
class CardMemory {
 public:
  CardMemory() = default;
  CardMemory(std::byte* memory, std::uint64_t first, std::uint64_t bytes)
      : memory_(memory), first_(first), bytes_(bytes) {}

  // Null when not all of the range is memory.
  std::byte* at(std::uint64_t physical, std::uint64_t bytes) const {
    const std::uint64_t offset = physical - first_;  // of an address in front of the memory: wraps, beyond its end
    if (offset > bytes_ || bytes > bytes_ - offset) return nullptr;
    return memory_ + offset;
  }
  // Of a place that at() has found.
  std::uint64_t physical_of(const std::byte* place) const {
    return first_ + static_cast<std::uint64_t>(place - memory_);
  }
  // An aligned word that harts may be writing.
  std::optional<std::uint64_t> word(std::uint64_t physical) const {
    std::byte* const place = physical % sizeof(std::uint64_t) == 0 ? at(physical, sizeof(std::uint64_t)) : nullptr;
    if (place == nullptr) return std::nullopt;
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place)).load(std::memory_order_acquire);
  }

 private:
  std::byte* memory_ = nullptr;
  std::uint64_t first_ = 0;
  std::uint64_t bytes_ = 0;
};

// What one entry of a page table maps.
struct Page {
  std::uint64_t first = 0;  // virtual
  std::uint64_t end = 0;
  std::byte* memory = nullptr;  // of the first byte
  bool writable = false;

  bool holds(std::uint64_t address) const { return address >= first && address < end; }
  std::byte* at(std::uint64_t address) const { return memory + (address - first); }
};

// The page of an address that U-mode may read, by the Sv39 table at `root`; none when there is no such page, or when it
// does not lie in the card's memory.
std::optional<Page> find_page(const CardMemory& memory, std::uint64_t root, std::uint64_t address);

}  // namespace svp::array
