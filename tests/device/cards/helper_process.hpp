// SPDX-License-Identifier: Apache-2.0
// A helper program as a child of the test: what it prints can be waited for, and it is killed and collected at the end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "tests/bounds.hpp"

namespace svp::test {

class HelperProcess {
 public:
  // The program's standard input and output are pipes to here. Aborts the test when it cannot be started.
  HelperProcess(const std::string& program, std::vector<std::string> arguments);
  ~HelperProcess();
  HelperProcess(HelperProcess&& other) noexcept;
  HelperProcess& operator=(HelperProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // The next whole line it prints, without its newline. Empty when `bound` passed or it ended first.
  std::string read_line(std::chrono::milliseconds bound = test_bounds::kHelperLine);
  // Skips lines until one starts with `word`; that line, or empty as above.
  std::string wait_for(const std::string& word, std::chrono::milliseconds bound = test_bounds::kHelperLine);
  // Ends what it waits for.
  void close_input() { input_.reset(); }
  void signal(int number) const;
  // SIGKILL, and collects it.
  void kill();
  // Its exit code, 128 + n for signal n; nothing when it did not end in time.
  std::optional<int> wait_exit(std::chrono::milliseconds bound = test_bounds::kHelperLine);

 private:
  pid_t pid_ = -1;
  UniqueFd input_;
  UniqueFd output_;
  std::string unread_;
};

// SIGSTOP, to any process: when it returns true, none of its threads runs any more (kill() alone does not wait for
// that).
bool stop_process(pid_t pid, std::chrono::milliseconds bound = test_bounds::kHelperLine);

}  // namespace svp::test
