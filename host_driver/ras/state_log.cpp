// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ras/state_log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
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

// Into a buffer, so that it needs no memory: it may be called where there is none. Names are ours, and short.
class Line {
 public:
  void add(std::string_view text) {
    const std::size_t bytes = std::min(text.size(), text_.size() - size_);
    std::copy_n(text.begin(), bytes, text_.begin() + static_cast<std::ptrdiff_t>(size_));
    size_ += bytes;
  }
  void add(std::int64_t number) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    add(std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
  }
  template <typename Value>
  void member(std::string_view name, Value value) {
    constexpr bool quoted = std::is_same_v<Value, std::string_view>;
    add(size_ == 0 ? "{\"" : ",\"");
    add(name);
    add(quoted ? "\":\"" : "\":");
    add(value);
    if (quoted) add("\"");
  }
  std::string_view text() const { return {text_.data(), size_}; }

 private:
  std::array<char, 320> text_{};
  std::size_t size_ = 0;
};

void write_line(const LoggedChange& change, std::uint64_t left_out) noexcept {
  const auto time = std::chrono::duration_cast<std::chrono::microseconds>(change.time.time_since_epoch()).count();
  Line line;
  line.member("level", std::string_view("debug"));
  line.member("time_us", std::int64_t{time});
  line.member("machine", change.machine);
  line.member("object", static_cast<std::int64_t>(change.object));
  line.member("from", change.from);
  line.member("to", change.to);
  line.member("suppressed", static_cast<std::int64_t>(left_out));
  line.member("pid", std::int64_t{::getpid()});
  line.add("}\n");
  Log::process().append(line.text());
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
    line = this == &process_state_log && wanted_in_file() && line_due(change.time, left_out);
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
    std::fputs("there was no memory to record that a change of state was refused\n", stderr);
  }
  assert(false && "a state was to be changed in a way that its table does not have");
}

}  // namespace svp::ras
