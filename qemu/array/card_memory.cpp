// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/card_memory.hpp"

namespace svp::array {
namespace {

// RISC-V privileged architecture, "Sv39".
constexpr std::uint64_t kValid = 1 << 0;
constexpr std::uint64_t kRead = 1 << 1;
constexpr std::uint64_t kWrite = 1 << 2;
constexpr std::uint64_t kExecute = 1 << 3;
constexpr std::uint64_t kUser = 1 << 4;
constexpr unsigned kLevels = 3;
constexpr unsigned kPageShift = 12;
constexpr unsigned kIndexBits = 9;
constexpr std::uint64_t kLowerHalf = std::uint64_t{1} << 38;

std::uint64_t target_of(std::uint64_t entry) { return (entry >> 10 & ((std::uint64_t{1} << 44) - 1)) << kPageShift; }

std::optional<Page> page_of(const CardMemory& memory, std::uint64_t entry, std::uint64_t address, unsigned shift) {
  const std::uint64_t bytes = std::uint64_t{1} << shift;
  const std::uint64_t physical = target_of(entry);
  if ((entry & (kRead | kUser)) != (kRead | kUser) || (entry & kExecute) != 0 || physical % bytes != 0) {
    return std::nullopt;
  }
  std::byte* const place = memory.at(physical, bytes);
  if (place == nullptr) return std::nullopt;
  const std::uint64_t first = address & ~(bytes - 1);
  return Page{.first = first, .end = first + bytes, .memory = place, .writable = (entry & kWrite) != 0};
}

}  // namespace

std::optional<Page> find_page(const CardMemory& memory, std::uint64_t root, std::uint64_t address) {
  if (address >= kLowerHalf) return std::nullopt;
  std::uint64_t table = root;
  for (unsigned level = kLevels; level-- > 0;) {
    const unsigned shift = kPageShift + level * kIndexBits;
    const std::uint64_t index = address >> shift & ((1u << kIndexBits) - 1);
    const auto entry = memory.word(table + index * sizeof(std::uint64_t));
    if (!entry || (*entry & kValid) == 0) return std::nullopt;
    if ((*entry & (kRead | kWrite | kExecute)) != 0) return page_of(memory, *entry, address, shift);
    table = target_of(*entry);
  }
  return std::nullopt;
}

}  // namespace svp::array
