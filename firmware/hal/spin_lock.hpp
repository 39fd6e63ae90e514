// SPDX-License-Identifier: Apache-2.0
// A lock between harts, for sections of a few microseconds: never across a kernel slice, a copy or a doorbell.
// Interrupts are never taken in firmware code, so a hart can not meet itself here. A hart that panics inside never
// releases: hal::panic() waits for the registers of the others, so they stop here instead of waiting for the lock.
#pragma once

#include <atomic>

#include "firmware/hal/record.hpp"

namespace hal {

class SpinLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) {
      // bounded: the holder is never interrupted and leaves after a few stores, or panics
      while (held_.load(std::memory_order_relaxed)) stop_if_recording();
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

class LockGuard {
 public:
  explicit LockGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace hal
