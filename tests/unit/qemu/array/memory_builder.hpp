// SPDX-License-Identifier: Apache-2.0
// Memory of a card with page tables in it, for tests of the compute array: what a launch would have, made by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "qemu/array/card_memory.hpp"

namespace test {

struct Rights {
  bool write = true;
  bool user = true;
  bool execute = false;
};

class MemoryBuilder {
 public:
  static constexpr std::uint64_t kFirst = 0x80000000;
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kLargePage = kPage * 512;

  explicit MemoryBuilder(std::uint64_t bytes) : bytes_(bytes + kLargePage) { root_ = take_page(); }

  svp::array::CardMemory memory() { return {base(), kFirst, size()}; }
  std::uint64_t root() const { return root_; }
  std::byte* at(std::uint64_t physical) { return base() + (physical - kFirst); }

  std::uint64_t take_page() { return take(kPage); }
  std::uint64_t take_large_page() {
    next_ = (next_ + kLargePage - 1) / kLargePage * kLargePage;
    return take(kLargePage);
  }

  // `level` 0: 4 KiB, 1: 2 MiB.
  void map(std::uint64_t address, std::uint64_t physical, unsigned level, Rights rights = {}) {
    std::uint64_t table = root_;
    for (unsigned above = 2; above > level; --above) {
      std::uint64_t& entry = entry_of(table, address, above);
      if (entry == 0) entry = frame(take_page()) | 1;
      table = (entry >> 10) << 12;
    }
    entry_of(table, address, level) =
        frame(physical) | 1 | 2 | (rights.write ? 4 : 0) | (rights.execute ? 8 : 0) | (rights.user ? 16 : 0) | 64 | 128;
  }
  std::uint64_t& entry_of(std::uint64_t table, std::uint64_t address, unsigned level) {
    return reinterpret_cast<std::uint64_t*>(at(table))[address >> (12 + 9 * level) & 511];
  }
  static std::uint64_t frame(std::uint64_t physical) { return physical >> 12 << 10; }

 private:
  // On a large page of the host as well, so that offsets are aligned in both.
  std::byte* base() {
    const auto place = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return bytes_.data() + ((place + kLargePage - 1) / kLargePage * kLargePage - place);
  }
  std::uint64_t size() const { return bytes_.size() - kLargePage; }
  std::uint64_t take(std::uint64_t bytes) {
    const std::uint64_t place = kFirst + next_;
    next_ += bytes;
    return next_ <= size() ? place : throw std::bad_alloc();
  }

  std::vector<std::byte> bytes_;
  std::uint64_t next_ = 0;
  std::uint64_t root_;
};

}  // namespace test
