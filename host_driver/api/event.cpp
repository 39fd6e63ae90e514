// SPDX-License-Identifier: Apache-2.0
// Events.
#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {

std::shared_ptr<svp::Event> Inside::of(const Event& event) {
  return event.impl_ != nullptr ? event.impl_->now() : nullptr;
}
std::shared_ptr<svp::CapturedEvent> Inside::captured(const Event& event) {
  return event.impl_ != nullptr ? event.impl_->captured : nullptr;
}

namespace {

std::shared_ptr<svp::Event> require_recorded(const Event& event, const char* argument) {
  if (auto recorded = Inside::of(event)) return recorded;
  throw InvalidArgument(argument, "the event was not recorded",
                        "record it on a stream (SpyreStream::Record()), or launch the capture that records it");
}

}  // namespace

Event::Event() = default;
Event::Event(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

bool Event::recorded() const { return Inside::of(*this) != nullptr; }
bool Event::Query() const {
  const auto event = Inside::of(*this);
  return event == nullptr || event->Query();
}
void Event::Synchronize() const {
  if (const auto event = Inside::of(*this)) event->Synchronize();
}
void Event::Synchronize(std::chrono::steady_clock::time_point deadline) const {
  if (const auto event = Inside::of(*this)) event->Synchronize(deadline);
}
SharedEvent Event::share() const { return require_recorded(*this, "event")->share(); }
std::chrono::nanoseconds Event::since(const Event& start) const {
  const auto first = require_recorded(start, "start");
  return require_recorded(*this, "event")->since(*first);
}

}  // namespace spyre::inline v0
