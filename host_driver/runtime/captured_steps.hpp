// SPDX-License-Identifier: Apache-2.0
// What a capture collects beside launches: events that each replay records and waits for, and functions of the host.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <spyre/event.hpp>
#include <utility>
#include <variant>

#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/launch_request.hpp"

namespace svp {

// An event of a capture: stands for the one that the latest replay has recorded. Thread-safe.
class CapturedEvent {
 public:
  // Null before the first replay.
  std::shared_ptr<Event> latest() const {
    const std::lock_guard guard(mutex_);
    return latest_;
  }
  void set(std::shared_ptr<Event> event) {
    const std::lock_guard guard(mutex_);
    latest_.swap(event);  // the one before is let go of without the lock
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Event> latest_;
};

// Its event is named at each replay.
struct WaitSlot {};

struct RecordStep {
  std::shared_ptr<CapturedEvent> event;
};
struct WaitStep {
  std::variant<WaitSlot, std::shared_ptr<Event>, std::shared_ptr<CapturedEvent>, spyre::SharedEvent> awaited;
};
// Replays of several streams may run it at the same time.
struct HostStep {
  std::shared_ptr<const std::function<void()>> function;
};
// What a wait on a stream is for: an event of this function, or another function's by a grant.
using AwaitedPlace = std::variant<std::shared_ptr<Event>, wire::EventPayload>;

using CapturedStep = std::variant<LaunchRequest, RecordStep, WaitStep, HostStep>;

}  // namespace svp
