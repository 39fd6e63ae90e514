// SPDX-License-Identifier: Apache-2.0
// Between harts, for sections of a few microseconds. Interrupts are never taken in firmware code, so a hart can not
// meet itself here. A hart that panics inside never releases: others then park instead of spinning on.
#pragma once

#include <atomic>

#include "firmware/arch/riscv/panic.hpp"

namespace riscv {

class SpinLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) {
      // bounded: the holder is never interrupted and leaves after a few stores
      while (held_.load(std::memory_order_relaxed)) {
        park_if_panicking();
        asm volatile("pause");
      }
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

}  // namespace riscv
