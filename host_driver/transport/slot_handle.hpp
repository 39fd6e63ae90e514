// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "host_driver/base/unique_fd.hpp"

namespace svp {

/// A doorbell is this many bytes, value irrelevant; QEMU writes one such unit per ring and drains up to 512 bytes at
/// once.
inline constexpr std::size_t kDoorbellBytes = 8;

/// What the owner of one function holds: the shared window and the two doorbells. Its descriptors are its own
/// duplicates: they stay valid after the Machine is gone (the window keeps its last content, doorbells go nowhere), and
/// closing them disturbs nobody. All are close-on-exec. Hand it to another process by sending the three descriptors
/// (SCM_RIGHTS).
///
/// Doorbells are hints, the rings in the window are the state: they coalesce and get lost in a reset. Both pipe ends
/// are non-blocking and each has its own open file description, so nothing done to these flags can block the emulator.
class SlotHandle {
 public:
  SlotHandle(unsigned index, std::uint64_t window_bytes, UniqueFd window, UniqueFd doorbell_to_card,
             UniqueFd doorbell_from_card)
      : index_(index),
        window_bytes_(window_bytes),
        window_(std::move(window)),
        doorbell_to_card_(std::move(doorbell_to_card)),
        doorbell_from_card_(std::move(doorbell_from_card)) {}

  [[nodiscard]] unsigned index() const { return index_; }
  /// Size of the window in bytes; fixed, the memory file is sealed against shrinking, growing and further seals.
  [[nodiscard]] std::uint64_t window_bytes() const { return window_bytes_; }
  /// Memory file to map read-write, shared.
  [[nodiscard]] int window_fd() const { return window_.get(); }
  /// Write kDoorbellBytes of anything. EAGAIN means that enough rings are pending already: treat it as success.
  [[nodiscard]] int doorbell_to_card() const { return doorbell_to_card_.get(); }
  /// Poll for input, then read until EAGAIN; the number of bytes means nothing. Never ends (EOF) before QEMU does.
  [[nodiscard]] int doorbell_from_card() const { return doorbell_from_card_.get(); }

 private:
  unsigned index_;
  std::uint64_t window_bytes_;
  UniqueFd window_;
  UniqueFd doorbell_to_card_;
  UniqueFd doorbell_from_card_;
};

}  // namespace svp
