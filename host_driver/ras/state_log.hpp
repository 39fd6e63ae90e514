// SPDX-License-Identifier: Apache-2.0
// The log of states: which object changed from what to what. The last changes of the process are kept in memory, so
// that a debugger or a test finds them; with SPYRE_RAS_LEVEL=debug each is also a line in the file of the log of
// errors.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "host_driver/base/state_machine.hpp"

namespace svp::ras {

// Names live as long as the process.
struct LoggedChange {
  std::chrono::system_clock::time_point time{};
  std::string_view machine{};
  std::uint64_t object = 0;  // the stream's number, the function's target, the slot
  std::string_view from{};
  std::string_view to{};
};

// Thread-safe; allocates nothing but in changes(); never fails its caller.
class StateLog {
 public:
  static constexpr std::size_t kKept = 256;
  static constexpr unsigned kLinesPerPeriod = 64;  // in the file, per kRasPeriod; what is left out is counted

  // The process's own: the one that writes to the file.
  static StateLog& process();

  constexpr StateLog() = default;
  void note(std::string_view machine, std::uint64_t object, std::string_view from, std::string_view to) noexcept;
  // The oldest first; kKept at most.
  [[nodiscard]] std::vector<LoggedChange> changes() const;
  [[nodiscard]] std::uint64_t noted() const;

 private:
  // A line for the file is due; how many were left out before it.
  bool line_due(std::chrono::system_clock::time_point now, std::uint64_t& left_out);

  mutable std::mutex mutex_;
  std::array<LoggedChange, kKept> kept_{};
  std::uint64_t noted_ = 0;
  std::chrono::system_clock::time_point period_start_{};
  unsigned lines_ = 0;
  std::uint64_t left_out_ = 0;
};

// An edge that the table does not have is a defect of the driver: it is recorded as an error, the state stays, and a
// build with assertions ends the process.
void report_refused(std::string_view machine, std::uint64_t object, std::string_view from,
                    std::string_view to) noexcept;

// To the process's log. Every set_state() of the driver ends here.
template <typename State>
StateChange<State> logged(std::uint64_t object, StateChange<State> change) noexcept {
  using Kind = StateChange<State>::Kind;
  if (change.kind == Kind::None) return change;
  const auto note = [&](auto&& call) {
    call(state_table(change.from).machine, object, state_name(change.from), state_name(change.to));
  };
  if (change.made()) {
    note([](auto... what) { StateLog::process().note(what...); });
  } else {
    note([](auto... what) { report_refused(what...); });
  }
  return change;
}

// The same for objects of which there are too many for the log: only what is refused is told.
template <typename State>
void unlogged(std::uint64_t object, StateChange<State> change) noexcept {
  if (change.kind != StateChange<State>::Kind::Refused) return;
  report_refused(state_table(change.from).machine, object, state_name(change.from), state_name(change.to));
}

}  // namespace svp::ras
