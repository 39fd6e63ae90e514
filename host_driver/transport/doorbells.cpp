// SPDX-License-Identifier: Apache-2.0
#include "host_driver/transport/doorbells.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "host_driver/base/system_call.hpp"

namespace svp {

Chance::Chance(double probability, std::uint64_t seed)
    : threshold_(probability <= 0   ? 0
                 : probability >= 1 ? ~std::uint64_t{0}
                                    : static_cast<std::uint64_t>(probability * 18446744073709551616.0)),
      state_(seed) {}

bool Chance::roll() {
  if (threshold_ == ~std::uint64_t{0} || draw() < threshold_) {
    fired_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

std::uint64_t Chance::draw() {
  // splitmix64 over a counter: the n-th answer depends on seed and n only, whichever thread asks.
  std::uint64_t z = state_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed) + 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

Doorbells::Doorbells(SlotHandle slot, const FaultHooks& faults)
    : slot_(std::move(slot)),
      faults_(faults),
      faulty_(faults.injector != nullptr || faults.drop_doorbells_to_card > 0 || faults.drop_doorbells_from_card > 0),
      lose_to_card_(faults.drop_doorbells_to_card, faults.seed),
      lose_from_card_(faults.drop_doorbells_from_card, ~faults.seed) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", slot_.doorbell_to_card());
  reader_.reset(system_call([&] { return ::open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
}

void Doorbells::ring() {
  if (faulty_ && !may_ring()) return;
  signalled_.fetch_add(1, std::memory_order_relaxed);
  write_ring();
}

void Doorbells::write_ring() const {
  if (!reader_.valid()) return write_guarded();
  const std::uint64_t ring = 1;
  static_assert(sizeof ring == kDoorbellBytes);
  [[maybe_unused]] const auto written = ::write(slot_.doorbell_to_card(), &ring, sizeof ring);
}

bool Doorbells::may_ring() {
  if (lose_to_card_.fires()) return false;
  if (!faults_.armed(fault::Point::DoorbellToCard)) return true;
  const auto shot = faults_.occur(fault::Point::DoorbellToCard);
  if (!shot) return true;
  if (shot->action == fault::Action::Duplicate) write_ring();
  if (shot->action != fault::Action::Delay) return shot->action == fault::Action::Duplicate;
  // With a descriptor of its own: these doorbells may be gone when it is time, and the thread there is masked to
  // SIGPIPE.
  const auto late = std::make_shared<UniqueFd>(::fcntl(slot_.doorbell_to_card(), F_DUPFD_CLOEXEC, 0));
  faults_.injector()->later(std::chrono::microseconds(shot->argument), [late] {
    const std::uint64_t ring = 1;
    [[maybe_unused]] const auto written = ::write(late->get(), &ring, sizeof ring);
  });
  return false;
}

Doorbells::Received Doorbells::receive_faulty() {
  if (lose_from_card_.fires()) return {.lost = true};
  if (!faults_.armed(fault::Point::DoorbellToHost)) return {};
  const auto shot = faults_.occur(fault::Point::DoorbellToHost);
  if (!shot) return {};
  switch (shot->action) {
    case fault::Action::Suppress: return {.lost = true};
    case fault::Action::Duplicate: return {.twice = true};
    case fault::Action::Delay: return {.delay = std::chrono::microseconds(shot->argument)};
    default: return {};
  }
}

void Doorbells::write_guarded() const {
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const std::uint64_t ring = 1;
  if (::write(slot_.doorbell_to_card(), &ring, sizeof ring) < 0 && errno == EPIPE) {
    const timespec now{};
    ::sigtimedwait(&pipe_signal, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Doorbells::drain() const {
  char rings[512];
  // bounded: the pipe does not block, and holds 64 KiB
  while (::read(slot_.doorbell_from_card(), rings, sizeof rings) == static_cast<ssize_t>(sizeof rings)) {
  }
}

Doorbells::Wakeup Doorbells::sleep(int exit_fd, int wake_fd, std::chrono::nanoseconds bound) {
  using Clock = std::chrono::steady_clock;
  if (faulty_ && echo_.exchange(false)) return {.rang = true};
  auto end = Clock::now() + bound;
  bool late = false;  // a doorbell arrived that counts at `end`
  for (;;) {
    pollfd fds[3] = {{from_card(), POLLIN, 0}, {exit_fd, POLLIN, 0}, {wake_fd, POLLIN, 0}};
    const auto left = std::max(std::chrono::nanoseconds{0}, std::chrono::nanoseconds{end - Clock::now()});
    const timespec limit{left / std::chrono::seconds{1}, (left % std::chrono::seconds{1}).count()};
    const int ready = system_call([&] { return ::ppoll(fds, 3, &limit, nullptr); });
    Wakeup wakeup;
    wakeup.rang = late;
    if (ready <= 0) return wakeup;  // time over, or a signal: the caller looks at everything again
    wakeup.gone = (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 || fds[1].revents != 0;
    wakeup.rang = (fds[0].revents & POLLIN) != 0;
    if (wakeup.rang) drain();
    const Received received = wakeup.rang ? receive() : Received{};
    if (received.twice) echo_.store(true);
    if (wakeup.gone || fds[2].revents != 0) return wakeup;
    if (received.lost) continue;
    if (received.delay.count() == 0) return wakeup;
    const auto received_at = Clock::now() + received.delay;
    late = received_at < end;
    if (late) end = received_at;
  }
}

}  // namespace svp
