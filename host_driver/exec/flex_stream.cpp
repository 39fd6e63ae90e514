// SPDX-License-Identifier: Apache-2.0
#include "host_driver/exec/flex_stream.hpp"

#include <optional>
#include <string>

#include "host_driver/exec/launch_plan.hpp"
#include "host_driver/exec/runtime.hpp"
#include "host_driver/exec/stream_channel.hpp"
#include "shared/timeouts.hpp"

namespace flex {
namespace {

void check_loaded(const Job& job, const FlexAllocator& allocator) {
  if (job.program() == nullptr) {
    throw InvalidArgument("job", "the binary of kernel " + job.binary()->name() + " is not loaded",
                          "ExecutionPlan::load() it first");
  }
  if (job.program()->allocator().get() != &allocator) {
    throw InvalidArgument("job", "kernel " + job.binary()->name() + " is loaded on another device",
                          "load the plan on this device");
  }
}

}  // namespace

FlexStream::FlexStream(Runtime& runtime, StreamChannel& channel) : runtime_(runtime), channel_(channel) {}

std::uint32_t FlexStream::stream_index() const { return channel_.stream(); }

std::uint64_t FlexStream::Launch(const Job& job, std::span<const Argument> arguments, bool allow_tiled_launch) {
  return Launch(job, arguments, LaunchOptions{.allow_tiled_launch = allow_tiled_launch});
}

std::uint64_t FlexStream::Launch(const Job& job, std::span<const Argument> arguments, const LaunchOptions& options) {
  runtime_.require_own_process();
  (void)runtime_.mend(channel_);
  // What is looked up from here on is not used on another device: reserve() compares.
  const std::uint64_t recoveries = channel_.recoveries();
  const FlexAllocator& allocator = runtime_.allocator();
  std::optional<BoundOperands> operands;
  std::uint32_t walks = 1;
  if (job.binary() != nullptr) {
    check_loaded(job, allocator);
    operands.emplace(allocator, job, arguments, options.allow_tiled_launch);
    walks = operands->tiling().iterations;
  } else if (!arguments.empty()) {
    throw InvalidArgument("arguments", "a job of transfers takes no operands", "launch it without");
  }
  const JobPlan& plan = job.job_plan();
  StreamChannel::Reservation reservation(channel_);
  channel_.reserve(reservation,
                   {plan.blocks_per_walk(), plan.correction_at(), job.program_correction_metadata().max_bytes}, walks,
                   recoveries);
  const LaunchSite site = runtime_.launch_site(channel_.stream());
  Unit* unit = reservation.units.head;
  for (std::uint32_t tile = 0; tile < walks; ++tile) {
    unit = write_walk(site, job, operands ? &*operands : nullptr, tile, options, unit);
  }
  reservation.launch->observer = options.observer;
  reservation.launch->kernel = job.binary().get();
  reservation.launch->program = job.program();
  reservation.launch->keep_alive = options.keep_alive;
  return channel_.commit(reservation);
}

// What recovers by itself (RecoveryPolicy::Recover) does so here, and waits for what it has sent again.
bool FlexStream::wait(std::uint64_t target, Clock::time_point deadline) {
  bool ended = false;
  do {
    ended = channel_.wait(target, deadline);
  } while (runtime_.mend(channel_));
  return ended;
}

void FlexStream::Synchronize() {
  runtime_.require_own_process();
  const std::uint64_t recoveries = channel_.recoveries();
  const std::uint64_t target = channel_.launched();
  while (!wait(target, Clock::now() + kLookAround)) {
  }
  if (const auto error = channel_.take_error(recoveries)) throw *error;
}

void FlexStream::Synchronize(Clock::time_point deadline) {
  runtime_.require_own_process();
  const std::uint64_t recoveries = channel_.recoveries();
  const std::uint64_t target = channel_.launched();
  if (!wait(target, deadline)) {
    throw TimeoutError({.layer = Layer::Driver,
                        .culprit = "stream " + std::to_string(stream_index()),
                        .outcome = wire::Outcome::Timeout,
                        .next_step = "wait again, or Reset() the stream",
                        .message = "launch " + std::to_string(channel_.ended() + 1) + " of " + std::to_string(target) +
                                   " had not ended by the deadline"});
  }
  if (const auto error = channel_.take_error(recoveries)) throw *error;
}

bool FlexStream::Query() {
  runtime_.require_own_process();
  const std::uint64_t target = channel_.launched();
  if (channel_.ended() >= target) return true;
  channel_.poll();
  (void)runtime_.mend(channel_);
  return channel_.ended() >= target;
}

void FlexStream::Reset() {
  runtime_.require_own_process();
  if (auto result = channel_.reset(); !result) throw Error(std::move(result.error()));
}

std::optional<StreamError> FlexStream::error() const {
  runtime_.require_own_process();
  return channel_.error();
}

}  // namespace flex
