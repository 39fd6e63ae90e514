// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ras/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#include "host_driver/base/file_size_signal.hpp"

namespace svp::ras {

namespace {

// Without blocking: the name may be a pipe's that nobody reads.
UniqueFd open_file(const std::string& path) {
  if (path.empty()) return {};
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
}

// Never destroyed: threads and static objects report until the very end.
Log& process_log() {
  static Log* const log = [] {
    const char* const file = std::getenv("SPYRE_RAS_LOG");
    auto* const made = new Log({.file = file != nullptr ? file : ""});
    std::atexit([] { Log::process().flush(); });
    return made;
  }();
  return *log;
}

// Takes the place of the process's log until there is memory to make that one; it needs none itself, and counts what it
// can not keep.
Log& log_without_memory() {
  alignas(Log) static std::byte place[sizeof(Log)];
  static Log* const log = new (place) Log({});
  return *log;
}

}  // namespace

Log& Log::process() {
  try {
    return process_log();
  } catch (const std::bad_alloc&) {
    return log_without_memory();
  }
}

Log::Log(LogOptions options) : options_(std::move(options)), owner_(::getpid()), file_(open_file(options_.file)) {}

Log::~Log() { flush(); }

void Log::report(const ErrorInfo& error, const Where& where) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    add(error, where);
  } catch (...) {
    ++lost_;
  }
}

void Log::add(const ErrorInfo& error, const Where& where) {
  const Code code = code_of(error);
  Tally& tally = tallies_[code];
  ++tally.occurred;
  const auto now = options_.now();
  if (tally.occurred == 1 || now - tally.period_start >= options_.period) {
    tally.period_start = now;
    tally.written = 0;
  }
  Record record{std::chrono::system_clock::now(), code, error, where, {tally.occurred, tally.suppressed}};
  if (tally.written >= options_.burst) {
    ++tally.suppressed;
    tally.last_suppressed = std::move(record);
    return;
  }
  ++tally.written;
  tally.suppressed = 0;
  write(record);
}

void Log::write(const Record& record) {
  if (!options_.file.empty()) write_line(to_json(record) + "\n");
  if (sink_) sink_(record);
}

void Log::write_line(std::string_view line) {
  if (options_.file.empty()) return;
  const FileSizeSignalHeld held;
  // An invalid one: the file could not be opened.
  if (!file_.valid() || ::write(file_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) ++lost_;
}

void Log::append(std::string_view line) noexcept {
  const std::lock_guard lock(mutex_);
  write_line(line);
}

void Log::flush() noexcept {
  if (::getpid() != owner_) return;
  const std::lock_guard lock(mutex_);
  for (auto& [code, tally] : tallies_) {
    if (tally.suppressed == 0) continue;
    tally.last_suppressed.counts = {tally.occurred, tally.suppressed - 1};
    tally.suppressed = 0;
    try {
      write(tally.last_suppressed);
    } catch (...) {
      ++lost_;
    }
  }
}

void Log::set_sink(Sink sink) {
  const std::lock_guard lock(mutex_);
  sink_ = std::move(sink);
}

std::uint64_t Log::occurred(Code code) const {
  const std::lock_guard lock(mutex_);
  const auto found = tallies_.find(code);
  return found == tallies_.end() ? 0 : found->second.occurred;
}

std::uint64_t Log::lost() const {
  const Log& other = log_without_memory();
  const std::uint64_t before = this != &other && this == &process() ? other.lost() : 0;
  const std::lock_guard lock(mutex_);
  return before + lost_;
}

}  // namespace svp::ras
