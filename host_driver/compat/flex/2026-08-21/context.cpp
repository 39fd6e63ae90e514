// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compat/flex/2026-08-21/context.hpp"

#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/compat/flex/2026-08-21/timeouts.hpp"

namespace flex::detail {
namespace {

constexpr unsigned kPool = svp::Runtime::kStreamsPerPool;
constexpr unsigned kFirstHostStream = 2 * kPool + 1;
constexpr unsigned kHostStreams = 8;

// 1 … 32, then those of the driver that are for functions of the host, then again.
unsigned low_stream(unsigned number) {
  number %= kPool + kHostStreams;
  return number < kPool ? 1 + number : kFirstHostStream + (number - kPool);
}
unsigned high_stream(unsigned number) { return kPool + 1 + number % kPool; }

// Programs keep the pointers, also beyond the end of a runtime.
void keep_for_the_process(RuntimeStream* stream) {
  static std::mutex mutex;
  static auto* const all = new std::vector<RuntimeStream*>;
  const std::lock_guard lock(mutex);
  all->push_back(stream);
}

}  // namespace

std::shared_ptr<Context> Context::open(int device) { return std::make_shared<Context>(open_device(device)); }

Context::Context(OpenedDevice device) : device_(std::move(device)) {}

Context::~Context() { close(); }

Context::Call Context::enter() {
  if (!process_.is_this()) throw svp::Error(svp::made_by_the_parent("the runtime"));
  if (gate_.try_enter()) return Call(*this);
  throw svp::Error({.layer = svp::Layer::Driver,
                    .source = "runtime",
                    .outcome = wire::Outcome::Rejected,
                    .recoverable = false,
                    .next_step = "call initializeRuntime() again, and take streams and memory of that runtime",
                    .message = "the runtime of " + device_.name + " has ended"});
}

// A forked child leaves alone what its parent has.
void Context::close() noexcept {
  if (!gate_.close()) return;
  if (!process_.is_this()) {
    svp::keep_for_ever(std::move(device_.owner));
    svp::keep_for_ever(completions_);
    return;
  }
  const bool kept = svp::mutated(svp::HostMutant::FlexEnd);
  if (gate_.wait_until_empty(CallGate::Clock::now() + kCallsEnd) && !kept) {
    device_.owner.reset();
  } else {
    // A thread of the program waits inside, for example at the end of the process: what ends the process ends it.
    svp::keep_for_ever(std::move(device_.owner));
  }
  completions_->stop();
  closed_.set_value();
}

void Context::wait_until_closed() noexcept {
  if (process_.is_this()) closing_.wait_for(kCloseEnd);
}

svp::FlexStream& Context::stream(unsigned id) {
  std::atomic<svp::FlexStream*>& known = streams_[id];
  svp::FlexStream* stream = known.load(std::memory_order_acquire);
  if (stream == nullptr) {
    stream = &device_.runtime->stream(id);
    known.store(stream, std::memory_order_release);
  }
  return *stream;
}

RuntimeStream* Context::handle(unsigned id) {
  const Call call = enter();
  (void)call.stream(id);
  const std::lock_guard lock(mutex_);
  if (handles_[id] == nullptr) {
    handles_[id] = Access::new_stream(shared_from_this(), id);
    keep_for_the_process(handles_[id]);
  }
  return handles_[id];
}

RuntimeStream* Context::default_stream() { return handle(0); }

RuntimeStream* Context::next_stream(RuntimeStreamPriority priority) {
  unsigned id;
  {
    const std::lock_guard lock(mutex_);
    id = priority == RuntimeStreamPriority::HIGH ? high_stream(next_high_++) : low_stream(next_low_++);
  }
  return handle(id);
}

// An idle device does not look at its card by itself.
bool Context::device_failed() {
  svp::Device& device = device_.runtime->device();
  device.check();
  return device.health() >= svp::Health::NeedsReset && !svp::mutated(svp::HostMutant::FlexCardError);
}

bool Context::stream_failed(const svp::FlexStream& stream) {
  const auto error = stream.error();
  return error && !is_of_one_launch(*error) && !svp::mutated(svp::HostMutant::FlexStreamError);
}

// Of several threads that find the error one resets the stream, and each tells it.
void Context::tell_and_go_on(const Call& call, unsigned id, const svp::StreamError& error) {
  svp::FlexStream& stream = call.stream(id);
  const std::lock_guard lock(resetting_);
  const auto now = stream.error();
  if (now && is_of_one_launch(*now) && now->failure().launch == error.failure().launch) {
    stream.Reset();
    told_[id] = svp::explain_of_one_launch(error.failure(), stream.launched() - error.failure().launch);
    resets_[id].fetch_add(1, std::memory_order_release);
  }
  throw svp::Error(told_[id].value_or(error.info()));
}

void Context::tell_if_reset(unsigned id, std::uint64_t resets) {
  const std::lock_guard lock(resetting_);
  if (resets_[id].load(std::memory_order_acquire) != resets && told_[id]) throw svp::Error(*told_[id]);
}

bool Context::failed(unsigned id) {
  if (!process_.is_this() || !gate_.try_enter()) return true;
  const Call call(*this);
  return stream_failed(call.stream(id)) || device_failed();
}

bool Context::any_stream_failed() {
  const Call call = enter();
  if (device_failed()) return true;
  for (const auto& known : streams_) {
    const svp::FlexStream* stream = known.load(std::memory_order_acquire);
    if (stream != nullptr && stream_failed(*stream)) return true;
  }
  return false;
}

Place Context::place_of(const CompositeAddress* address, const Named& what) const {
  if (address == nullptr || address->chunks().empty()) {
    refuse(what.text().c_str(), "there is no memory", "allocate it first");
  }
  if (const auto& owned = Access::owned(*address)) {
    if (owned->allocator() != device_.runtime->shared_allocator()) {
      refuse(what.text().c_str(), "it is memory of a runtime that has ended", "allocate it again");
    }
    return {owned, 0, address->total_size()};
  }
  if (address->chunks().size() != 1)
    refuse(what.text().c_str(), "it is a view of several chunks", "give a view of one chunk");
  const Chunk& chunk = address->chunks().front();
  Place place = memory_->find(chunk.addr.region_id, chunk.addr.offset, chunk.size);
  if (place.allocation == nullptr) {
    refuse(what.text().c_str(),
           std::to_string(chunk.size) + " bytes from byte " + std::to_string(chunk.addr.offset) + " of segment " +
               std::to_string(chunk.addr.region_id) + " lie in no allocation",
           "allocate the memory, and keep its owner as long as the view");
  }
  if (!wire::is_aligned(place.offset, wire::kStickBytes)) {
    refuse(what.text().c_str(), "it begins inside of a stick", "begin at a multiple of 128 bytes");
  }
  return place;
}

}  // namespace flex::detail
