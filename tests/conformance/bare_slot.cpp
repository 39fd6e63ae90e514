// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/bare_slot.hpp"

#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "tests/conformance/workbench.hpp"

namespace flex::conformance {

BareSlot::BareSlot(qemu::SlotHandle handle)
    : handle_(std::move(handle)), window_(test::must(Window::map(handle_.window_fd(), handle_.window_bytes()))) {}

void BareSlot::pump() {
  const auto now = Device::Clock::now();
  if (now - rung_ > std::chrono::microseconds{100}) {
    rung_ = now;
    const std::uint64_t ring = 1;
    [[maybe_unused]] const auto written = ::write(handle_.bell_to_card(), &ring, sizeof ring);  // EAGAIN: is rung
  }
  std::this_thread::yield();
}

}  // namespace flex::conformance
