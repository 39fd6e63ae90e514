// SPDX-License-Identifier: Apache-2.0
#include "qemu/io_loop.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "qemu/errors.hpp"
#include "qemu/timeouts.hpp"

namespace qemu {

Result<std::unique_ptr<IoLoop>> IoLoop::create(unsigned sources) {
  std::unique_ptr<IoLoop> loop{new IoLoop};
  if (const int error = ::io_uring_queue_init(sources + 1, &loop->ring_, 0); error < 0) {
    if (error == -EPERM || error == -ENOSYS) {
      return failure(MachineError::Kind::kStartFailed,
                     fmt::format("io_uring is blocked here: {}.", std::strerror(-error)),
                     "Set sysctl kernel.io_uring_disabled=0, and allow io_uring in the container's seccomp profile.");
    }
    return system_failure("io_uring_queue_init", -error);
  }
  loop->ring_ready_ = true;
  loop->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!loop->wake_.valid()) return system_failure("eventfd", errno);
  loop->watch(loop->wake_.get(), [fd = loop->wake_.get()] {
    std::uint64_t count;
    return ::read(fd, &count, sizeof count) >= 0 || errno == EAGAIN;  // bounded: the eventfd does not block
  });
  return loop;
}

IoLoop::~IoLoop() {
  if (ring_ready_) ::io_uring_queue_exit(&ring_);
}

void IoLoop::watch(int fd, Handler handler) { sources_.push_back({fd, std::move(handler)}); }

void IoLoop::wake() {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, that is when waking is pending already.
  [[maybe_unused]] const ssize_t ignored = ::write(wake_.get(), &one, sizeof one);
}

void IoLoop::arm_all() {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (source.armed || source.finished) continue;
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;  // more sources than promised: served in the next iteration
    ::io_uring_prep_poll_add(entry, source.fd, POLLIN);
    ::io_uring_sqe_set_data64(entry, i);
    source.armed = true;
  }
}

void IoLoop::run_once(std::optional<Clock::time_point> deadline) {
  arm_all();
  io_uring_cqe* completion = nullptr;
  const auto now = Clock::now();
  const auto left = std::max(deadline.value_or(now + kLookAround) - now, Clock::duration::zero());
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  __kernel_timespec limit{.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
  ::io_uring_submit_and_wait_timeout(&ring_, &completion, 1, &limit, nullptr);
  reap();
}

void IoLoop::reap() {
  io_uring_cqe* completion = nullptr;
  while (::io_uring_peek_cqe(&ring_, &completion) == 0) {
    const auto index = static_cast<std::size_t>(::io_uring_cqe_get_data64(completion));
    ::io_uring_cqe_seen(&ring_, completion);
    if (index >= sources_.size()) continue;  // liburing's own timeout
    Source& source = sources_[index];
    source.armed = false;
    if (!source.handler()) source.finished = true;
  }
}

}  // namespace qemu
