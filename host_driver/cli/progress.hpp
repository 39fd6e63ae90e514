// SPDX-License-Identifier: Apache-2.0
// "booting the card ... 3 s": what a command is doing, for who waits longer than a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cli {

// While it exists: after a second, and then each second, one line on stderr, rewritten; removed at the end. Nothing
// when stderr is no terminal.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What it is doing now.
  void set(std::string what);

  // What stands on the line after so long; at most 78 characters.
  static std::string line(std::string_view what, std::chrono::seconds since);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace cli
