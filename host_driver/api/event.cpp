// SPDX-License-Identifier: Apache-2.0
// Events.
#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {

std::shared_ptr<svp::Event> Inside::of(const Event& event) {
  return event.impl_ != nullptr ? event.impl_->event : nullptr;
}

Event::Event() = default;
Event::Event(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

bool Event::recorded() const { return impl_ != nullptr; }
bool Event::Query() const { return impl_ == nullptr || impl_->event->Query(); }
void Event::Synchronize() const {
  if (impl_ != nullptr) impl_->event->Synchronize();
}
void Event::Synchronize(std::chrono::steady_clock::time_point deadline) const {
  if (impl_ != nullptr) impl_->event->Synchronize(deadline);
}
SharedEvent Event::share() const {
  if (impl_ != nullptr) return impl_->event->share();
  throw InvalidArgument("event", "the event was not recorded", "record it on a stream (SpyreStream::Record())");
}
std::chrono::nanoseconds Event::since(const Event& start) const {
  for (const Event* event : {&start, this}) {
    if (event->impl_ != nullptr) continue;
    throw InvalidArgument(event == this ? "event" : "start", "the event was not recorded",
                          "record it on a stream (SpyreStream::Record())");
  }
  return impl_->event->since(*start.impl_->event);
}

}  // namespace spyre::inline v0
