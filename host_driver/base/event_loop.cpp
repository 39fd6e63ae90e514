// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/event_loop.hpp"

#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "host_driver/base/start_thread.hpp"
#include "host_driver/base/system_call.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/base/unique_fd.hpp"

namespace svp {

namespace {

constexpr unsigned kRingEntries = 64;
constexpr std::uint64_t kWakeTag = 0;
constexpr std::uint64_t kRemovalTag = ~std::uint64_t{0};

ErrorInfo no_io_uring(int error) {
  const char* next = "allow io_uring: sysctl kernel.io_uring_disabled=0, and a container profile that permits it";
  if (error == EMFILE) next = "raise the limit of open files (ulimit -n), or close some";
  if (error == ENFILE) next = "raise this machine's limit of open files: sysctl fs.file-max";
  if (error == ENOMEM) next = "raise the limit of locked memory (ulimit -l), or free memory";
  return {.layer = Layer::Driver,
          .source = "io_uring",
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = next,
          .message = "cannot create an io_uring: " + std::generic_category().message(error)};
}

ErrorInfo no_thread() {
  return {.layer = Layer::Driver,
          .source = "thread",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "end other programs or raise the limit of processes (ulimit -u)",
          .message = "the system has no thread left for the driver's event loop"};
}

}  // namespace

// What the loop's thread and its owners share. The thread holds it too, so that a loop may be let go on its own thread.
struct EventLoop::Impl {
  struct Watch {
    int fd = -1;
    std::shared_ptr<Handler> handler;
  };
  using Timers = std::multimap<Clock::time_point, std::pair<std::uint64_t, Closure>>;
  using Places = std::map<std::uint64_t, Timers::iterator>;

  // Any thread
  std::mutex mutex;
  std::condition_variable ran;
  std::vector<Closure> posted;
  std::uint64_t posts = 0;      // ever
  std::uint64_t posts_run = 0;  // ever
  bool stopping = false;
  std::atomic<std::uint64_t> next_id{1};
  std::atomic<std::uint64_t> wakeups{0};
  std::atomic<bool> wake_pending{false};
  UniqueFd wake_fd;
  std::atomic<std::thread::id> thread_id{};

  // The loop's thread
  io_uring ring{};
  bool ring_ready = false;
  std::unordered_map<std::uint64_t, Watch> watches;
  Timers timers;
  Places timer_places;

  ~Impl() {
    if (ring_ready) ::io_uring_queue_exit(&ring);
  }

  void wake() {
    if (wake_pending.exchange(true, std::memory_order_acq_rel)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_fd.get(), &one, sizeof one);
  }

  io_uring_sqe* next_sqe() {
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
    while (sqe == nullptr) {  // full: hand over what is there
      ::io_uring_submit(&ring);
      sqe = ::io_uring_get_sqe(&ring);
    }
    return sqe;
  }
  void start_polling(std::uint64_t tag, int fd) {
    io_uring_sqe* sqe = next_sqe();
    ::io_uring_prep_poll_multishot(sqe, fd, POLLIN);
    ::io_uring_sqe_set_data64(sqe, tag);
  }
  void stop_polling(std::uint64_t tag) {
    io_uring_sqe* sqe = next_sqe();
    ::io_uring_prep_poll_remove(sqe, tag);
    ::io_uring_sqe_set_data64(sqe, kRemovalTag);
  }

  void wait();
  void handle(const io_uring_cqe& cqe);
  void run_timers();
  void run_posted();
  void run();
};

void EventLoop::Impl::wait() {
  io_uring_cqe* cqe = nullptr;
  const auto now = Clock::now();
  const auto left = timers.empty() ? kLookAround : std::max(Clock::duration::zero(), timers.begin()->first - now);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  __kernel_timespec bound{seconds.count(), std::chrono::nanoseconds(left - seconds).count()};
  ::io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &bound, nullptr);
  wakeups.fetch_add(1, std::memory_order_relaxed);
}

