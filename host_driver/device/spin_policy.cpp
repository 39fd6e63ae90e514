// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/spin_policy.hpp"

#include "host_driver/device/usable_cpus.hpp"

namespace svp {

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int> spinning{0};  // in this process, over all devices

std::atomic<int> places{0};          // for them
std::atomic<Clock::rep> counted{0};  // when; 0: never

}  // namespace

SpinPolicy::SpinPolicy(const Timeouts& timeouts, bool disabled)
    : min_(timeouts.spin_min), max_(disabled ? Duration{0} : timeouts.spin_max), budget_(max_.count()) {
  count_cpus();
}

void SpinPolicy::count_cpus() {
  const auto now = Clock::now().time_since_epoch();
  const Clock::duration last(counted.load(std::memory_order_relaxed));
  if (last.count() != 0 && now - last < kCountCpusAgain) return;
  places.store(usable_cpus() - 1, std::memory_order_relaxed);
  counted.store(now.count(), std::memory_order_relaxed);
}

SpinPolicy::Permit::Permit(SpinPolicy& policy) {
  if (policy.max_.count() == 0) return;
  if (spinning.fetch_add(1, std::memory_order_relaxed) >= places.load(std::memory_order_relaxed)) {
    spinning.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  holds_place_ = true;
  budget_ = Duration{policy.budget_.load(std::memory_order_relaxed)};
}

void SpinPolicy::Permit::stop() {
  if (holds_place_) spinning.fetch_sub(1, std::memory_order_relaxed);
  holds_place_ = false;
  budget_ = Duration{0};
}

}  // namespace svp
