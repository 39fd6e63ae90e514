// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/spin_policy.hpp"

#include <sched.h>

#include <thread>

namespace flex {

namespace {

std::atomic<int> spinning{0};  // in this process, over all devices

int spinning_places() {
  static const int places = [] {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    const int cpus = ::sched_getaffinity(0, sizeof usable, &usable) == 0
                         ? CPU_COUNT(&usable)
                         : static_cast<int>(std::thread::hardware_concurrency());
    return cpus - 1;
  }();
  return places;
}

}  // namespace

SpinPolicy::Turn::Turn(SpinPolicy& policy) {
  if (policy.max_.count() == 0) return;
  if (spinning.fetch_add(1, std::memory_order_relaxed) >= spinning_places()) {
    spinning.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  holds_place_ = true;
  budget_ = Duration{policy.budget_.load(std::memory_order_relaxed)};
}

void SpinPolicy::Turn::stop() {
  if (holds_place_) spinning.fetch_sub(1, std::memory_order_relaxed);
  holds_place_ = false;
  budget_ = Duration{0};
}

}  // namespace flex
