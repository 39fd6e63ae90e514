// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "host_driver/base/unique_fd.hpp"

namespace svp {

/// A bell is this many bytes, value irrelevant; QEMU writes one such unit per ring and drains up to 512 bytes at once.
inline constexpr std::size_t kBellBytes = 8;

/// What the owner of one function holds: the shared window and the two bells. Its descriptors are its own duplicates:
/// they stay valid after the Machine is gone (the window keeps its last content, bells go nowhere), and closing them
/// disturbs nobody. All are close-on-exec. Hand it to another process by sending the three descriptors (SCM_RIGHTS).
///
/// Bells are hints, the rings in the window are the state: they coalesce and get lost in a reset. Both pipe ends are
/// non-blocking and each has its own open file description, so nothing done to these flags can block the emulator.
class SlotHandle {
 public:
  SlotHandle(unsigned index, std::uint64_t window_bytes, UniqueFd window, UniqueFd bell_to_card,
             UniqueFd bell_from_card)
      : index_(index),
        window_bytes_(window_bytes),
        window_(std::move(window)),
        bell_to_card_(std::move(bell_to_card)),
        bell_from_card_(std::move(bell_from_card)) {}

  [[nodiscard]] unsigned index() const { return index_; }
  /// Size of the window in bytes; fixed, the memory file is sealed against shrinking, growing and further seals.
  [[nodiscard]] std::uint64_t window_bytes() const { return window_bytes_; }
  /// Memory file to map read-write, shared.
  [[nodiscard]] int window_fd() const { return window_.get(); }
  /// Write kBellBytes of anything. EAGAIN means that enough rings are pending already: treat it as success.
  [[nodiscard]] int bell_to_card() const { return bell_to_card_.get(); }
  /// Poll for input, then read until EAGAIN; the number of bytes means nothing. Never ends (EOF) before QEMU does.
  [[nodiscard]] int bell_from_card() const { return bell_from_card_.get(); }

 private:
  unsigned index_;
  std::uint64_t window_bytes_;
  UniqueFd window_;
  UniqueFd bell_to_card_;
  UniqueFd bell_from_card_;
};

}  // namespace svp
