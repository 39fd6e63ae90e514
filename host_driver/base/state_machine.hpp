// SPDX-License-Identifier: Apache-2.0
// A lifecycle as a table: the names of its states, and the changes that are allowed. The object that has the lifecycle
// changes it by the table only, tests walk every edge of it and try every other pair, and docs/states.md is drawn from
// it.
//
// For an enum with the values 0 … n-1, in its own namespace:
//   constexpr std::array<std::string_view, n> kDoorNames{...};
//   constexpr std::array kDoorEdges{state_edge(Door::Closed, Door::Open, "somebody opens it"), ...};
//   constexpr StateTable state_table(Door) { return {"door", kDoorNames, kDoorEdges}; }
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace svp {

// Numbers of states; `when` labels the arrow in a diagram.
struct StateEdge {
  std::uint8_t from = 0;
  std::uint8_t to = 0;
  std::string_view when;
};

template <typename State>
constexpr StateEdge state_edge(State from, State to, std::string_view when) {
  return {static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(to), when};
}

// State 0 is the first one.
struct StateTable {
  std::string_view machine;
  std::span<const std::string_view> names;  // by the state's number
  std::span<const StateEdge> edges;

  constexpr bool allows(unsigned from, unsigned to) const {
    for (const StateEdge& edge : edges) {
      if (edge.from == from && edge.to == to) return true;
    }
    return false;
  }
  constexpr std::string_view name(unsigned state) const {
    return state < names.size() ? names[state] : std::string_view("unknown state");
  }
};

template <typename State>
constexpr std::string_view state_name(State state) {
  return state_table(state).name(static_cast<unsigned>(state));
}

// What became of an attempt to change a state.
template <typename State>
struct StateChange {
  enum class Kind : std::uint8_t {
    None,     // nothing was to be changed
    Made,     // `to` is the state now
    Refused,  // the table has no such edge; the state is `from` as before
  };
  Kind kind = Kind::None;
  State from{};
  State to{};

  bool made() const { return kind == Kind::Made; }
};

namespace detail {

template <typename State>
constexpr StateChange<State> judge_change(State from, State to) {
  using Kind = StateChange<State>::Kind;
  const bool allowed = state_table(from).allows(static_cast<unsigned>(from), static_cast<unsigned>(to));
  return {allowed ? Kind::Made : Kind::Refused, from, to};
}

}  // namespace detail

// For one thread at a time.
template <typename State>
class StateMachine {
 public:
  constexpr StateMachine() = default;
  // For tests, which begin anywhere.
  constexpr explicit StateMachine(State first) : state_(first) {}

  constexpr State get() const { return state_; }
  [[nodiscard]] constexpr StateChange<State> change(State to) {
    const auto change = detail::judge_change(state_, to);
    if (change.made()) state_ = to;
    return change;
  }

 private:
  State state_{};
};

// Read and changed by any thread. A change is one atomic step, sequentially consistent.
template <typename State>
class AtomicStateMachine {
 public:
  constexpr AtomicStateMachine() = default;
  constexpr explicit AtomicStateMachine(State first) : state_(first) {}

  State get(std::memory_order order) const { return state_.load(order); }

  // `next(from)`: the state to go to, or nothing. Called again when another thread was first.
  template <typename Next>
  [[nodiscard]] StateChange<State> change_by(Next next) {
    State from = state_.load(std::memory_order_relaxed);
    for (;;) {  // bounded: a lifecycle has few changes, and each further iteration is one that another thread has made
      const std::optional<State> to = next(from);
      if (!to) return {StateChange<State>::Kind::None, from, from};
      const auto change = detail::judge_change(from, *to);
      if (!change.made() || state_.compare_exchange_weak(from, *to)) return change;
    }
  }
  [[nodiscard]] StateChange<State> change(State to) {
    return change_by([to](State) { return std::optional(to); });
  }

  void notify_all() { state_.notify_all(); }
  // Returns when the state may be another one than `old`.
  void wait_while(State old) const {
    state_.wait(old);  // bounded: by the thread that changes it, which the caller names
  }

 private:
  std::atomic<State> state_{};
};

}  // namespace svp
