// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ras/state_log.hpp"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/ras/log.hpp"

namespace svp::ras {

namespace {

constinit StateLog process_state_log;

bool wanted_in_file() {
  static const bool wanted = [] {
    const char* const level = std::getenv("SPYRE_RAS_LEVEL");
    return level != nullptr && std::string_view(level) == "debug";
  }();
  return wanted;
}

int length_of(std::string_view text) { return static_cast<int>(text.size()); }

// Into a buffer, so that it needs no memory: it may be called where there is none.
void write_line(const LoggedChange& change, std::uint64_t left_out) noexcept {
  char line[320];
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(change.time.time_since_epoch()).count();
  const int bytes = std::snprintf(
      line, sizeof line,
      "{\"level\":\"debug\",\"time_us\":%lld,\"machine\":\"%.*s\",\"object\":%llu,\"from\":\"%.*s\",\"to\":\"%.*s\","
      "\"suppressed\":%llu,\"pid\":%d}\n",
      static_cast<long long>(time), length_of(change.machine), change.machine.data(),
      static_cast<unsigned long long>(change.object), length_of(change.from), change.from.data(), length_of(change.to),
      change.to.data(), static_cast<unsigned long long>(left_out), static_cast<int>(::getpid()));
  if (bytes > 0 && bytes < static_cast<int>(sizeof line)) {
    Log::process().append({line, static_cast<std::size_t>(bytes)});
  }
}

}  // namespace

StateLog& StateLog::process() { return process_state_log; }

void StateLog::note(std::string_view machine, std::uint64_t object, std::string_view from,
                    std::string_view to) noexcept {
  const LoggedChange change{std::chrono::system_clock::now(), machine, object, from, to};
  std::uint64_t left_out = 0;
  bool line = false;
  {
    const std::lock_guard lock(mutex_);
    kept_[noted_++ % kKept] = change;
    line = wanted_in_file() && line_due(change.time, left_out);
  }
  if (line) write_line(change, left_out);
}

bool StateLog::line_due(std::chrono::system_clock::time_point now, std::uint64_t& left_out) {
  if (now - period_start_ >= kRasPeriod) {
    period_start_ = now;
    lines_ = 0;
  }
  if (lines_ >= kLinesPerPeriod) {
    ++left_out_;
    return false;
  }
  ++lines_;
  left_out = std::exchange(left_out_, 0);
  return true;
}

std::vector<LoggedChange> StateLog::changes() const {
  const std::lock_guard lock(mutex_);
  std::vector<LoggedChange> changes;
  const std::uint64_t count = std::min<std::uint64_t>(noted_, kKept);
  for (std::uint64_t at = noted_ - count; at < noted_; ++at) changes.push_back(kept_[at % kKept]);
  return changes;
}

std::uint64_t StateLog::noted() const {
  const std::lock_guard lock(mutex_);
  return noted_;
}

void report_refused(std::string_view machine, std::uint64_t object, std::string_view from,
                    std::string_view to) noexcept {
  try {
    std::string message = std::string(machine) + " " + std::to_string(object) + " can not change from \"" +
                          std::string(from) + "\" to \"" + std::string(to) + "\"";
    std::fprintf(stderr, "%s\n", message.c_str());
    report(ErrorInfo{.layer = Layer::Driver,
                     .source = std::string(machine),
                     .outcome = wire::Outcome::Rejected,
                     .recoverable = false,
                     .next_step = "report this defect of the driver with the log of states",
                     .message = std::move(message)},
           Where{});
  } catch (...) {
    // Without memory for the record the assertion below tells.
  }
  assert(false && "a state was to be changed in a way that its table does not have");
}

}  // namespace svp::ras
