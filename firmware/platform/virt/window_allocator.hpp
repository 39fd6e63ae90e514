// SPDX-License-Identifier: Apache-2.0
// Addresses for PCI BARs: naturally aligned blocks of one window, first fit, reused when given back. Pure logic.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace virt {

template <std::size_t kMostBlocks>
class WindowAllocator {
 public:
  constexpr void initialize(std::uint64_t base, std::uint64_t bytes) {
    base_ = base;
    end_ = bytes > ~std::uint64_t{0} - base ? ~std::uint64_t{0} : base + bytes;
    count_ = 0;
  }

  // An address that is a multiple of `bytes` (a power of two, as PCI wants it); 0 when none is left.
  [[nodiscard]] constexpr std::uint64_t allocate(std::uint64_t bytes) {
    if (!std::has_single_bit(bytes) || count_ == kMostBlocks) return 0;
    std::uint64_t at = base_;
    std::size_t index = 0;
    for (;; ++index) {
      if (at > ~std::uint64_t{0} - (bytes - 1)) return 0;
      at = (at + bytes - 1) & ~(bytes - 1);
      const std::uint64_t limit = index < count_ ? blocks_[index].base : end_;
      if (at != 0 && at <= limit && bytes <= limit - at) break;
      if (index == count_) return 0;
      at = blocks_[index].base + blocks_[index].bytes;
    }
    for (std::size_t i = count_++; i > index; --i) blocks_[i] = blocks_[i - 1];
    blocks_[index] = {at, bytes};
    return at;
  }

  // False when no block begins at `address`.
  constexpr bool release(std::uint64_t address) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (blocks_[i].base != address) continue;
      for (--count_; i < count_; ++i) blocks_[i] = blocks_[i + 1];
      return true;
    }
    return false;
  }

  [[nodiscard]] constexpr std::size_t count() const { return count_; }

 private:
  struct Block {
    std::uint64_t base;
    std::uint64_t bytes;
  };
  std::array<Block, kMostBlocks> blocks_{};  // ascending
  std::size_t count_ = 0;
  std::uint64_t base_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace virt
