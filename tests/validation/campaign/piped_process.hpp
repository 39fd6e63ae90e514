// SPDX-License-Identifier: Apache-2.0
// A process that a scenario starts and talks to by lines: its stdin and stdout are one socket. It is killed when the
// scenario has done with it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/base/unique_fd.hpp"

namespace svp::campaign {

class PipedProcess {
 public:
  // A variable without a value is taken out of the environment.
  using Variables = std::map<std::string, std::optional<std::string>>;

  // `words` begin with the program's name. Throws svp::Error when it cannot be started.
  PipedProcess(const std::string& program, const std::vector<std::string>& words, const Variables& variables = {});
  // Killed if it still runs.
  ~PipedProcess();
  PipedProcess(const PipedProcess&) = delete;
  PipedProcess& operator=(const PipedProcess&) = delete;

  // Without its newline. Nothing: none came, or the process closed its output.
  std::optional<std::string> read_line(std::chrono::nanoseconds bound);
  // False: it reads nothing any more.
  bool write_line(const std::string& line);
  void close_input();
  void kill();
  // Its exit code, 128 + n for signal n; nothing when it still runs.
  std::optional<int> wait_end(std::chrono::nanoseconds bound);

 private:
  pid_t pid_ = 0;
  UniqueFd pidfd_;
  UniqueFd socket_;
  std::string unread_;
};

}  // namespace svp::campaign
