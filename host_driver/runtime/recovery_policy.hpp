// SPDX-License-Identifier: Apache-2.0
// What a runtime does by itself when something fails. What each reset level leaves behind: docs/recovery.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "host_driver/device/device_source.hpp"
#include "host_driver/recovery/escalation.hpp"
#include "host_driver/runtime/stream_error.hpp"

namespace svp {

enum class RecoveryPolicy : std::uint8_t {
  // Every error is told, again and again, until Reset() or recover() is called.
  Manual,
  // The next Launch, Query or Synchronize on a stream that failed recovers first, from the lowest reset level on. Launches that
  // ended ABORTED (no block of them had started) are sent again at the stream reset level, in order, what was started never is:
  // who uses this says that a launch does not need the result of one that failed before it. The error that made it
  // necessary is thrown once, by the next Synchronize.
  Recover,
  // The first failure of a stream stops all: every stream refuses with that error until recover().
  FailFast,
};

constexpr std::string_view name(RecoveryPolicy policy) {
  switch (policy) {
    case RecoveryPolicy::Manual: return "manual";
    case RecoveryPolicy::Recover: return "recover";
    case RecoveryPolicy::FailFast: return "fail fast";
  }
  return "unknown policy";
}

struct RecoveryOptions {
  RecoveryPolicy policy = RecoveryPolicy::Manual;
  // The last reset level that may be tried. Empty: what the device's source suggests (an embedded card: the power cycle; a
  // function of a card that others use: the function reset).
  std::optional<ResetLevel> highest{};
};

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
