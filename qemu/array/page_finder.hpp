// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Memory of one request's operands.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "qemu/array/answer.hpp"
#include "qemu/array/card_memory.hpp"

namespace svp::array {

// Addresses of a launch are below it, so that nothing that is added to them overflows.
inline constexpr std::uint64_t kAddressLimit = std::uint64_t{1} << 38;

// An address of a stick, or a step from one to the next.
inline bool is_stick(std::uint64_t bytes) { return bytes % wire::kStickBytes == 0 && bytes < kAddressLimit; }
inline bool is_list(std::uint64_t address) { return address % sizeof(std::uint64_t) == 0 && address < kAddressLimit; }
inline bool is_row(const wire::array::Row& row) { return is_stick(row.address) && is_stick(row.step); }
inline bool is_count(std::uint64_t n, std::uint64_t most) { return n >= 1 && n <= most; }

// Pages: the last one of each operand is remembered.
class PageFinder {
 public:
  static constexpr unsigned kOperands = 8;

  PageFinder(const CardMemory& memory, std::uint64_t root) : memory_(memory), root_(root) {}

  // The page that operand `o` has at `address`; null: U-mode may not read there, or, when it `writes`, not write.
  const Page* find(unsigned o, std::uint64_t address, bool writes) {
    Page& page = page_[o];
    if (!page.holds(address)) {
      const auto found = find_page(memory_, root_, address);
      if (!found) return nullptr;
      page = *found;
    }
    return page.writable || !writes ? &page : nullptr;
  }
  // Where a stick lies, which is never in two pages.
  std::byte* find_stick(unsigned o, std::uint64_t address, bool writes) {
    const Page* const page = find(o, address, writes);
    return page == nullptr ? nullptr : page->at(address);
  }
  // Word `i` of a list of addresses of sticks; it is read once.
  Answer read(unsigned o, std::uint64_t list, std::uint32_t i, std::uint64_t& address) {
    const std::uint64_t at = list + i * sizeof address;
    const Page* const page = find(o, at, false);
    if (page == nullptr) return missing(o, at);
    std::memcpy(&address, page->at(at), sizeof address);
    return is_stick(address) ? Answer{.outcome = wire::array::Outcome::Done} : refused();
  }

 private:
  const CardMemory& memory_;
  std::uint64_t root_;
  std::array<Page, kOperands> page_{};
};

}  // namespace svp::array
