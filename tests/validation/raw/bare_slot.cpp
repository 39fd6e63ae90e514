// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/raw/bare_slot.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "host_driver/base/error.hpp"

namespace raw {

namespace {

std::shared_ptr<svp::Window> map(const svp::SlotHandle& handle) {
  auto window = svp::Window::map(handle.window_fd(), handle.window_bytes());
  if (!window) throw svp::Error(std::move(window.error()));
  return *std::move(window);
}

}  // namespace

BareSlot::BareSlot(svp::SlotHandle handle) : window_(map(handle)), doorbells_(std::move(handle), svp::FaultHooks{}) {}

void BareSlot::pump() {
  const auto now = std::chrono::steady_clock::now();
  if (now - level_ > std::chrono::microseconds{100}) {
    level_ = now;
    doorbells_.ring();
  }
  std::this_thread::yield();
}

}  // namespace raw
