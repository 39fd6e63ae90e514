// SPDX-License-Identifier: Apache-2.0
// How submitted blocks ended: a sink that counts, and one that keeps every completion.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "host_driver/device/completion_sink.hpp"

namespace svp::test {

// Neither locks nor allocates: for measurements, floods, and drivers that are out of memory.
class CompletionCounter final : public CompletionSink {
 public:
  void on_completion(const wire::Completion& completion) noexcept override {
    if (completion.outcome != wire::Outcome::Ok && not_ok_.fetch_add(1, std::memory_order_relaxed) == 0) {
      first_bad_.store(completion.status, std::memory_order_relaxed);
    }
    last_ticks_.store(completion.end_time - completion.start_time, std::memory_order_relaxed);
    ended_.fetch_add(1, std::memory_order_release);  // last: who has seen it may destroy this
  }
  std::size_t ended() const { return ended_.load(std::memory_order_acquire); }
  // Of these: with another outcome than OK, since the start or the last forgive(); and the status of the first of them.
  std::size_t not_ok() const { return not_ok_.load(std::memory_order_relaxed); }
  wire::Status first_bad() const { return first_bad_.load(std::memory_order_relaxed); }
  void forgive() { not_ok_.store(0, std::memory_order_relaxed); }
  // What the block that ended last took on the card.
  std::uint64_t last_ticks() const { return last_ticks_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::size_t> ended_{0};
  std::atomic<std::size_t> not_ok_{0};
  std::atomic<wire::Status> first_bad_{};
  std::atomic<std::uint64_t> last_ticks_{0};
};

class CompletionRecorder final : public CompletionSink {
 public:
  void on_completion(const wire::Completion& completion) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      all_.push_back(completion);
    }
    ended_.fetch_add(1, std::memory_order_release);  // last: who has seen it may destroy this
  }
  std::size_t ended() const { return ended_.load(std::memory_order_acquire); }
  // In the order of completion, those from number `from` on (from 0).
  std::vector<wire::Completion> all(std::size_t from = 0) const {
    const std::lock_guard lock(mutex_);
    return {all_.begin() + static_cast<std::ptrdiff_t>(std::min(from, all_.size())), all_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::vector<wire::Completion> all_;
  std::atomic<std::size_t> ended_{0};
};

}  // namespace svp::test
