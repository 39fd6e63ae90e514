// SPDX-License-Identifier: Apache-2.0
// A program that a test starts, reads and ends. What still runs when the object ends is killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "tests/bounds.hpp"

namespace svp::test {

inline constexpr std::chrono::seconds kProgramBound = test_bounds::kProgram;

// Changes to this process's environment; an empty optional removes a variable.
using Environment = std::map<std::string, std::optional<std::string>>;

class Program {
 public:
  Program(std::vector<std::string> command, const Environment& environment);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // The next line of its stdout and stderr (one stream) that contains `text`; empty when it ended or the bound passed
  // without one. Lines are kept in output().
  std::string wait_for_line(std::string_view text);
  // What it wrote so far.
  const std::string& output() const { return output_; }
  // To its stdin, all of it (it is less than a pipe takes).
  void write(std::string_view text) const;
  // Closes its stdin: programs of these tests then go on or end.
  void close_stdin() { stdin_.reset(); }
  void send(int signal) const;
  // Its exit code, 128 + n when signal n ended it; empty when the bound passed. Reads its output to the end.
  std::optional<int> wait_exit(std::chrono::seconds bound = kProgramBound);

 private:
  bool read_some(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = 0;
  bool collected_ = false;
  std::optional<int> code_;
  UniqueFd stdin_;
  UniqueFd output_fd_;
  std::string output_;
  std::size_t seen_ = 0;  // start of the first line that wait_for_line() has not looked at
};

struct Finished {
  std::optional<int> code;
  std::string output;
};
// Runs it to its end, with nothing on stdin.
Finished run(std::vector<std::string> command, const Environment& environment,
             std::chrono::seconds bound = kProgramBound);

}  // namespace svp::test
