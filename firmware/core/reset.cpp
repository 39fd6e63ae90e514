// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/reset.hpp"

#include <algorithm>

#include "firmware/core/card.hpp"
#include "firmware/core/control_server.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/memory_order.hpp"

namespace fw {

using wire::Outcome;
using wire::Status;

void begin_stream_reset(Card& card, Function& function, unsigned index, Stream::State state) {
  Stream& stream = function.streams[index];
  if (stream.settling()) {  // joins what runs; a close is never taken back
    if (state == Stream::State::Closing) stream.state = state;
    return;
  }
  ++stream.incarnation;
  stream.next_sequence = 1;
  stream.state = state;
  if (stream.phase == Stream::Phase::Computing) {
    // The head is completed when its kernel has stopped; then the queue behind it (launch_ended).
    stream.poisoned = true;
    card.launches.stop(stream.launch);
    return;
  }
  if (stream.phase == Stream::Phase::Moving) finish_head(function, index, Outcome::Fault, {Status::Stopped});
  settle_stream_reset(function, index);
}

namespace {

// Whoever asked for an earlier reset hears that it will not be answered for itself.
void drop_request(Function& function) {
  if (function.reset_asked && function.bound()) respond_refused(function, function.reset_request);
  function.reset_asked = false;
}

void close_rings(Function& function) {
  function.device_status = 0;
  for (auto& queue : function.queues) queue.reset();
}

void quiesce(Card& card, Function& function) {
  ++function.generation;
  // The driver may see at once that its work is over.
  if (function.bound()) wire::store_release(function.header().generation, function.generation);
  function.reset_running = true;
  function.reset_queue = kWholeFunction;
  function.reset_began = hal::now();
  function.reset_stopped = false;
  function.reset_stall_end = kNever;
  function.reset_charged = function.running();
  if (!mutated(Mutant::ClearRings)) close_rings(function);
  function.runnable = StreamSet{};
  card.launches.stop_all(function.id);
  card.look_at(function);
  if (!mutated(Mutant::ResetReaches)) return;
  for (Function& other : card.functions) {
    if (other.id == function.id || !other.running()) continue;
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
      if (other.streams[s].state == Stream::State::Open) {
        begin_stream_reset(card, other, s, Stream::State::Resetting);
      }
    }
  }
}

}  // namespace

void begin_function_reset(Card& card, Function& function) {
  const bool joins = function.reset_running && function.reset_queue == kWholeFunction;
  if (joins && !mutated(Mutant::JoinResets)) return;
  drop_request(function);
  quiesce(card, function);
  progress_resets(card, function);
}

void begin_driver_reset(Card& card, Function& function, const wire::Message& request) {
  drop_request(function);
  const bool joins = function.reset_running && function.reset_queue == kWholeFunction;
  if (!joins || mutated(Mutant::JoinResets)) quiesce(card, function);
  close_rings(function);
  function.reset_asked = true;
  function.reset_request = request;
  progress_resets(card, function);
}

void begin_queue_reset(Card& card, Function& function, std::uint32_t queue, const wire::Message& request) {
  function.reset_running = true;
  function.reset_queue = queue;
  function.reset_asked = true;
  function.reset_request = request;
  if (queue == wire::kAdminQueue) {
    // Their replies would go to a ring that is not there any more.
    for (auto& pending : function.pending_admin) pending.used = false;
    function.pending_admin_count = 0;
  }
  if (queue == wire::kControlBlockQueue && !mutated(Mutant::ResetStreams)) {
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
      if (function.streams[s].state == Stream::State::Closed) continue;
      begin_stream_reset(card, function, s, Stream::State::Resetting);
    }
  }
  progress_resets(card, function);
}

namespace {

// Of a mutant.
void clear_others(Card& card, const Function& function) {
  for (const Function& other : card.functions) {
    for (unsigned i = 0; i < wire::kRegionsPerFunction && &other != &function; ++i) {
      const auto& grant = other.regions.granted(i);
      if (grant.bytes != 0) hal::fill(hal::pointer(grant.base), 0, wire::kStickBytes);
    }
  }
}

void release_everything(Card& card, Function& function) {
  if (mutated(Mutant::ReleaseReaches)) clear_others(card, function);
  card.spaces.forget(function.id);
  card.run_queues.forget(function.id);
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if (function.regions.granted(i).bytes == 0) continue;
    card.pool.release(function.regions.granted(i).base);
    if (!mutated(Mutant::ForgetRegions)) function.regions.remove(i);
  }
}

bool others_at_work(const Card& card, const Function& function) {
  for (std::uint32_t f = kPhysical; f < card.function_count; ++f) {
    if (f == function.id) continue;
    if ((card.busy_functions >> f & 1) != 0 || card.launches.active(f)) return true;
  }
  return false;
}

// Each reset is paid for with kResetTicks, and credit is given for kResetsInARow of them.
bool may_end(const Card& card, Function& function, std::uint64_t now) {
  if (!function.bound() || !function.reset_charged) return true;
  const bool in_debt = function.resets_paid_until + kResetTicks > now + kResetsInARow * kResetTicks;
  if (in_debt && others_at_work(card, function)) return false;
  if (!in_debt) function.resets_paid_until = std::max(function.resets_paid_until, now) + kResetTicks;
  return true;
}

void end_function_reset(Card& card, Function& function) {
  ++function.resets;
  if (mutated(Mutant::CountReset)) {
    for (Function& other : card.functions) other.resets += &other != &function ? 1 : 0;
  }
  hal::note(wire::RecordedEventKind::FunctionReset, function.id, function.generation);
  const bool asked = function.reset_asked;
  const wire::Message request = function.reset_request;
  function.reset_running = function.reset_asked = false;
  const auto [status, queues] = std::pair(function.device_status, function.queues);
  reset_function_state(function);
  if (mutated(Mutant::ClearRings)) {
    function.device_status = status;
    function.queues = queues;
  }
  if (!function.bound()) return;
  publish_header(function, card.boot_epoch);
  clear_window_state(function);
  // The owner may have scribbled on it, and looks at it before anything else when it attaches again.
  wire::store_release(function.header().post_code, shown_post(card));
  if (asked) {
    respond_status(function, request);
  } else {
    send_config_event(function, wire::kStatusNeedsReset);
  }
}

}  // namespace

bool progress_resets(Card& card, Function& function) {
  if (!function.reset_running) return false;
  hal::mark(wire::Waypoint::Reset);
  if (function.reset_queue == kWholeFunction) {
    if (card.launches.active(function.id)) return false;
    const std::uint64_t now = hal::now();
    if (!function.reset_stopped) {
      if (card.faults.armed(wire::FaultPoint::FunctionReset)) [[unlikely]]
        if (reset_stalls(card, function, now)) return false;
      function.reset_stall_end = kNever;
      function.reset_stopped = true;
      function.stop_ticks = now - function.reset_began;
      release_everything(card, function);
    }
    if (!may_end(card, function, now)) return false;
    end_function_reset(card, function);
    return true;
  }
  // Only the control-block queue has kernels behind it. When they have stopped, their streams are settled by the
  // dispatcher as it collects the launches.
  if (function.reset_queue == wire::kControlBlockQueue && !mutated(Mutant::ResetStreams)) {
    if (card.launches.active(function.id)) return false;
    for (const Stream& stream : function.streams) {
      if (stream.settling()) return false;
    }
  }
  function.reset_running = function.reset_asked = false;
  notify(function);
  function.queues[function.reset_queue].reset();
  respond_queue(function, function.reset_request, function.reset_queue);
  return true;
}

}  // namespace fw
