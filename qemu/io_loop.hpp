// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <liburing.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "qemu/machine_error.hpp"

namespace qemu {

/// A small readiness loop over io_uring: one thread waits for any number of descriptors.
///
/// It asks io_uring for readiness and lets the handlers read: no buffer ever belongs to the kernel, so that a request
/// which is still pending when the ring is torn down can not write into freed memory.
/// Only the looping thread may use it, except wake().
class IoLoop {
 public:
  /// Called when the descriptor is readable or has ended; returns whether to go on watching it.
  using Handler = std::function<bool()>;
  using Clock = std::chrono::steady_clock;

  /// `sources`: upper bound of watch() calls.
  [[nodiscard]] static Result<std::unique_ptr<IoLoop>> create(unsigned sources);
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  void watch(int fd, Handler handler);
  /// Sleeps until a descriptor is ready, the deadline passes or wake() was called; runs the handlers of what is ready.
  void run_once(std::optional<Clock::time_point> deadline);
  /// Ends the current or the next run_once(). From any thread.
  void wake();

 private:
  struct Source {
    int fd;
    Handler handler;
    bool armed = false;
    bool finished = false;
  };

  IoLoop() = default;
  void arm_all();
  void reap();

  io_uring ring_{};
  bool ring_ready_ = false;
  svp::UniqueFd wake_;
  std::vector<Source> sources_;
};

}  // namespace qemu
