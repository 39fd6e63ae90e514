// SPDX-License-Identifier: Apache-2.0
// RuntimeContext, and which one the process has.
#include <atomic>
#include <cstdlib>
#include <flex/flex.hpp>
#include <utility>

#include "host_driver/compat/flex/2026-08-21/context.hpp"
#include "host_driver/compat/flex/2026-08-21/guarded.hpp"

namespace flex {
namespace detail {
namespace {

// Of one process. Never destroyed: destructors of the program's own objects may come later than any of ours.
struct CurrentRuntime {
  const svp::OwnerProcess process;
  std::mutex mutex;
  std::weak_ptr<RuntimeContext> runtime;
  std::weak_ptr<Context> context;
  int device = 0;
  bool ends_at_exit = false;
};

// A forked child has one of its own: a lock of the parent's may be held for ever.
CurrentRuntime& current() {
  static std::atomic<CurrentRuntime*> known{nullptr};
  CurrentRuntime* of_process = known.load();
  while (of_process == nullptr || !of_process->process.is_this()) {
    auto* const fresh = new CurrentRuntime;
    if (known.compare_exchange_strong(of_process, fresh)) return *fresh;
    delete fresh;
  }
  return *of_process;
}

// Registered when a device is open: it runs before the destructors of everything that the driver had made by then, and
// of the program's objects that are older. Those find a runtime that has ended.
void end_at_exit() {
  CurrentRuntime& now = current();
  const std::unique_lock lock(now.mutex, std::try_to_lock);
  if (!lock) return;  // a thread is opening a device; the end of the process ends it
  if (const auto context = now.context.lock()) context->close();
}

Status open_runtime(std::shared_ptr<RuntimeContext>& runtime, int device) {
  CurrentRuntime& now = current();
  const std::lock_guard lock(now.mutex);
  if (auto running = now.runtime.lock()) {
    if (now.device != device) {
      refuse("device", "this process has device " + std::to_string(now.device) + ", and a process has one at a time",
             "start a process for each device (LOCAL_RANK)");
    }
    runtime = std::move(running);
    return {runtime->getAllocator() != nullptr ? now.context.lock()->name() : std::string()};
  }
  // The last pointer to a runtime has gone, and the thread that dropped it may still be ending it.
  if (const auto ending = now.context.lock()) {
    ending->close();
    ending->wait_until_closed();
  }
  const auto context = Context::open(device);
  runtime = std::make_shared<RuntimeContext>(context);
  now.runtime = runtime;
  now.context = context;
  now.device = device;
  if (!now.ends_at_exit && std::atexit(end_at_exit) == 0) now.ends_at_exit = true;
  return {context->name()};
}

}  // namespace
}  // namespace detail

RuntimeContext::RuntimeContext(std::shared_ptr<detail::Context> context)
    : context_(std::move(context)), allocator_(std::make_shared<FlexAllocator>(context_)) {}

RuntimeContext::~RuntimeContext() { context_->close(); }

RuntimeStream* RuntimeContext::getDefaultStream() {
  return detail::guarded([&] { return context_->default_stream(); });
}

RuntimeStream* RuntimeContext::createStream(RuntimeStreamPriority priority) {
  return detail::guarded([&] { return context_->next_stream(priority); });
}

std::shared_ptr<FlexAllocator> RuntimeContext::getAllocator() { return allocator_; }

bool RuntimeContext::hasStreamError() {
  return detail::guarded([&] { return context_->any_stream_failed(); });
}

std::ostream& operator<<(std::ostream& out, const Status& status) { return out << "runtime of " << status.text; }

Status initializeRuntime(std::shared_ptr<RuntimeContext>* runtime, int device) {
  return detail::guarded([&] {
    if (runtime == nullptr) detail::refuse("runtime", "there is no place for it", "give the address of a pointer");
    return detail::open_runtime(*runtime, device);
  });
}

int getNumDevices() {
  return detail::guarded([] { return detail::count_devices(); });
}

std::shared_ptr<RuntimeContext> getFlexRuntimeContext() {
  return detail::guarded([] {
    detail::CurrentRuntime& now = detail::current();
    const std::lock_guard lock(now.mutex);
    auto runtime = now.runtime.lock();
    if (runtime == nullptr) {
      detail::refuse("runtime", "this process has none", "call initializeRuntime() first, and keep what it gives");
    }
    return runtime;
  });
}

}  // namespace flex
