// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "host_driver/base/start_thread.hpp"
#include "qemu/errors.hpp"
#include "qemu/machine_impl.hpp"
#include "qemu/reaper_protocol.hpp"

namespace qemu {

namespace {

using Clock = IoLoop::Clock;

constexpr std::size_t kConsoleBytes = 256 * 1024;
constexpr std::size_t kErrorBytes = 16 * 1024;
constexpr std::size_t kReadBytes = 16 * 1024;
/// Link, process, QMP, console, error output.
constexpr unsigned kSources = 5;

}  // namespace

Machine::Impl::Impl(MachineOptions given)
    : options(std::move(given)),
      debugger_offered(!options.gdb_endpoint.empty()),
      console(kConsoleBytes, options.on_console_line),
      error_output(kErrorBytes),
      owner_(::getpid()),
      begin_(Clock::now()),
      next_peers_(options.slots.size(), options.first_renewed_peer) {}

Machine::Impl::~Impl() {
  if (guarded.emulator >= 0) [[maybe_unused]]
    const auto ignored = kill();
  if (thread_.joinable()) {
    stopping_ = true;
    loop_->wake();
    thread_.join();  // bounded: `stopping_` is set and it was woken; its handlers do not block
  }
  // One that is late is collected later; a destructor has nobody to tell.
  [[maybe_unused]] const auto collected = end_reaper(guarded, options.timeouts.reaper_exit);
}

bool Machine::Impl::owned_by_this_process() const { return ::getpid() == owner_; }

Result<void> Machine::Impl::start_thread() {
  auto loop = IoLoop::create(kSources);
  if (!loop) return std::unexpected(std::move(loop.error()));
  loop_ = std::move(*loop);
  loop_->watch(guarded.link.get(), [this] { return on_link(); });
  loop_->watch(guarded.emulator_pidfd.get(), [this] {
    ending_.process_ended = true;
    return false;
  });
  loop_->watch(qmp->fd(), [this] {
    ending_.qmp_ended = !qmp->on_readable();
    return !ending_.qmp_ended;
  });
  loop_->watch(console_end_.get(),
               [this] { return on_text(console_end_.get(), console, console_file_.get(), ending_.console_ended); });
  loop_->watch(error_end_.get(), [this] { return on_text(error_end_.get(), error_output, -1, ending_.error_ended); });
  try {
    thread_ = svp::start_thread([this] { serve(); });
  } catch (const std::system_error& error) {
    return system_failure("pthread_create", error.code().value());
  }
  return {};
}

void Machine::Impl::serve() {
  ::pthread_setname_np(::pthread_self(), "spyre-machine");
  qmp->set_service_thread(std::this_thread::get_id());
  while (!stopping_) {
    loop_->run_once(drain_deadline());
    if (!ending_.first_sign && (ending_.status || ending_.process_ended)) ending_.first_sign = Clock::now();
    if (exit_is_complete()) {
      publish_exit();
      return;
    }
  }
}

bool Machine::Impl::on_link() {
  reaper::Report report{};
  const ssize_t got = ::recv(guarded.link.get(), &report, sizeof report, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got != static_cast<ssize_t>(sizeof report)) {
    ending_.link_ended = true;
    return false;
  }
  if (report.kind == reaper::ReportKind::kExited) ending_.status = {ExitStatus::Kind::kExited, report.value};
  if (report.kind == reaper::ReportKind::kSignaled) ending_.status = {ExitStatus::Kind::kSignaled, report.value};
  return true;
}

bool Machine::Impl::on_text(int fd, TextTail& tail, int tee, bool& ended) {
  std::array<char, kReadBytes> chunk;
  const ssize_t got = ::read(fd, chunk.data(), chunk.size());  // bounded: called when the descriptor is readable
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) {
    ended = true;
    return false;
  }
  const auto bytes = static_cast<std::size_t>(got);
  tail.append({chunk.data(), bytes});
  // A full disk must not end the card; the text is still in the tail.
  if (tee >= 0) [[maybe_unused]]
    const ssize_t ignored = ::write(tee, chunk.data(), bytes);
  return true;
}

/// Once the end shows, the rest (status, last lines) gets a bounded time to arrive; before, the thread just sleeps.
std::optional<Clock::time_point> Machine::Impl::drain_deadline() const {
  if (!ending_.first_sign) return std::nullopt;
  return *ending_.first_sign + (status_is_final() ? options.timeouts.drain : options.timeouts.report);
}

/// Known, or nobody is left who could tell.
bool Machine::Impl::status_is_final() const { return ending_.status || (ending_.process_ended && ending_.link_ended); }

bool Machine::Impl::exit_is_complete() const {
  if (!ending_.first_sign) return false;
  if (Clock::now() >= *drain_deadline()) return true;
  return status_is_final() && ending_.console_ended && ending_.error_ended && ending_.qmp_ended;
}

void Machine::Impl::publish_exit() {
  const ExitStatus status = ending_.status.value_or(ExitStatus{});
  console.close();
  error_output.close();
  {
    const std::scoped_lock lock(exit_mutex_);
    exit_ = status;
  }
  qmp->close(status);
  exit_changed_.notify_all();
  if (options.on_exit) options.on_exit(status);
}

std::optional<ExitStatus> Machine::Impl::exit_status() const {
  const std::scoped_lock lock(exit_mutex_);
  return exit_;
}

std::optional<ExitStatus> Machine::Impl::wait_exit(Timeouts::Duration timeout) const {
  std::unique_lock lock(exit_mutex_);
  if (std::this_thread::get_id() != thread_.get_id()) {
    exit_changed_.wait_until(lock, Clock::now() + timeout, [&] { return exit_.has_value(); });
  }
  return exit_;
}

Result<ExitStatus> Machine::Impl::kill() {
  if (const auto requested = request_end(guarded); !requested) {
    // Where the kernel still does so, the reaper's end has killed it as well.
    if (const auto status = wait_exit(options.timeouts.kill)) return *status;
    return std::unexpected(requested.error());
  }
  // Without the thread (start failed before it) nobody reads the report, but the process itself can be waited for.
  if (!thread_.joinable()) {
    pollfd event{guarded.emulator_pidfd.get(), POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(options.timeouts.kill.count())) == 0) return not_ended();
    return ExitStatus{ExitStatus::Kind::kSignaled, SIGKILL};
  }
  if (const auto status = wait_exit(options.timeouts.kill)) return *status;
  return not_ended();
}

std::unexpected<MachineError> Machine::Impl::not_ended() const {
  return failure(MachineError::Kind::kTimeout,
                 fmt::format("the emulator (pid {}) did not end within {} ms of SIGKILL.", guarded.emulator,
                             options.timeouts.kill.count()),
                 fmt::format("Look at /proc/{}/stack: it hangs in the kernel.", guarded.emulator));
}

}  // namespace qemu
