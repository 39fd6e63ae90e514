// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/host_calls.hpp"

#include <exception>
#include <utility>

#include "host_driver/base/start_thread.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

namespace {

thread_local const StreamChannel* running_for = nullptr;

}  // namespace

bool HostCalls::inside(const StreamChannel& channel) { return running_for == &channel; }

void HostCalls::add_thread() {
  const std::lock_guard lock(mutex_);
  threads_.push_back(start_worker("functions of streams", [this] { work(); }));
}

void HostCalls::run(HostCall& call) noexcept {
  {
    const std::lock_guard lock(mutex_);
    ready_.push(call);
  }
  work_.notify_one();
}

void HostCalls::work() {
  std::unique_lock lock(mutex_);
  for (;;) {  // bounded: ends with stop_, which finish() sets
    // bounded: an idle worker; nobody waits for it but finish(), which wakes it
    work_.wait(lock, [this] { return stop_ || !ready_.empty(); });
    if (ready_.empty()) return;
    HostCall& call = ready_.pop();
    lock.unlock();
    StreamChannel& channel = *call.channel;
    std::exception_ptr failure;
    running_for = &channel;
    try {
      const trace::Span traced(trace::Kind::HostFunction);
      call.function();
    } catch (...) {
      failure = std::current_exception();
    }
    running_for = nullptr;
    channel.host_call_ended(call, std::move(failure));  // the call is gone afterwards
    lock.lock();
  }
}

void HostCalls::finish() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : std::exchange(threads_, {})) thread.join();  // bounded: by the program's functions
}

}  // namespace svp
