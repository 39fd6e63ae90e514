// SPDX-License-Identifier: Apache-2.0
// A program that runs for the command line: started with an environment, waited for together with signals.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/unique_fd.hpp"
#include "host_driver/cli/signals.hpp"

namespace cli {

class ChildProcess {
 public:
  // `command` is looked up in PATH. The child shares our process group and terminal, starts with `mask` and our
  // environment in which `variables` replace what they name. Error: it could not be started; `error` is why (an errno).
  static svp::Expected<ChildProcess> start(const std::vector<std::string>& command,
                                           const std::vector<std::pair<std::string, std::string>>& variables,
                                           const sigset_t& mask, int* error = nullptr);

  // Waits for its end, however long that takes, and passes signals on to it. Returns its exit code, 128 + n when signal
  // n ended it.
  int await_end(const SignalDescriptor& signals);

 private:
  ChildProcess(pid_t pid, svp::UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}
  void pass_on(int number) const;
  int collect() const;

  pid_t pid_;
  svp::UniqueFd pidfd_;
};

// A program in a session of its own, without a terminal, that goes on when we end.
class BackgroundProcess {
 public:
  // `command`: a path and its arguments. Its stdout and stderr are the pipe output().
  static svp::Expected<BackgroundProcess> start(const std::vector<std::string>& command);

  pid_t pid() const { return pid_; }
  int output() const { return output_.get(); }
  // Of one whose output has ended. Its exit code, 128 + n when signal n ended it.
  int await_end() const;

 private:
  BackgroundProcess(pid_t pid, svp::UniqueFd output) : pid_(pid), output_(std::move(output)) {}

  pid_t pid_;
  svp::UniqueFd output_;
};

}  // namespace cli
