// SPDX-License-Identifier: Apache-2.0
// The function under test in the hands of a stranger: its window and its bell, without our driver.
#pragma once

#include <memory>
#include <span>

#include "host_driver/device/device.hpp"
#include "host_driver/transport/window.hpp"
#include "qemu/slot_handle.hpp"
#include "shared/window.hpp"

namespace flex::conformance {

class BareSlot {
 public:
  explicit BareSlot(qemu::SlotHandle handle);

  std::span<std::byte> window() const { return window_->bytes(); }
  // Lets the card look, now and again while an answer is waited for: a bell each 100 µs.
  void pump();

 private:
  qemu::SlotHandle handle_;
  std::shared_ptr<Window> window_;
  Device::TimePoint rung_{};
};

constexpr std::uint64_t block_at(unsigned slot) {
  return wire::kControlBlocks.offset + slot * std::uint64_t{wire::kControlBlockSlotBytes};
}
constexpr std::uint64_t completion_at(unsigned slot) {
  return wire::kCompletions.offset + slot * std::uint64_t{wire::kStickBytes};
}

}  // namespace flex::conformance
