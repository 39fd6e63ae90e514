// SPDX-License-Identifier: Apache-2.0
// Blocking work beside an event loop: each piece on a thread of its own, for as long as it lasts, so that none waits
// behind another. Callers bound how many there are (the broker: one per function and one for the card).
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "host_driver/base/event_loop.hpp"

namespace svp {

class Tasks {
 public:
  // The loop outlives this.
  explicit Tasks(EventLoop& loop) : loop_(loop) {}
  ~Tasks() { join(); }
  Tasks(const Tasks&) = delete;
  Tasks& operator=(const Tasks&) = delete;

  // Runs `work` on a new thread. What it returns runs on the loop's thread afterwards; `work`, with all that it
  // captured, is destroyed before. False: the system has no thread left, nothing was run. From the loop's thread.
  using Work = std::function<EventLoop::Closure()>;
  bool run(Work work);

  // No work is under way, and what it returned has begun. On the loop's thread.
  bool idle() const;

  // Waits for all work, for what it returned, and for work that that started. From outside the loop.
  void join();

 private:
  bool join_one();

  EventLoop& loop_;
  mutable std::mutex mutex_;
  std::map<unsigned, std::thread> threads_;
  unsigned next_ = 0;
};

}  // namespace svp
