// SPDX-License-Identifier: Apache-2.0
// Accepts the connections of one listening socket on an event loop. When no descriptor is left for a connection, the
// socket, which stays readable, is not watched until one timer has ended: the connections wait in its queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "host_driver/base/event_loop.hpp"
#include "host_driver/base/unique_fd.hpp"

namespace svp {

// All members on the loop's thread, but pauses(). The loop outlives this.
class Acceptor {
 public:
  using Admit = std::function<void(UniqueFd connection)>;
  // A connection of the listener (close-on-exec, non-blocking), or -1 and errno.
  using Accept = std::function<int(int listener)>;
  static int accept_one(int listener);

  explicit Acceptor(Admit admit, Accept accept = accept_one) : admit_(std::move(admit)), accept_(std::move(accept)) {}
  ~Acceptor() { close(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `listener` does not block.
  void open(EventLoop& loop, UniqueFd listener);
  void close();

  // How often no descriptor was left.
  std::uint64_t pauses() const { return pauses_.load(std::memory_order_relaxed); }

 private:
  void watch();
  void accept_all();
  void watch_later();

  const Admit admit_;
  const Accept accept_;
  EventLoop* loop_ = nullptr;
  UniqueFd listener_{};
  EventLoop::WatchId watch_ = EventLoop::WatchId::None;
  EventLoop::TimerId timer_ = EventLoop::TimerId::None;
  std::atomic<std::uint64_t> pauses_{0};
};

}  // namespace svp
