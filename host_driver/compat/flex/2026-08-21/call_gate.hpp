// SPDX-License-Identifier: Apache-2.0
// Counts the calls that are inside of an object, so that it can end when none is.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace flex::detail {

class CallGate {
 public:
  using Clock = std::chrono::steady_clock;

  // False: closed; leave() is not due then.
  bool try_enter() noexcept {
    calls_.fetch_add(1);
    if (!closed_.load()) return true;
    leave();
    return false;
  }
  void leave() noexcept {
    if (calls_.fetch_sub(1) != 1 || !closed_.load()) return;
    const std::lock_guard lock(mutex_);
    empty_.notify_all();
  }

  // Nobody enters any more. True for the first call of it.
  bool close() noexcept { return !closed_.exchange(true); }
  bool closed() const noexcept { return closed_.load(); }
  // After close(). False: the deadline passed, and a call is still inside.
  bool wait_until_empty(Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    return empty_.wait_until(lock, deadline, [&] { return calls_.load() == 0; });
  }

 private:
  std::atomic<std::int64_t> calls_{0};
  std::atomic<bool> closed_{false};
  std::mutex mutex_;
  std::condition_variable empty_;
};

}  // namespace flex::detail
