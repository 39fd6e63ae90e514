// SPDX-License-Identifier: Apache-2.0
// How long a card has been kept from running by the machine that emulates it: a wait that runs out meanwhile says
// nothing about the card.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "host_driver/base/unique_fd.hpp"

namespace svp::soak {

class CpuWait {
 public:
  CpuWait() = default;  // of nobody: never waits
  // Of a thread of the process `process`, of any process.
  CpuWait(pid_t process, pid_t thread);

  // For how long the thread was ready to run and had no CPU, since it began (/proc/PID/task/TID/schedstat, proc(5)).
  // Zero when nobody can tell: the thread has ended, or the kernel does not count.
  std::chrono::nanoseconds total() const;

 private:
  UniqueFd statistics_;
};

}  // namespace svp::soak
