// SPDX-License-Identifier: Apache-2.0
// A lock for a few instructions between harts. Never held across a kernel slice, a copy or a doorbell.
#pragma once

#include <atomic>

namespace fw {

class Spinlock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) {
      // bounded: the holder is never interrupted and leaves after a few stores
      while (held_.load(std::memory_order_relaxed)) {
      }
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

class LockGuard {
 public:
  explicit LockGuard(Spinlock& lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Spinlock& lock_;
};

}  // namespace fw
