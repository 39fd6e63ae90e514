// SPDX-License-Identifier: Apache-2.0
#include "host_driver/broker/acceptor.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "host_driver/broker/timeouts.hpp"

namespace svp {

namespace {

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

int Acceptor::accept_one(int listener) {
  // bounded: the listener does not block
  return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

void Acceptor::open(EventLoop& loop, UniqueFd listener) {
  loop_ = &loop;
  listener_ = std::move(listener);
  watch();
}

void Acceptor::close() {
  if (loop_ == nullptr) return;
  loop_->unwatch(std::exchange(watch_, EventLoop::WatchId::None));
  loop_->cancel(std::exchange(timer_, EventLoop::TimerId::None));
  listener_.reset();
}

void Acceptor::watch() {
  watch_ = loop_->watch(listener_.get(), [this](unsigned) { accept_all(); });
}

void Acceptor::watch_later() {
  pauses_.fetch_add(1, std::memory_order_relaxed);
  loop_->unwatch(std::exchange(watch_, EventLoop::WatchId::None));
  timer_ = loop_->run_at(EventLoop::Clock::now() + kAcceptAgain, [this] {
    timer_ = EventLoop::TimerId::None;
    watch();
  });
}

void Acceptor::accept_all() {
  while (listener_.valid()) {
    UniqueFd connection{accept_(listener_.get())};
    if (connection.valid()) {
      admit_(std::move(connection));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (out_of_resources(errno) && watch_ != EventLoop::WatchId::None) watch_later();
    return;
  }
}

}  // namespace svp
