// SPDX-License-Identifier: Apache-2.0
// States that can be printed: a table of names and of allowed changes per machine, and one set_state() that refuses
// every other change. docs/states-firmware.md is drawn from these tables.
//
//   enum class Door : std::uint8_t { Shut, Open };
//   inline constexpr StateTable<Door, 2, 2> kDoorStates{"door", {"shut", "open"},
//       {{{Door::Shut, Door::Open, "somebody pushes"}, {Door::Open, Door::Shut, "the wind"}}}};
//   StateMachine<kDoorStates> door;   // starts in the state whose value is 0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shared/recorded_states.hpp"

namespace fw {

// The states of an enumeration are 0, 1, … without gaps: the places of their names.
template <typename StateOf, std::size_t kStateCount, std::size_t kEdgeCount>
struct StateTable {
  using State = StateOf;
  struct Edge {
    State from;
    State to;
    std::string_view when;  // what makes the change
  };
  static_assert(kStateCount <= 32, "states are bits of a word");

  std::string_view machine;
  std::array<std::string_view, kStateCount> names;
  std::array<Edge, kEdgeCount> edges;

  constexpr bool allows(State from, State to) const {
    for (const Edge& edge : edges) {
      if (edge.from == from && edge.to == to) return true;
    }
    return false;
  }
  constexpr std::string_view name(State state) const { return names[std::to_underlying(state)]; }

  // Bit t of word f: the change from f to t is allowed. What set_state() looks at: one load, one shift.
  constexpr std::array<std::uint32_t, kStateCount> masks() const {
    std::array<std::uint32_t, kStateCount> masks{};
    for (const Edge& edge : edges) masks[std::to_underlying(edge.from)] |= 1u << std::to_underlying(edge.to);
    return masks;
  }
};

// A change that its table does not have: a defect of the firmware, which ends its boot (hal::panic).
[[noreturn]] void refuse_state_change();

template <const auto& kTable>
inline constexpr auto kAllowedChanges = kTable.masks();

template <const auto& kTable, typename State>
constexpr bool change_allowed(State from, State to) {
  return (kAllowedChanges<kTable>[std::to_underlying(from)] >> std::to_underlying(to) & 1) != 0;
}

// Of one hart. Changes are logged by whoever owns the machine (log_change).
template <const auto& kTable>
class StateMachine {
 public:
  using State = typename std::remove_cvref_t<decltype(kTable)>::State;

  State state() const { return state_; }
  bool is(State state) const { return state_ == state; }
  std::string_view name() const { return kTable.name(state_); }

  // The state that was left.
  State set_state(State to) {
    if (!change_allowed<kTable>(state_, to)) [[unlikely]]
      refuse_state_change();
    return std::exchange(state_, to);
  }

 private:
  State state_{};
};

// The same for several harts.
template <const auto& kTable>
class SharedStateMachine {
 public:
  using State = typename std::remove_cvref_t<decltype(kTable)>::State;

  State state(std::memory_order order = std::memory_order_acquire) const { return state_.load(order); }
  bool is(State state, std::memory_order order = std::memory_order_acquire) const {
    return state_.load(order) == state;
  }

  // For whom every state that it can have now, whoever changes it meanwhile, leads to `to`. What the caller did before
  // is visible to who sees the new state. Two plain accesses: no other hart waits.
  void set_state(State to) {
    if (!change_allowed<kTable>(state_.load(std::memory_order_relaxed), to)) [[unlikely]]
      refuse_state_change();
    state_.store(to, std::memory_order_release);
  }
  // Changes from `from` only. False: another hart was faster.
  template <auto from, auto to>
  bool change() {
    static_assert(kTable.allows(from, to));
    State expected = from;
    return state_.compare_exchange_strong(expected, to, std::memory_order_acq_rel, std::memory_order_acquire);
  }

 private:
  std::atomic<State> state_{};
};

// ---- the log --------------------------------------------------------------------------------------------------------

// The machines whose changes go into the record's last events (wire::RecordedEventKind::StateChanged). Launches are not
// among them: their starts are (RecordedEventKind::Launch).
using Machine = wire::RecordedMachine;

// "machine: old → new", into the ring of last events: bounded, 100 ns, and told by the record when the firmware dies.
void log_change(Machine machine, unsigned from, unsigned to, std::uint64_t subject);

// set_state() with a line in the log. `subject` says whose machine it is: function | stream << 32.
template <const auto& kTable, typename State>
void set_state(Machine machine, StateMachine<kTable>& of, State to, std::uint64_t subject) {
  const State from = of.set_state(to);
  log_change(machine, std::to_underlying(from), std::to_underlying(to), subject);
}

}  // namespace fw
