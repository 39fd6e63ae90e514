// SPDX-License-Identifier: Apache-2.0
// What a function shares of its streams with other functions, and what they have shared with it. Both ask whoever holds
// the card's M, once per timeline: the answers are kept until the function is another one. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <spyre/event.hpp>
#include <utility>

#include "host_driver/device/timeline_sharing.hpp"

namespace svp {

using spyre::SharedEvent;

// What the bytes of a SharedEvent say.
struct EventPlace {
  TimelineToken token{};
  std::uint32_t incarnation = 0;  // 0: the event has failed
  std::uint64_t value = 0;
};
SharedEvent to_bytes(const EventPlace& place);
// Throws InvalidArgument ("event"): bytes that no share() has made.
EventPlace place_from(const SharedEvent& event);

class SharedTimelines {
 public:
  // `sharing`: null when nobody can grant anything.
  explicit SharedTimelines(std::shared_ptr<TimelineSharing> sharing) : sharing_(std::move(sharing)) {}

  // Of the function in this generation. Throw Error.
  TimelineToken offer(std::uint64_t generation, std::uint32_t stream, std::uint32_t incarnation);
  TimelineGrant redeem(const TimelineToken& token, std::uint64_t generation);
  // The device is replaced: another card may give the same generation.
  void forget() {
    const std::lock_guard lock(mutex_);
    begin_generation(0);
  }

 private:
  static constexpr std::size_t kMostKept = 4 * wire::kGrantsPerFunction;
  TimelineSharing& sharing() const;
  // With mutex_ held. What was kept of another generation is forgotten.
  void begin_generation(std::uint64_t generation);

  const std::shared_ptr<TimelineSharing> sharing_;
  std::mutex mutex_;
  std::uint64_t generation_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, TimelineToken> offered_;  // by stream and incarnation
  std::map<TimelineToken, TimelineGrant> granted_;
};

}  // namespace svp
