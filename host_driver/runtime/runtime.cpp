// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/runtime.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "host_driver/runtime/open_runtimes.hpp"

namespace svp {

Runtime::Runtime(std::unique_ptr<Device> device, RuntimeOptions options, std::unique_ptr<DeviceSource> source)
    : source_(std::move(source)),
      function_(std::move(device), std::move(options.allocator), source_ ? source_->sharing() : nullptr),
      scheduler_(std::make_unique<Scheduler>(function_, options.staging, options.recovery.policy,
                                             SchedulerOptions{options.checksums, options.elide_corrections})),
      recovery_(function_, *scheduler_, source_.get(), options.recovery),
      number_(OpenRuntimes::process().add(*this)) {}

Runtime::~Runtime() {
  if (process_.is_this()) {
    OpenRuntimes::process().remove(number_);
    scheduler_->close();
    function_.close();
    scheduler_->end_everything();
    return;
  }
  // Threads of the parent may have held any lock of these, and wait at any of their conditions.
  keep_for_ever(std::shared_ptr<Scheduler>(std::move(scheduler_)));
  keep_for_ever(std::shared_ptr<DeviceSource>(std::move(source_)));
  function_.abandon();
}

FlexStream& Runtime::stream(unsigned id) {
  function_.require_own_process();
  if (id >= Scheduler::kLoadingStream) {
    throw InvalidArgument("stream", "stream " + std::to_string(id) + " does not exist",
                          "use 0 … " + std::to_string(Scheduler::kLoadingStream - 1));
  }
  return scheduler_->stream(id, recovery_);
}

FlexStream& Runtime::loading_stream() {
  function_.require_own_process();
  return scheduler_->stream(Scheduler::kLoadingStream, recovery_);
}

FlexStream& Runtime::next_stream(StreamPriority priority) {
  function_.require_own_process();
  return stream(scheduler_->next_id(priority));
}

namespace {

constexpr const char* kHostStreamsVariable = "TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS";
constexpr unsigned kDefaultHostStreams = 4;

unsigned wanted_host_streams() {
  const char* text = std::getenv(kHostStreamsVariable);
  if (text == nullptr || *text == '\0') return kDefaultHostStreams;
  unsigned number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error == std::errc() && stop == end && number >= 1 && number <= Scheduler::kHostStreams) return number;
  throw InvalidArgument(kHostStreamsVariable, std::string(kHostStreamsVariable) + " is \"" + text + "\"",
                        "give 1 to " + std::to_string(Scheduler::kHostStreams));
}

}  // namespace

FlexStream& Runtime::next_host_stream() {
  function_.require_own_process();
  return stream(scheduler_->next_host_id(wanted_host_streams()));
}

namespace {

// By the runtime's number: a runtime that has ended is never taken for a later one. Default streams are not in it.
thread_local std::unordered_map<std::uint64_t, FlexStream*> current_streams;

// Of actions that are all done, whatever the others throw.
class FirstError {
 public:
  template <typename Action>
  void attempt(Action action) {
    try {
      action();
    } catch (...) {
      if (first_ == nullptr) first_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (first_ != nullptr) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

}  // namespace

FlexStream& Runtime::current_stream() {
  function_.require_own_process();
  const auto found = current_streams.find(number_);
  return found != current_streams.end() ? *found->second : default_stream();
}

FlexStream& Runtime::set_current_stream(FlexStream& stream) {
  FlexStream& before = current_stream();
  if (stream.allocator() != shared_allocator()) {
    throw InvalidArgument("stream", "the stream belongs to another context", "choose a stream of this one");
  }
  if (stream.id() == 0) {
    current_streams.erase(number_);
  } else {
    current_streams[number_] = &stream;
  }
  return before;
}

void Runtime::synchronize() {
  function_.require_own_process();
  FirstError errors;
  for (FlexStream* stream : scheduler_->opened()) errors.attempt([stream] { stream->Synchronize(); });
  errors.rethrow();
}

void Runtime::synchronize(FlexStream::Clock::time_point deadline) {
  function_.require_own_process();
  FirstError errors;
  for (FlexStream* stream : scheduler_->opened()) errors.attempt([&] { stream->Synchronize(deadline); });
  errors.rethrow();
}

void Runtime::synchronize_all() {
  FirstError errors;
  OpenRuntimes::process().for_each([&](Runtime& runtime) { errors.attempt([&] { runtime.synchronize(); }); });
  errors.rethrow();
}

RecoveryReport Runtime::recover(std::optional<ResetLevel> from) {
  function_.require_own_process();
  return recovery_.recover(from);
}

}  // namespace svp
