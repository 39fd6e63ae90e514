// SPDX-License-Identifier: Apache-2.0
// A function in the hands of a raw client: its window and its doorbell, without our driver.
#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "host_driver/transport/doorbells.hpp"
#include "host_driver/transport/slot_handle.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/window.hpp"

namespace raw {

class BareSlot {
 public:
  // Throws svp::Error when the window cannot be mapped.
  explicit BareSlot(svp::SlotHandle handle);

  std::span<std::byte> window() const { return window_->bytes(); }
  // Lets the card look, now and again while an answer is waited for: a doorbell each 100 µs.
  void pump();

 private:
  std::shared_ptr<svp::Window> window_;
  svp::Doorbells doorbells_;
  std::chrono::steady_clock::time_point level_{};
};

constexpr std::uint64_t block_at(unsigned slot) {
  return wire::kControlBlocks.offset + slot * std::uint64_t{wire::kControlBlockSlotBytes};
}
constexpr std::uint64_t completion_at(unsigned slot) {
  return wire::kCompletions.offset + slot * std::uint64_t{wire::kStickBytes};
}

}  // namespace raw
