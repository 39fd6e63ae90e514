// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/sv39.hpp"

#include <atomic>

#include "firmware/hal/memory.hpp"

namespace riscv {

namespace {

constexpr std::uint64_t kValid = 1 << 0;
constexpr std::uint64_t kRead = 1 << 1;
constexpr std::uint64_t kWrite = 1 << 2;
constexpr std::uint64_t kExecute = 1 << 3;
constexpr std::uint64_t kUser = 1 << 4;
constexpr std::uint64_t kAccessed = 1 << 6;
constexpr std::uint64_t kDirty = 1 << 7;
constexpr std::uint64_t kWindow = 1 << 8;  // reserved for software: the table below belongs to a window
constexpr std::uint64_t kLeafBits = kRead | kWrite | kExecute;
constexpr std::uint64_t kFrameMask = ((std::uint64_t{1} << 44) - 1) << 10;

constexpr std::uint64_t kEntries = 512;
constexpr std::uint64_t kPage = PageArena::kPageBytes;
constexpr std::uint64_t kLargePage = PageArena::kLargePageBytes;
constexpr std::uint64_t kHugePage = kEntries * kLargePage;  // what one entry of a root covers
static_assert(kHugePage == std::uint64_t{1} << 30);

std::uint64_t* table(std::uint64_t address) { return reinterpret_cast<std::uint64_t*>(hal::pointer(address)); }

std::uint64_t& root_entry(std::uint64_t root, std::uint64_t va) { return table(root)[va / kHugePage % kEntries]; }
std::uint64_t& large_entry(std::uint64_t middle, std::uint64_t va) { return table(middle)[va / kLargePage % kEntries]; }
std::uint64_t& small_entry(std::uint64_t low, std::uint64_t va) { return table(low)[va / kPage % kEntries]; }

constexpr std::uint64_t target(std::uint64_t entry) { return (entry & kFrameMask) << 2; }
constexpr std::uint64_t frame(std::uint64_t physical) { return physical >> 2 & kFrameMask; }
constexpr bool is_leaf(std::uint64_t entry) { return entry & kLeafBits; }

std::uint64_t load(std::uint64_t& entry) { return std::atomic_ref(entry).load(std::memory_order_acquire); }

// A table must be complete before a walker can find it.
void publish(std::uint64_t& entry, std::uint64_t value) {
  std::atomic_ref(entry).store(value, std::memory_order_release);
}

// 0 for values outside the enumeration.
constexpr std::uint64_t rights(hal::Protection protection) {
  switch (protection) {
    case hal::Protection::Read: return kRead;
    case hal::Protection::ReadWrite: return kRead | kWrite;
    case hal::Protection::ReadExecute: return kRead | kExecute;
  }
  return 0;
}

constexpr std::uint64_t leaf(std::uint64_t physical, std::uint64_t access) {
  return frame(physical) | access | kUser | kAccessed | kDirty | kValid;
}

constexpr bool mappable(std::uint64_t va, std::uint64_t bytes) {
  return bytes > 0 && va >= Sv39Tables::kLowestAddress && va < Sv39Tables::kAddressLimit &&
         bytes <= Sv39Tables::kAddressLimit - va;
}

// Calls visit(address) once for each entry of a root that [va, va + bytes) touches, until it returns false.
template <typename Visit>
bool each_huge_page(std::uint64_t va, std::uint64_t bytes, Visit visit) {
  const std::uint64_t end = va + bytes;
  for (std::uint64_t at = va / kHugePage * kHugePage; at < end; at += kHugePage) {
    if (!visit(at)) return false;
  }
  return true;
}

}  // namespace

struct Sv39Tables::Mapping {
  std::uint64_t root;
  std::uint64_t va;
  std::uint64_t physical;
  std::uint64_t bytes;
  std::uint64_t access;

  // The largest page that fits at `offset`.
  [[nodiscard]] std::uint64_t step(std::uint64_t offset) const {
    const bool aligned = (va + offset) % kLargePage == 0 && (physical + offset) % kLargePage == 0;
    return aligned && bytes - offset >= kLargePage ? kLargePage : kPage;
  }
};

std::uint64_t Sv39Tables::new_table() {
  const std::uint64_t page = arena_.allocate(kPage);
  if (page == 0) return 0;
  hal::fill(hal::pointer(page), 0, kPage);
  ++table_pages_;
  return page;
}

void Sv39Tables::free_table(std::uint64_t address) {
  if (!arena_.release(address, kPage)) return;
  --table_pages_;
  // Whoever still walks a table that is gone finds nothing, whatever the page becomes next.
  hal::fill(hal::pointer(address), 0, kPage);
}

std::uint64_t Sv39Tables::create_root() { return new_table(); }

void Sv39Tables::destroy_root(std::uint64_t root) {
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    const std::uint64_t top = table(root)[i];
    if (!(top & kValid) || (top & kWindow)) continue;
    const std::uint64_t middle = target(top);
    for (std::uint64_t j = 0; j < kEntries; ++j) {
      const std::uint64_t entry = table(middle)[j];
      if ((entry & kValid) && !is_leaf(entry)) free_table(target(entry));
    }
    free_table(middle);
  }
  free_table(root);
}

