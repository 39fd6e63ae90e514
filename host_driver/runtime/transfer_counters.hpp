// SPDX-License-Identifier: Apache-2.0
// Counts how bytes get between host and card, so that tests and programs see which way a transfer took without timing
// it.
#pragma once

#include <atomic>
#include <cstdint>

namespace svp {

class TransferCounters {
 public:
  struct Snapshot {
    std::uint64_t direct_bytes;  // moved by DMA from or to the memory that the launch named
    std::uint64_t staged_bytes;  // moved by DMA from or to a staging chunk
    std::uint64_t copied_bytes;  // written by the CPU on the way: copies and conversions, counted in the card's bytes
  };

  void add_direct(std::uint64_t bytes) noexcept { direct_.fetch_add(bytes, std::memory_order_relaxed); }
  void add_staged(std::uint64_t bytes) noexcept { staged_.fetch_add(bytes, std::memory_order_relaxed); }
  void add_copied(std::uint64_t bytes) noexcept { copied_.fetch_add(bytes, std::memory_order_relaxed); }

  Snapshot snapshot() const noexcept {
    return {.direct_bytes = direct_.load(std::memory_order_relaxed),
            .staged_bytes = staged_.load(std::memory_order_relaxed),
            .copied_bytes = copied_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> direct_{0};
  std::atomic<std::uint64_t> staged_{0};
  std::atomic<std::uint64_t> copied_{0};
};

}  // namespace svp