void EventLoop::Impl::handle(const io_uring_cqe& cqe) {
  if (cqe.user_data == kRemovalTag) return;
  const bool ended = (cqe.flags & IORING_CQE_F_MORE) == 0;
  if (cqe.user_data == kWakeTag) {
    std::uint64_t count;
    // bounded: the eventfd does not block
    [[maybe_unused]] const auto got = ::read(wake_fd.get(), &count, sizeof count);
    if (ended) start_polling(kWakeTag, wake_fd.get());
    return;
  }
  const auto found = watches.find(cqe.user_data);
  if (found == watches.end()) return;
  // The kernel ends a multishot poll when it runs short of room for results. A descriptor that hung up stays quiet:
  // polling it again would only report the same end for ever.
  const auto events = cqe.res < 0 ? unsigned{POLLERR} : static_cast<unsigned>(cqe.res);
  const bool over = cqe.res < 0 || (events & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  if (ended && !over) start_polling(cqe.user_data, found->second.fd);
  const auto handler = found->second.handler;  // stays while it runs: it may unwatch itself
  (*handler)(events);
}

void EventLoop::Impl::run_timers() {
  while (!timers.empty() && timers.begin()->first <= Clock::now()) {
    auto [id, closure] = std::move(timers.begin()->second);
    timers.erase(timers.begin());
    timer_places.erase(id);
    closure();
  }
}

void EventLoop::Impl::run_posted() {
  wake_pending.store(false, std::memory_order_release);
  std::vector<Closure> batch;
  {
    const std::lock_guard lock(mutex);
    batch.swap(posted);
  }
  for (auto& closure : batch) closure();
  const std::lock_guard lock(mutex);
  posts_run += batch.size();
  ran.notify_all();
}

void EventLoop::Impl::run() {
  start_polling(kWakeTag, wake_fd.get());
  for (;;) {  // bounded: ends with `stopping`; wait() itself ends after kLookAround
    {
      const std::lock_guard lock(mutex);
      if (stopping) return;
    }
    wait();
    io_uring_cqe* cqe = nullptr;
    while (::io_uring_peek_cqe(&ring, &cqe) == 0 && cqe != nullptr) {
      const io_uring_cqe copy = *cqe;
      ::io_uring_cqe_seen(&ring, cqe);
      handle(copy);
    }
    run_timers();
    run_posted();
  }
}

Expected<std::shared_ptr<EventLoop>> EventLoop::create() {
  auto impl = std::make_shared<Impl>();
  impl->wake_fd.reset(system_call([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }));
  if (!impl->wake_fd.valid()) return std::unexpected(no_io_uring(errno));
  // liburing returns its errors.
  const int injected = system_call_error();
  const int error = injected != 0 ? -injected : ::io_uring_queue_init(kRingEntries, &impl->ring, 0);
  if (error < 0) {
    return std::unexpected(no_io_uring(-error));
  }
  impl->ring_ready = true;
  (void)::io_uring_ring_dontfork(&impl->ring);
  try {
    return std::shared_ptr<EventLoop>(new EventLoop(std::move(impl)));
  } catch (const std::system_error&) {
    return std::unexpected(no_thread());
  }
}

EventLoop::EventLoop(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {
  thread_ = start_thread([state = impl_] {
    state->thread_id.store(std::this_thread::get_id(), std::memory_order_release);
    ::pthread_setname_np(::pthread_self(), "spyre-events");
    state->run();
  });
}

EventLoop::~EventLoop() {
  if (!process_.is_this()) {
    keep_for_ever(std::move(impl_));
    std::construct_at(&thread_);  // the thread does not exist here: neither to be joined nor to be detached
    return;
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake();
  if (on_loop_thread()) {
    thread_.detach();
  } else {
    thread_.join();  // bounded: `stopping` is set and it was woken; closures do not block
  }
}

void EventLoop::post(Closure closure) {
  if (!process_.is_this()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->posted.push_back(std::move(closure));
    ++impl_->posts;
  }
  impl_->wake();
}

EventLoop::WatchId EventLoop::watch(int fd, Handler handler) {
  const std::uint64_t id = impl_->next_id.fetch_add(1, std::memory_order_relaxed);
  auto begin = [state = impl_.get(), id, fd, kept = std::make_shared<Handler>(std::move(handler))] {
    state->watches[id] = {fd, kept};
    state->start_polling(id, fd);
  };
  // On the loop's own thread at once: an unwatch() that follows there must find it.
  if (on_loop_thread()) {
    begin();
  } else {
    post(std::move(begin));
  }
  return WatchId{id};
}

void EventLoop::unwatch(WatchId id) {
  if (id == WatchId::None) return;
  const auto remove = [state = impl_.get(), tag = static_cast<std::uint64_t>(id)] {
    if (state->watches.erase(tag) != 0) state->stop_polling(tag);
  };
  if (on_loop_thread()) return remove();
  post(remove);
  flush();
}

EventLoop::TimerId EventLoop::run_at(Clock::time_point when, Closure closure) {
  const std::uint64_t id = impl_->next_id.fetch_add(1, std::memory_order_relaxed);
  // Everything that needs memory is made here, where the caller is told of it: on the loop's thread nobody would.
  struct Nodes {
    Impl::Timers timer;
    Impl::Places place;
  };
  auto nodes = std::make_shared<Nodes>();
  nodes->timer.emplace(when, std::pair{id, std::move(closure)});
  nodes->place.emplace(id, nodes->timer.end());
  auto insert = [state = impl_.get(), nodes] {
    auto place = nodes->place.extract(nodes->place.begin());
    place.mapped() = state->timers.insert(nodes->timer.extract(nodes->timer.begin()));
    state->timer_places.insert(std::move(place));
  };
  if (on_loop_thread()) {
    insert();
  } else {
    post(std::move(insert));
  }
  return TimerId{id};
}

void EventLoop::cancel(TimerId id) {
  if (id == TimerId::None) return;
  const auto remove = [state = impl_.get(), key = static_cast<std::uint64_t>(id)] {
    const auto place = state->timer_places.find(key);
    if (place == state->timer_places.end()) return;
    state->timers.erase(place->second);
    state->timer_places.erase(place);
  };
  if (on_loop_thread()) return remove();
  post(remove);
  flush();
}

void EventLoop::flush() {
  if (on_loop_thread() || !process_.is_this()) return;
  std::unique_lock lock(impl_->mutex);
  const std::uint64_t target = impl_->posts;
  // bounded: closures do not block, and the thread exists as long as the loop
  impl_->ran.wait(lock, [&] { return impl_->posts_run >= target; });
}

bool EventLoop::on_loop_thread() const {
  return impl_->thread_id.load(std::memory_order_acquire) == std::this_thread::get_id();
}

std::uint64_t EventLoop::wakeups() const { return impl_->wakeups.load(std::memory_order_relaxed); }

}  // namespace svp
