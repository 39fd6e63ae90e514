// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "host_driver/base/start_thread.hpp"
#include "host_driver/cli/timeouts.hpp"

namespace cli {

namespace {

constexpr std::size_t kLineWidth = 78;
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (::isatty(STDERR_FILENO) == 1) thread_ = svp::start_thread([this] { run(); });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  // bounded: ended_ is set and it was woken
  if (thread_.joinable()) thread_.join();
}

void Progress::set(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

std::string Progress::line(std::string_view what, std::chrono::seconds since) {
  const std::string time = fmt::format(" ... {} s", since.count());
  return std::string(what.substr(0, kLineWidth - time.size())) + time;
}

void Progress::run() {
  const auto begin = std::chrono::steady_clock::now();
  bool shown = false;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kProgressInterval, [this] { return ended_; })) {
    const auto since = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
    fmt::print(stderr, "{}{}", kClearLine, line(what_, since));
    std::fflush(stderr);
    shown = true;
  }
  if (shown) fmt::print(stderr, "{}", kClearLine);
}

}  // namespace cli
