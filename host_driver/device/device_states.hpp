// SPDX-License-Identifier: Apache-2.0
// How a device ends, what its health is meanwhile, and the streams of its ring. docs/states.md draws them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "host_driver/base/state_machine.hpp"
#include "host_driver/device/device.hpp"

namespace svp {

// Bring-up (bring_up.hpp) comes before the first one. Two things happen in any order: the device fails, which ends what
// is outstanding; and it is detached, which makes it fail when it has not yet.
enum class DeviceState : std::uint8_t {
  Working,
  Failing,           // its failure is known; what is outstanding has still to be ended
  Failed,            // nothing is outstanding and nothing is taken any more
  Detaching,         // a thread lets go of the function
  DetachingFailing,  // Detaching and Failing
  DetachingFailed,   // Detaching and Failed
  Detached,          // the window may be another device's by now: nothing of it is touched any more
};
inline constexpr std::array<std::string_view, 7> kDeviceStateNames{
    "working", "failing", "failed", "detaching", "detaching, failing", "detaching, failed", "detached"};
inline constexpr std::array kDeviceStateEdges{
    state_edge(DeviceState::Working, DeviceState::Failing, "first failure"),
    state_edge(DeviceState::Failing, DeviceState::Failed, "outstanding blocks ended"),
    state_edge(DeviceState::Working, DeviceState::Detaching, "closed"),
    state_edge(DeviceState::Failing, DeviceState::DetachingFailing, "closed"),
    state_edge(DeviceState::Failed, DeviceState::DetachingFailed, "closed"),
    state_edge(DeviceState::Detaching, DeviceState::DetachingFailing, "first failure, or function let go of"),
    state_edge(DeviceState::DetachingFailing, DeviceState::DetachingFailed, "outstanding blocks ended"),
    state_edge(DeviceState::DetachingFailed, DeviceState::Detached, "window let go of"),
};
constexpr StateTable state_table(DeviceState) { return {"device", kDeviceStateNames, kDeviceStateEdges}; }

inline constexpr std::array<std::string_view, 4> kHealthNames{"alive", "silent", "needs reset", "dead"};
inline constexpr std::array kHealthEdges{
    state_edge(Health::Alive, Health::Silent, "no heartbeat with work outstanding"),
    state_edge(Health::Silent, Health::Alive, "heartbeat, or nothing outstanding"),
    state_edge(Health::Alive, Health::NeedsReset, "restarted or reset by somebody else"),
    state_edge(Health::Silent, Health::NeedsReset, "restarted or reset by somebody else"),
    state_edge(Health::Alive, Health::Dead, "card gone, rules broken, or closed"),
    state_edge(Health::Silent, Health::Dead, "card gone, rules broken, or closed"),
};
constexpr StateTable state_table(Health) { return {"device health", kHealthNames, kHealthEdges}; }

// A stream of the card as the ring of control blocks takes submissions for it.
enum class RingStreamState : std::uint8_t {
  Closed,
  Open,
  Resetting,  // the card resets or closes it, or all of them: submissions are refused meanwhile
};
inline constexpr std::array<std::string_view, 3> kRingStreamStateNames{"closed", "open", "resetting"};
inline constexpr std::array kRingStreamStateEdges{
    state_edge(RingStreamState::Closed, RingStreamState::Open, "card opened it"),
    state_edge(RingStreamState::Open, RingStreamState::Resetting, "reset or close begins"),
    state_edge(RingStreamState::Open, RingStreamState::Closed, "closed"),
    state_edge(RingStreamState::Resetting, RingStreamState::Open, "reset ended, or card refused"),
    state_edge(RingStreamState::Resetting, RingStreamState::Closed, "card closed it"),
};
constexpr StateTable state_table(RingStreamState) {
  return {"stream of the ring", kRingStreamStateNames, kRingStreamStateEdges};
}

// ---- what the states mean -------------------------------------------------------------------------------------------

constexpr bool is_failing(DeviceState state) {
  return state != DeviceState::Working && state != DeviceState::Detaching;
}
constexpr bool is_outstanding_failed(DeviceState state) {
  return state == DeviceState::Failed || state == DeviceState::DetachingFailed || state == DeviceState::Detached;
}
// Each of them is empty when nothing changes.
constexpr std::optional<DeviceState> begin_failing(DeviceState state) {
  if (is_failing(state)) return std::nullopt;
  return state == DeviceState::Working ? DeviceState::Failing : DeviceState::DetachingFailing;
}
constexpr std::optional<DeviceState> end_failing(DeviceState state) {
  if (is_outstanding_failed(state)) return std::nullopt;
  return state == DeviceState::DetachingFailing ? DeviceState::DetachingFailed : DeviceState::Failed;
}
constexpr std::optional<DeviceState> begin_detaching(DeviceState state) {
  switch (state) {
    case DeviceState::Working: return DeviceState::Detaching;
    case DeviceState::Failing: return DeviceState::DetachingFailing;
    case DeviceState::Failed: return DeviceState::DetachingFailed;
    default: return std::nullopt;  // another thread is at it
  }
}
// The card has been quiet for too long with work outstanding, or has not.
constexpr std::optional<Health> listened(Health health, bool quiet) {
  if (health == Health::Alive && quiet) return Health::Silent;
  if (health == Health::Silent && !quiet) return Health::Alive;
  return std::nullopt;
}

}  // namespace svp
