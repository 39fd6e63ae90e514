// SPDX-License-Identifier: Apache-2.0
// What a runtime does by itself when something fails. What each reset level leaves behind: docs/recovery.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "host_driver/device/device_source.hpp"
#include "host_driver/recovery/escalation.hpp"
#include "host_driver/runtime/stream_error.hpp"

namespace svp {

using spyre::name;
using spyre::RecoveryOptions;
using spyre::RecoveryPolicy;

// Of all streams of a runtime: the one failure that stops them (RecoveryPolicy::FailFast). Thread-safe.
class FirstFailure {
 public:
  void note(const StreamError& error) {
    const std::lock_guard guard(mutex_);
    if (first_ || bare_) return;
    first_ = std::make_unique<StreamError>(error);
    set_.store(true, std::memory_order_release);
  }
  // The same where there is no memory for its texts.
  void note_bare(StreamFailure failure) noexcept {
    const std::lock_guard guard(mutex_);
    if (first_ || bare_) return;
    bare_ = std::move(failure);
    set_.store(true, std::memory_order_release);
  }
  std::optional<StreamError> get() const {
    if (!set_.load(std::memory_order_acquire)) return std::nullopt;
    const std::lock_guard guard(mutex_);
    if (bare_) return StreamError(explain(*bare_), *bare_);
    return first_ ? std::optional(*first_) : std::nullopt;
  }
  void clear() {
    const std::lock_guard guard(mutex_);
    set_.store(false, std::memory_order_release);
    first_.reset();
    bare_.reset();
  }

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<StreamError> first_;
  std::optional<StreamFailure> bare_;
  std::atomic<bool> set_{false};
};

}  // namespace svp
