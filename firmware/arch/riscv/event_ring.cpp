// SPDX-License-Identifier: Apache-2.0
// What harts say about themselves while all is well: waypoints and the last events.
#include "firmware/arch/riscv/event_ring.hpp"

#include <array>
#include <atomic>
#include <cstring>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"

namespace {

constinit std::array<wire::RecordedEvent, wire::kRecordedEvents> events{};
constinit std::atomic<std::uint32_t> written{0};

}  // namespace

void riscv::copy_events(wire::FatalRecord& record) {
  static_assert(sizeof record.events == sizeof events);
  std::memcpy(record.events, events.data(), sizeof events);
  const std::uint32_t count = written.load(std::memory_order_relaxed);
  record.next_event = count < wire::kRecordedEvents ? 0 : count % wire::kRecordedEvents;
}

namespace hal {

void mark(wire::Waypoint waypoint) {
  std::atomic_ref(riscv::local().waypoint).store(waypoint, std::memory_order_relaxed);
}

wire::Waypoint waypoint_of(unsigned hart) {
  return std::atomic_ref(riscv_hart_locals[hart].waypoint).load(std::memory_order_relaxed);
}

void note(std::uint64_t time, wire::RecordedEventKind kind, std::uint32_t a, std::uint64_t b) {
  const std::uint32_t at = written.fetch_add(1, std::memory_order_relaxed) % wire::kRecordedEvents;
  events[at] = {.time = time, .kind = kind, .a = a, .b = b};
}

}  // namespace hal
