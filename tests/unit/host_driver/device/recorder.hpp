// SPDX-License-Identifier: Apache-2.0
// Sinks for tests: what ended, how often, in which order.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <vector>

#include "host_driver/device/completion_sink.hpp"
#include "host_driver/device/device.hpp"

namespace svp::test {

class Counter final : public CompletionSink {
 public:
  void on_completion(const wire::Completion& completion) noexcept override {
    if (completion.outcome != wire::Outcome::Ok) failed_.fetch_add(1, std::memory_order_relaxed);
    ended_.fetch_add(1, std::memory_order_release);
  }
  std::uint64_t ended() const { return ended_.load(std::memory_order_acquire); }
  std::uint64_t failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> failed_{0};
};

class Recorder final : public CompletionSink {
 public:
  void on_completion(const wire::Completion& completion) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      all_.push_back(completion);
    }
    count_.fetch_add(1, std::memory_order_release);  // last: who has seen it may destroy this
  }
  std::size_t count() const { return count_.load(std::memory_order_acquire); }
  std::vector<wire::Completion> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<wire::Completion> all_;
  std::atomic<std::size_t> count_{0};
};

inline wire::ControlBlock nop(std::uint64_t cookie = 0) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Nop;
  block.header.cookie = cookie;
  return block;
}

inline Device::TimePoint in_seconds(int seconds) { return Device::Clock::now() + std::chrono::seconds(seconds); }

}  // namespace svp::test
