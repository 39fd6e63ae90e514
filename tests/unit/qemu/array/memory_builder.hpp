// SPDX-License-Identifier: Apache-2.0
// Memory of a card with page tables in it, for tests of the compute array: what a launch would have, made by hand.
// Nothing is mapped in front of it and behind it.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

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

  explicit MemoryBuilder(std::uint64_t bytes) : bytes_(bytes) {
    mapped_ = ::mmap(nullptr, mapped_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    // On a large page of the host as well, so that offsets are aligned in both.
    base_ = static_cast<std::byte*>(mapped_) + (kLargePage - reinterpret_cast<std::uintptr_t>(mapped_) % kLargePage);
    if (::mprotect(base_, bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    root_ = take_page();
  }
  ~MemoryBuilder() { ::munmap(mapped_, mapped_bytes()); }
  MemoryBuilder(const MemoryBuilder&) = delete;
  MemoryBuilder& operator=(const MemoryBuilder&) = delete;

  svp::array::CardMemory memory() { return {base_, kFirst, bytes_}; }
  std::uint64_t root() const { return root_; }
  std::byte* at(std::uint64_t physical) { return base_ + (physical - kFirst); }

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
  // Of 4 KiB, and mapped before.
  std::uint64_t& leaf_of(std::uint64_t address) {
    std::uint64_t table = root_;
    for (unsigned above = 2; above > 0; --above) table = (entry_of(table, address, above) >> 10) << 12;
    return entry_of(table, address, 0);
  }
  std::uint64_t& entry_of(std::uint64_t table, std::uint64_t address, unsigned level) {
    return reinterpret_cast<std::uint64_t*>(at(table))[address >> (12 + 9 * level) & 511];
  }
  static std::uint64_t frame(std::uint64_t physical) { return physical >> 12 << 10; }

 private:
  std::uint64_t mapped_bytes() const { return bytes_ + 3 * kLargePage; }
  std::uint64_t take(std::uint64_t bytes) {
    const std::uint64_t place = kFirst + next_;
    next_ += bytes;
    return next_ <= bytes_ ? place : throw std::bad_alloc();
  }

  std::uint64_t bytes_;  // whole pages
  void* mapped_ = nullptr;
  std::byte* base_ = nullptr;
  std::uint64_t next_ = 0;
  std::uint64_t root_ = 0;
};

}  // namespace test
