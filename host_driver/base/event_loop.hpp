// SPDX-License-Identifier: Apache-2.0
// One thread that sleeps in io_uring on descriptors and timers, and runs closures that others post. It never spins.
//
// Watching is by edges: a handler is called when something new happens on the descriptor (and once at the start, if it
// is ready already), not again and again while it stays ready. Handlers, timers and closures run on the loop's thread,
// one at a time; they must be quick, must not throw and must not destroy the loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "host_driver/base/error.hpp"
#include "host_driver/base/process.hpp"

namespace svp {

class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;
  using Closure = std::function<void()>;
  // poll(2) bits: POLLIN, POLLHUP, …
  using Handler = std::function<void(unsigned events)>;
  enum class WatchId : std::uint64_t { None = 0 };
  enum class TimerId : std::uint64_t { None = 0 };

  // Fails when the kernel has no io_uring for us; the error names the setting to change.
  static Expected<std::shared_ptr<EventLoop>> create();
  // Ends the thread. Closures that were posted but not run are dropped; nothing runs afterwards. When the last owner
  // lets go on the loop's own thread, the thread ends by itself right after.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // All from any thread.
  void post(Closure closure);
  // The descriptor stays open until unwatch().
  WatchId watch(int fd, Handler handler);
  // When it returns, the handler is not running and will not run again (on the loop's own thread: will not run again).
  void unwatch(WatchId id);
  // Once, at the given time or later.
  TimerId run_at(Clock::time_point when, Closure closure);
  // The same promise as unwatch(). No-op for timers that have run.
  void cancel(TimerId id);
  // Returns when everything posted before has run. On the loop's own thread: at once.
  void flush();

  bool on_loop_thread() const;
  // How often the loop's thread has woken up: a figure for tests and reports.
  std::uint64_t wakeups() const;

 private:
  struct Impl;
  explicit EventLoop(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
  std::thread thread_;
  OwnerProcess process_;  // in a forked child there is no thread, and nothing runs
};

}  // namespace svp
