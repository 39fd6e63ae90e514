// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/host_work.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/base/start_thread.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/runtime/flex_stream.hpp"

namespace svp {

// ---- one task -------------------------------------------------------------------------------------------------------

HostTask::~HostTask() {
  if (!done_ && process_.is_this()) engine_.give_back(bytes_);  // its launch was refused
}

void HostTask::on_launch_ended(std::uint64_t launch, wire::Outcome outcome) noexcept {
  launch_ = launch;
  outcome_ = outcome;
  engine_.push(*this);
}

void HostTask::require_launch_ok() const {
  if (outcome_ == wire::Outcome::Ok) return;
  if (const auto error = stream_.error()) throw *error;
  throw Error({.layer = Layer::Driver,
               .source = "stream " + std::to_string(stream_.stream_index()),
               .outcome = outcome_,
               .recoverable = true,
               .next_step = "copy again",
               .message = "launch " + std::to_string(launch_) + ", a copy to the host, ended " +
                          std::string(wire::name(outcome_))});
}

void HostTask::run() noexcept {
  std::exception_ptr failure;
  try {
    require_launch_ok();
    work_();
  } catch (...) {
    failure = std::current_exception();
  }
  work_ = nullptr;  // with its buffers
  const std::lock_guard guard(mutex_);
  failure_ = failure;
  done_ = true;
  ended_.notify_all();
}

void HostTask::require_own_process() const {
  if (!process_.is_this()) throw Error(made_by_the_parent("the copy"));
}

bool HostTask::done() const {
  require_own_process();
  const std::lock_guard guard(mutex_);
  return done_;
}

bool HostTask::wait_a_while(Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  return ended_.wait_until(lock, std::min(deadline, Clock::now() + kLookForRecovery), [this] { return done_; });
}

void HostTask::wait() {
  require_own_process();
  // The launch ends as FlexStream::Synchronize() says, then the worker converts.
  while (!wait_a_while(Clock::now() + kLookForRecovery)) (void)stream_.look();
  if (failure_) std::rethrow_exception(failure_);
}

void HostTask::wait(Clock::time_point deadline) {
  require_own_process();
  while (!wait_a_while(deadline)) {
    if (Clock::now() >= deadline) {
      throw TimeoutError({.layer = Layer::Driver,
                          .source = "stream " + std::to_string(stream_.stream_index()),
                          .outcome = wire::Outcome::Timeout,
                          .next_step = "wait again, or Reset() the stream",
                          .message = "a copy to the host had not ended by the deadline"});
    }
    (void)stream_.look();  // what recovers by itself does so here
  }
  if (failure_) std::rethrow_exception(failure_);
}

// ---- the worker -----------------------------------------------------------------------------------------------------

HostWork::~HostWork() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  if (worker_.joinable()) worker_.join();  // bounded: stop_ is set; it finishes what is there
}

void HostWork::start() {
  if (worker_.joinable()) return;
  worker_ = start_worker("copies to the host", [this] { run(); });
}

std::shared_ptr<HostTask> HostWork::make(FlexStream& stream, std::uint64_t bytes, std::function<void()> work) {
  const auto deadline = Clock::now() + Timeouts{}.quiesce;
  std::unique_lock lock(mutex_);
  start();
  streams_.try_emplace(&stream);
  used_.store(true, std::memory_order_release);
  const auto fits = [&] { return bytes_ == 0 || bytes_ + bytes <= kMostBytes; };
  while (!done_.wait_until(lock, std::min(deadline, Clock::now() + kLookForRecovery), fits)) {
    if (Clock::now() >= deadline) {
      throw Error({.layer = Layer::Driver,
                   .source = "stream " + std::to_string(stream.stream_index()),
                   .outcome = wire::Outcome::Rejected,
                   .recoverable = true,
                   .next_step = "Synchronize() the streams that copies to the host were launched on, then copy again",
                   .message = std::to_string(bytes_) + " bytes of copies to the host are under way and do not end"});
    }
    lock.unlock();
    (void)stream.look();  // what recovers by itself does so here
    lock.lock();
  }
  auto task = std::make_shared<HostTask>(*this, stream, bytes, std::move(work));
  bytes_ += bytes;
  return task;
}

void HostWork::give_back(std::uint64_t bytes) noexcept {
  {
    const std::lock_guard guard(mutex_);
    bytes_ -= bytes;
  }
  done_.notify_all();
}

void HostWork::push(HostTask& task) noexcept {
  {
    const std::lock_guard guard(mutex_);
    task.self_ = task.shared_from_this();
    ++streams_.find(&task.stream_)->second.ended;
    ready_.push(task);
  }
  work_.notify_one();
}

void HostWork::run() {
  std::unique_lock lock(mutex_);
  for (;;) {  // bounded: ends with stop_, which the destructor sets
    // bounded: an idle worker; nobody waits for it but the destructor, which wakes it
    work_.wait(lock, [this] { return stop_ || !ready_.empty(); });
    if (ready_.empty()) return;
    std::shared_ptr<HostTask> task = std::move(ready_.pop().self_);
    lock.unlock();
    task->run();
    lock.lock();
    OfStream& stream = streams_.find(&task->stream_)->second;
    ++stream.done;
    if (task->failure_ && task->outcome_ == wire::Outcome::Ok && !stream.failure) stream.failure = task->failure_;
    bytes_ -= task->bytes_;
    lock.unlock();
    task.reset();
    done_.notify_all();
    lock.lock();
  }
}

bool HostWork::idle(const FlexStream& stream) const {
  if (!used_.load(std::memory_order_acquire)) return true;
  const std::lock_guard guard(mutex_);
  const auto found = streams_.find(&stream);
  return found == streams_.end() || found->second.done == found->second.ended;
}

bool HostWork::wait(const FlexStream& stream, Clock::time_point deadline) {
  if (!used_.load(std::memory_order_acquire)) return true;
  std::unique_lock lock(mutex_);
  const auto found = streams_.find(&stream);
  if (found == streams_.end()) return true;
  const std::uint64_t target = found->second.ended;
  return done_.wait_until(lock, deadline, [&] { return found->second.done >= target; });
}

std::exception_ptr HostWork::take_failure(const FlexStream& stream) {
  if (!used_.load(std::memory_order_acquire)) return nullptr;
  const std::lock_guard guard(mutex_);
  const auto found = streams_.find(&stream);
  return found == streams_.end() ? nullptr : std::exchange(found->second.failure, nullptr);
}

}  // namespace svp
