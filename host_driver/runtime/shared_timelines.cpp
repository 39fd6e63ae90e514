// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/shared_timelines.hpp"

#include <cstring>
#include <optional>

namespace svp {

namespace {

// A SharedEvent is sent between processes of one machine: words as they lie in memory.
struct Layout {
  static constexpr std::uint32_t kMagic = 0x56455953;  // "SYEV"
  static constexpr std::uint32_t kVersion = 1;
  std::uint32_t magic;
  std::uint32_t version;
  TimelineToken token;
  std::uint64_t value;
  std::uint32_t incarnation;
  std::uint32_t reserved;
};
static_assert(sizeof(Layout) == SharedEvent::kBytes);

}  // namespace

SharedEvent to_bytes(const EventPlace& place) {
  const Layout layout{.magic = Layout::kMagic,
                      .version = Layout::kVersion,
                      .token = place.token,
                      .value = place.value,
                      .incarnation = place.incarnation,
                      .reserved = 0};
  SharedEvent event;
  std::memcpy(event.bytes.data(), &layout, sizeof layout);
  return event;
}

EventPlace place_from(const SharedEvent& event) {
  Layout layout;
  std::memcpy(&layout, event.bytes.data(), sizeof layout);
  const bool known = layout.magic == Layout::kMagic && layout.version == Layout::kVersion;
  if (!known || layout.reserved != 0 || layout.value == 0) {
    throw InvalidArgument("event", "these bytes are no shared event of this version",
                          "hand on all bytes of Event::share(), between programs of the same version");
  }
  return {.token = layout.token, .incarnation = layout.incarnation, .value = layout.value};
}

TimelineSharing& SharedTimelines::sharing() const {
  if (sharing_ != nullptr) return *sharing_;
  throw Error(refused_by_driver("event", "this context has nobody who could grant waits across functions",
                                "wait for the event on the host: Synchronize()"));
}

void SharedTimelines::begin_generation(std::uint64_t generation) {
  if (generation == generation_) return;
  generation_ = generation;
  offered_.clear();
  granted_.clear();
}

TimelineToken SharedTimelines::offer(std::uint64_t generation, std::uint32_t stream, std::uint32_t incarnation) {
  {
    const std::lock_guard lock(mutex_);
    begin_generation(generation);
    if (const auto known = offered_.find({stream, incarnation}); known != offered_.end()) return known->second;
  }
  const TimelineToken token = value_or_throw(sharing().offer(generation, stream, incarnation));
  const std::lock_guard lock(mutex_);
  // Of one stream the last incarnation is asked for again.
  if (generation == generation_) {
    std::erase_if(offered_, [&](const auto& entry) { return entry.first.first == stream; });
    offered_.emplace(std::pair{stream, incarnation}, token);
  }
  return token;
}

// A grant that was revoked meanwhile is found by the card; it is asked for again with the next event that is shared.
TimelineGrant SharedTimelines::redeem(const TimelineToken& token, std::uint64_t generation) {
  {
    const std::lock_guard lock(mutex_);
    begin_generation(generation);
    if (const auto known = granted_.find(token); known != granted_.end()) return known->second;
  }
  const TimelineGrant grant = value_or_throw(sharing().redeem(token, generation));
  const std::lock_guard lock(mutex_);
  if (generation == generation_) {
    // The card gives as many; whoever has more of them has some that are revoked.
    if (granted_.size() >= kMostKept) granted_.clear();
    granted_.insert_or_assign(token, grant);
  }
  return grant;
}

}  // namespace svp