bool Sv39Tables::check(const Mapping& m, std::uint64_t& missing_tables) const {
  missing_tables = 0;
  std::uint64_t last_huge = ~std::uint64_t{0};
  std::uint64_t last_large = ~std::uint64_t{0};
  for (std::uint64_t offset = 0; offset < m.bytes;) {
    const std::uint64_t at = m.va + offset;
    const std::uint64_t step = m.step(offset);
    offset += step;
    const std::uint64_t top = root_entry(m.root, at);
    if (top & kWindow) return false;
    if (!(top & kValid) && last_huge != at / kHugePage) ++missing_tables;
    last_huge = at / kHugePage;
    const std::uint64_t middle = top & kValid ? large_entry(target(top), at) : 0;
    if (step == kLargePage) {
      if (middle & kValid) return false;
      continue;
    }
    if (is_leaf(middle)) return false;
    if (middle & kValid) {
      if (small_entry(target(middle), at) & kValid) return false;
    } else if (last_large != at / kLargePage) {
      ++missing_tables;
    }
    last_large = at / kLargePage;
  }
  return true;
}

void Sv39Tables::install(const Mapping& m) {
  for (std::uint64_t offset = 0; offset < m.bytes;) {
    const std::uint64_t at = m.va + offset;
    const std::uint64_t value = leaf(m.physical + offset, m.access);
    const std::uint64_t step = m.step(offset);
    offset += step;
    std::uint64_t& top = root_entry(m.root, at);
    if (!(top & kValid)) publish(top, frame(new_table()) | kValid);
    std::uint64_t& middle = large_entry(target(top), at);
    if (step == kLargePage) {
      publish(middle, value);
      continue;
    }
    if (!(middle & kValid)) publish(middle, frame(new_table()) | kValid);
    publish(small_entry(target(middle), at), value);
  }
}

bool Sv39Tables::map(std::uint64_t root, std::uint64_t va, std::uint64_t physical, std::uint64_t bytes,
                     hal::Protection protection) {
  const Mapping mapping{root, va, physical, bytes, rights(protection)};
  if (root == 0 || mapping.access == 0 || !mappable(va, bytes)) return false;
  if (va % kPage != 0 || physical % kPage != 0 || bytes % kPage != 0) return false;
  if (physical >= kPhysicalLimit || bytes > kPhysicalLimit - physical) return false;
  std::uint64_t missing_tables = 0;
  if (!check(mapping, missing_tables) || missing_tables > arena_.free_pages()) return false;
  install(mapping);
  return true;
}

bool Sv39Tables::prepare_window(std::uint64_t root, std::uint64_t va, std::uint64_t bytes) {
  if (root == 0 || !mappable(va, bytes)) return false;
  std::uint64_t missing_tables = 0;
  const bool free = each_huge_page(va, bytes, [&](std::uint64_t at) {
    const std::uint64_t top = root_entry(root, at);
    missing_tables += !(top & kValid);
    return !(top & kValid) || (top & kWindow);
  });
  if (!free || missing_tables > arena_.free_pages()) return false;
  return each_huge_page(va, bytes, [&](std::uint64_t at) {
    std::uint64_t& top = root_entry(root, at);
    if (!(top & kValid)) publish(top, frame(new_table()) | kWindow | kValid);
    return true;
  });
}

bool Sv39Tables::share_window(std::uint64_t from_root, std::uint64_t to_root, std::uint64_t va, std::uint64_t bytes) {
  if (from_root == 0 || to_root == 0 || !mappable(va, bytes)) return false;
  const bool possible = each_huge_page(va, bytes, [&](std::uint64_t at) {
    const std::uint64_t from = root_entry(from_root, at);
    const std::uint64_t to = root_entry(to_root, at);
    return (from & kWindow) && (!(to & kValid) || to == from);
  });
  if (!possible) return false;
  return each_huge_page(va, bytes, [&](std::uint64_t at) {
    publish(root_entry(to_root, at), root_entry(from_root, at));
    return true;
  });
}

void Sv39Tables::release_window(std::uint64_t root, std::uint64_t va, std::uint64_t bytes) {
  if (root == 0 || !mappable(va, bytes)) return;
  each_huge_page(va, bytes, [&](std::uint64_t at) {
    std::uint64_t& top = root_entry(root, at);
    if (top & kWindow) {
      const std::uint64_t middle = target(top);
      publish(top, 0);
      free_table(middle);
    }
    return true;
  });
}

bool Sv39Tables::allows(std::uint64_t root, std::uint64_t va, hal::Protection wanted) {
  if (root == 0 || !mappable(va, 1)) return false;
  std::uint64_t entry = load(root_entry(root, va));
  if (entry & kValid) entry = load(large_entry(target(entry), va));
  if ((entry & kValid) && !is_leaf(entry)) entry = load(small_entry(target(entry), va));
  const std::uint64_t needed = rights(wanted) | kUser | kValid;
  return (entry & needed) == needed;
}

Sv39Tables::Fill Sv39Tables::fill(std::uint64_t root, std::uint64_t va, std::uint64_t physical) {
  if (root == 0 || !mappable(va, 1)) return Fill::kNoWindow;
  const std::uint64_t top = load(root_entry(root, va));
  if (!(top & kWindow)) return Fill::kNoWindow;
  std::uint64_t expected = 0;
  const std::uint64_t value = leaf(physical / kLargePage * kLargePage, kRead | kWrite);
  const bool set =
      std::atomic_ref(large_entry(target(top), va)).compare_exchange_strong(expected, value, std::memory_order_acq_rel);
  return set ? Fill::kSet : Fill::kValidAlready;
}

}  // namespace riscv
