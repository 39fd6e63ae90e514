// SPDX-License-Identifier: Apache-2.0
// The heartbeat, and what is told once a heartbeat whatever the number of times it happened.
#include "firmware/core/card.hpp"
#include "firmware/core/main_loop.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/memory_order.hpp"

namespace fw {

using wire::FaultPoint;

namespace {

// M is told of each function's violations at once, whatever their number: a flood of them costs an event per heartbeat.
void tell_violations(Card& card) {
  Function& management = card.functions[kManagement];
  for (Function& function : card.functions.tenants()) {
    if (!function.violations.tell()) continue;
    hal::note(wire::RecordedEventKind::Violation, function.id(),
              static_cast<std::uint64_t>(function.violations.last()));
    wire::DeviceEvent event{};
    event.kind = wire::EventKind::FunctionViolation;
    event.target = function.id();
    event.status = function.violations.last();
    event.argument = function.violations.count();
    event.time = hal::now();
    post_event(management, event);
    notify(management);
  }
}

// What a function is told of at each heartbeat, whatever the number of times it happened.
void tell_of_functions(Card& card) {
  for (Function& function : card.functions.tenants()) {
    if (function.ring_violations.told(function.counters().ring_violations)) continue;
    tell_ring_violations(function);
    notify(function);
  }
  card.launches.take_warnings([&](std::uint32_t f, std::uint32_t stream, std::uint64_t slices) {
    post_stream_event(card.functions[f], wire::EventKind::WatchdogWarning, stream, wire::Status::None, slices);
    notify(card.functions[f]);
  });
}

[[gnu::noinline]] void beat_when_due(Card& card) {
  hal::stop_if_recording();
  if (!card.heart.due(hal::now())) return;
  hal::mark(wire::Waypoint::Beat);
  if (card.heart.beats() == Heartbeat::kBeatsOfAGoodBoot) hal::mark_boot_good();
  for (Function& function : card.functions) {
    if (!function.bound()) continue;
    if (card.faults.armed(FaultPoint::Heartbeat)) [[unlikely]]
      if (card.faults.occur(FaultPoint::Heartbeat, {.function = function.id()})) continue;
    if (!mutated(Mutant::Heartbeat)) wire::store_relaxed(function.header().heartbeat, card.heart.beats());
  }
  tell_violations(card);
  tell_of_functions(card);
  card.traces.drain();
}

}  // namespace

void beat(Card& card) {
  if (card.heart.look()) [[unlikely]]
    beat_when_due(card);
}

}  // namespace fw
