// SPDX-License-Identifier: Apache-2.0
// The log of errors: a JSON line for each in the file that SPYRE_RAS_LOG names, and a callback. A burst of one error is
// rate-limited by its code; every record counts what was left out since the one before, so that nothing is lost
// silently: over all records of a code, 1 + suppressed is the exact number of errors once flush() has returned.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/base/unique_fd.hpp"
#include "host_driver/ras/record.hpp"

namespace svp::ras {

struct LogOptions {
  std::string file;    // appended to, one write per record, kept open; empty: none
  unsigned burst = 8;  // records of one code in a period
  std::chrono::nanoseconds period = kRasPeriod;
  // Tests bring their own clock.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
};

// All calls are thread-safe and never fail their caller: what could not be written is counted in lost().
class Log {
 public:
  using Sink = std::function<void(const Record&)>;

  // The process's own log: made at its first use from SPYRE_RAS_LOG, flushed when the process exits.
  static Log& process();

  explicit Log(LogOptions options);
  ~Log();  // flushes
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void report(const ErrorInfo& error, const Where& where) noexcept;

  // A line that is no record (state_log.hpp), with its end.
  void append(std::string_view line) noexcept;

  // Called for every record that passes the rate limit, on the thread that reports, one at a time. It may hold locks of
  // the driver: the sink must be quick and must not call the driver. An empty one ends it.
  void set_sink(Sink sink);

  // Writes the last of what was suppressed, for each code of which something was.
  void flush() noexcept;

  // Errors with this code so far.
  [[nodiscard]] std::uint64_t occurred(Code code) const;
  // Records that could not be written or delivered.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct Tally {
    std::uint64_t occurred = 0;
    std::uint64_t suppressed = 0;
    unsigned written = 0;  // in this period
    std::chrono::steady_clock::time_point period_start{};
    Record last_suppressed{};
  };

  void add(const ErrorInfo& error, const Where& where);
  void write(const Record& record);
  void write_line(std::string_view line);

  const LogOptions options_;
  const int owner_;  // a child of fork() has the counts of its parent, and does not write them again
  mutable std::mutex mutex_;
  UniqueFd file_;
  Sink sink_;
  std::map<Code, Tally> tallies_;
  std::uint64_t lost_ = 0;
};

// To the process's log.
inline void report(const ErrorInfo& error, const Where& where) noexcept { Log::process().report(error, where); }

}  // namespace svp::ras
