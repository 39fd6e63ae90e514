// SPDX-License-Identifier: Apache-2.0
// How a device ends: what counts as the end, who is told what, and the orderly detach.
#include <poll.h>

#include <new>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/device/device_impl.hpp"
#include "host_driver/transport/guarded.hpp"
#include "shared/virtio.hpp"

namespace svp {

void Device::Impl::note_failure(ErrorInfo error, OutstandingEnd how, Health health) {
  note_end(std::move(error), how, health, EndRecord::Written);
}

void Device::Impl::report_end(const ErrorInfo& error) const try {
  ras::report(error, where());
} catch (const std::bad_alloc&) {
  ras::report(error, {});  // there is no memory for the place's name
}

// The record comes before the states: whoever is told of the end finds it in the log.
void Device::Impl::note_end(ErrorInfo error, OutstandingEnd how, Health ended, EndRecord record) {
  const std::lock_guard lock(failure_mutex);
  if (failure_info) return;
  failure_info = std::move(error);
  outstanding_end = how;
  if (record == EndRecord::Written) report_end(*failure_info);
  set_health([ended](Health) { return std::optional(ended); });
  set_state(begin_failing);  // second: see health()
}

void Device::Impl::fail(ErrorInfo error, OutstandingEnd how, Health health) {
  note_failure(std::move(error), how, health);
  wake_all();
  (void)try_reap(false);  // else the holder of the lock has been told by missed
}

void Device::Impl::note_death() {
  if (failing(std::memory_order_acquire) || mutated(HostMutant::Death)) return;
  // A doorbell that hung up is often the first sign; who watches the process knows a moment later how it ended.
  if (pollfd entry{options.exit_fd.get(), POLLIN, 0}; entry.fd >= 0) {
    (void)::poll(&entry, 1, static_cast<int>(options.timeouts.death_report / std::chrono::milliseconds{1}));
  }
  ErrorInfo death = error_or_less(wire::Outcome::Lost, [&]() -> ErrorInfo {
    const std::string how = options.how_card_ended ? options.how_card_ended() : std::string();
    return {.layer = Layer::Emulator,
            .source = "emulator process",
            .outcome = wire::Outcome::Lost,
            .recoverable = options.restartable,
            .next_step = options.restartable ? "Context::recover() starts the card again, without what it held"
                                             : "start a new card",
            .message = how.empty() ? std::string("the card died") : "the card died: " + how};
  });
  note_end(std::move(death), OutstandingEnd::Died, Health::Dead,
           options.records_death ? EndRecord::Written : EndRecord::LeftToOwner);
}

void Device::Impl::note_violation(const std::string& what) {
  note_failure(
      error_or_less(wire::Outcome::Indeterminate,
                    [&]() -> ErrorInfo {
                      return {
                          .layer = Layer::Transport,
                          .source = "slot " + std::to_string(doorbells.slot().index()),
                          .outcome = wire::Outcome::Indeterminate,
                          .recoverable = false,
                          .next_step = "start a new card; keep this one's trace, its firmware broke the ring's rules",
                          .message = what};
                    }),
      OutstandingEnd::Unknown, Health::Dead);
}

namespace {

// A generation starts at boot epoch * 2^32: shown as two numbers it is easier to read, and cannot be taken for an
// address.
std::string generation_text(std::uint64_t generation) {
  return std::to_string(generation >> 32) + "." + std::to_string(generation & 0xFFFFFFFF);
}

}  // namespace

// Texts are made only for a card that was restarted: without memory for them it was restarted all the same.
void Device::Impl::check_health() try {
  if (failing(std::memory_order_relaxed)) return;
  const HeaderView header = window->header();
  const auto restarted = [&](std::string message, std::string next, Health health) {
    note_failure({.layer = Layer::Firmware,
                  .source = "slot " + std::to_string(doorbells.slot().index()),
                  .outcome = wire::Outcome::Indeterminate,
                  .recoverable = false,
                  .next_step = std::move(next),
                  .message = std::move(message)},
                 OutstandingEnd::Unknown, health);
  };
  const bool sees_restart = !mutated(HostMutant::Restart);
  if (sees_restart && header.boot_epoch != link.config.boot_epoch) {
    const std::string why = options.why_card_restarted ? options.why_card_restarted() : std::string();
    return restarted("the card was restarted: its boot epoch is " + std::to_string(header.boot_epoch) + ", it was " +
                         std::to_string(link.config.boot_epoch) + (why.empty() ? why : "; " + why),
                     "attach again (Context::recover() does)", Health::NeedsReset);
  }
  if (sees_restart && header.generation != link.config.generation) {
    return restarted("the function was reset by somebody else: its generation is " +
                         generation_text(header.generation) + ", it was " + generation_text(link.config.generation),
                     "attach again (Context::recover() does)", Health::NeedsReset);
  }
  if (sees_restart && (channel.needs_reset() || (header.device_status & wire::kStatusNeedsReset) != 0)) {
    return restarted("the card reports DEVICE_NEEDS_RESET",
                     "attach again (Context::recover() does): that resets the function", Health::NeedsReset);
  }
  const TimePoint now = Clock::now();
  const bool idle = blocks->outstanding() == 0 && admins->outstanding() == 0;
  if (std::exchange(last_heartbeat, header.heartbeat) != header.heartbeat || idle) last_beat = now;
  const bool quiet = now - last_beat > options.timeouts.silent;
  set_health([quiet = quiet && !mutated(HostMutant::Silence)](Health now_is) { return listened(now_is, quiet); });
} catch (const std::bad_alloc&) {
  note_failure(error_or_less(wire::Outcome::Indeterminate, []() -> ErrorInfo { throw std::bad_alloc(); }),
               OutstandingEnd::Unknown, Health::NeedsReset);
}

void Device::Impl::fail_outstanding() {
  if (outstanding_failed(std::memory_order_relaxed)) return;
  OutstandingEnd how;
  {
    const std::lock_guard lock(failure_mutex);
    how = outstanding_end;
  }
  const auto ended = blocks->close(how);
  admins->close();
  deliver(ended);
  set_state(end_failing);
  wake_followers();
}

Health Device::Impl::health() const {
  const bool ended = failing(std::memory_order_acquire);
  const Health seen = health_seen.get(std::memory_order_relaxed);
  return ended || seen == Health::Silent ? seen : Health::Alive;
}

std::optional<ErrorInfo> Device::Impl::failure() const {
  const std::lock_guard lock(failure_mutex);
  return failure_info;
}

ErrorInfo Device::Impl::failure_or(std::string message) const {
  if (auto known = failure()) return *std::move(known);
  return {.layer = Layer::Transport,
          .source = "slot " + std::to_string(doorbells.slot().index()),
          .outcome = wire::Outcome::Lost,
          .recoverable = false,
          .next_step = "start a new card",
          .message = std::move(message)};
}

void Device::Impl::detach() {
  if (!set_state(begin_detaching)) {
    // Another thread is at it. It waits for the loop's thread, and for whoever delivers: those do not wait for it.
    if (options.loop->on_loop_thread() || inside_sink()) return;
    wait_until_detached();
    return;
  }
  // First the loop's thread lets go of us: it has when these return.
  options.loop->unwatch(doorbell_watch);
  options.loop->unwatch(exit_watch);
  if (options.loop->on_loop_thread()) {
    tick_lifetime.reset();
  } else {
    options.loop->post([this] { tick_lifetime.reset(); });
    options.loop->flush();
  }
  const Claim claim(*this);
  let_go_of_function();
  if (card_trace) card_trace->drain();
  card_trace.reset();
  if (trace::Recorder* const recorder = trace::recorder()) recorder->close_card(trace_card);
  set_state([](DeviceState) { return std::optional(DeviceState::Detached); });
  state.notify_all();
  // It may hold what stands for the ownership of the function.
  options.how_card_ended = nullptr;
  options.why_card_restarted = nullptr;
  options.boot_codes_shown = nullptr;
  {
    const std::lock_guard lock(debugger_mutex);
    options.held_by_debugger = nullptr;
  }
  channel.watch_debugger(nullptr);
}

// At most Timeouts::detach, as the thread that detaches. It passes through the states in between.
void Device::Impl::wait_until_detached() const {
  for (DeviceState now = state.get(std::memory_order_acquire); now != DeviceState::Detached;
       now = state.get(std::memory_order_acquire)) {
    state.wait_while(now);
  }
}

void Device::Impl::let_go_of_function() {
  progress();
  if (outstanding_failed()) return;
  if (doorbells.sleep(options.exit_fd.get(), -1, Duration{0}).gone) note_death();
  check_health();
  OutstandingEnd how = OutstandingEnd::Died;
  if (!failing()) {
    how = OutstandingEnd::Unknown;
    channel.hurry(options.timeouts.detach);
    // The queue reset makes the card say how each block ended; what it never took was never started.
    const bool quiet = blocks->outstanding() == 0;
    if (quiet || channel.transact<wire::QueueIndex>(wire::MessageOp::ResetVirtqueue,
                                                    wire::QueueIndex{wire::kControlBlockQueue})) {
      how = OutstandingEnd::Removed;
      progress();
    }
  }
  note_end({.layer = Layer::Driver,
            .source = "device",
            .outcome = wire::Outcome::Aborted,
            .recoverable = false,
            .next_step = "attach again",
            .message = "the device was closed"},
           how, Health::Dead, EndRecord::NoError);
  fail_outstanding();
  if (how == OutstandingEnd::Died) return;
  (void)channel.transact<wire::StatusValue>(wire::MessageOp::SetDeviceStatus, wire::StatusValue{wire::kStatusReset});
}

}  // namespace svp
