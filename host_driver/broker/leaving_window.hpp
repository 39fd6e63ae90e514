// SPDX-License-Identifier: Apache-2.0
// A window whose owner has gone, until the emulator has unplugged it. The card unplugs what was bound. A window whose
// SLOT_BIND a restart of the card came before may never have been bound: it stays plugged and serves the next owner.
// Nobody tells the broker which of the two it is, so it waits for a while.
#pragma once

#include <cstdint>

#include "host_driver/broker/timeouts.hpp"

namespace svp {

class LeavingWindow {
 public:
  enum class Next : std::uint8_t {
    LookSoon,   // the emulator collects what was unplugged about every 10 ms
    LookLater,  // it was bound, and a busy machine takes its time
    TakeBack,   // it was never bound
  };

  // `bound`: the card has said so. Such a window is never taken back: the card refuses its serial.
  explicit LeavingWindow(bool bound) : bound_(bound) {}

  bool looked_at() const { return looks_ != 0; }
  // It was looked at, and is plugged still.
  void look() { ++looks_; }
  Next next() const {
    if (looks_ < kUnplugLooks) return Next::LookSoon;
    return bound_ ? Next::LookLater : Next::TakeBack;
  }

 private:
  unsigned looks_ = 0;
  bool bound_;
};

}  // namespace svp
