// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/host_calls.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "host_driver/base/start_thread.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/tile_blocks.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

namespace {

thread_local const StreamChannel* running_for = nullptr;
thread_local bool runs_operations = false;

// Of the exception that is being handled.
HostFailure current_failure() noexcept {
  try {
    try {
      throw;
    } catch (const std::exception& error) {
      return {std::string(": ") + error.what()};
    } catch (...) {
      return {", no std::exception"};
    }
  } catch (...) {
    return {};
  }
}

}  // namespace

void HostCall::run() {
  if (tiles != nullptr) return tiles->write(correction, *compute);
  const trace::Span traced(trace::Kind::HostFunction);
  function();
}

bool HostCalls::inside(const StreamChannel& channel) { return running_for == &channel; }
bool HostCalls::inside_operation() { return runs_operations; }

void HostCalls::add_thread() {
  const std::lock_guard lock(mutex_);
  if (kind_ == Kind::Operations && threads_.size() == kOperationThreads) return;
  const char* const name = kind_ == Kind::Operations ? "host operations" : "functions of streams";
  threads_.push_back(start_worker(name, [this] { work(); }));
}

void HostCalls::run(HostCall& call) noexcept {
  {
    const std::lock_guard lock(mutex_);
    ready_.push(call);
  }
  work_.notify_one();
}

void HostCalls::work() {
  runs_operations = kind_ == Kind::Operations;
  std::unique_lock lock(mutex_);
  for (;;) {  // bounded: ends with stop_, which finish() sets
    // bounded: an idle worker; nobody waits for it but finish(), which wakes it
    work_.wait(lock, [this] { return stop_ || !ready_.empty(); });
    if (ready_.empty()) return;
    HostCall& call = ready_.pop();
    lock.unlock();
    StreamChannel& channel = *call.channel;
    std::optional<HostFailure> failure;
    running_for = &channel;
    try {
      call.run();
    } catch (...) {
      failure = current_failure();
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
