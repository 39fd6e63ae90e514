// SPDX-License-Identifier: Apache-2.0
// Pages of one request's operands: the last one of each is remembered.
#pragma once

#include <array>
#include <cstdint>

#include "qemu/array/card_memory.hpp"

namespace svp::array {

// Addresses of a launch are below it, so that nothing that is added to them overflows.
inline constexpr std::uint64_t kAddressLimit = std::uint64_t{1} << 38;

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

 private:
  const CardMemory& memory_;
  std::uint64_t root_;
  std::array<Page, kOperands> page_{};
};

}  // namespace svp::array
