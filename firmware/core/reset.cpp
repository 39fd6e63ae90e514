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

void begin_stream_reset(Card& card, Function& function, unsigned index, StreamState state) {
  Stream& stream = function.streams[index];
  if (stream.settling()) {  // joins what runs; a close is never taken back
    if (state == StreamState::Closing && stream.state() != state) function.streams.set_state(index, state);
    return;
  }
  ++stream.incarnation;
  stream.next_sequence = 1;
  function.streams.renew_timeline(index);
  function.streams.set_state(index, state);
  if (stream.phase == Stream::Phase::Computing) {
    // The head is completed when its kernel has stopped; then the queue behind it (launch_ended).
    card.launches.stop(stream.launch);
    return;
  }
  if (stream.phase == Stream::Phase::Moving) finish_head(function, index, Outcome::Fault, {Status::Stopped});
  if (stream.head == kNoBlock) return settle_stream_reset(function, index);
  // Its blocks end in steps of the stream, as many in each as a quantum has (run_streams).
  function.streams.withdraw_wait(index);
  function.streams.resume(index);
}

namespace {

// Whoever asked for an earlier reset is told that it will not be answered for itself.
void drop_request(Function& function) {
  const auto request = function.reset.take_request();
  if (request && function.bound()) respond_refused(function, *request);
}

// Of a mutant.
void reset_streams_of_others(Card& card, const Function& function) {
  for (Function& other : card.functions) {
    if (&other == &function || !other.running()) continue;
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
      const StreamState state = other.streams[s].state();
      if (state == StreamState::Open || state == StreamState::Poisoned) {
        begin_stream_reset(card, other, s, StreamState::Resetting);
      }
    }
  }
}

void quiesce(Card& card, Function& function) {
  function.next_generation();
  // The driver may see at once that its work is over.
  if (function.bound()) wire::store_release(function.header().generation, function.generation());
  function.reset.begin(hal::now(), function.running());
  if (!mutated(Mutant::ClearRings)) function.close_rings();
  // First: a revocation looks along the lists for each.
  if (!mutated(Mutant::ResetForgets)) function.streams.withdraw_all_waits();
  card.event_grants.revoke_function(function.id());
  function.streams.hold_all();
  card.traces.stop(function.id());
  card.launches.stop_all(function.id());
  card.plan.look_at(function);
  if (mutated(Mutant::ResetReaches)) reset_streams_of_others(card, function);
}

}  // namespace

void begin_function_reset(Card& card, Function& function) {
  if (function.reset.of_function() && !mutated(Mutant::JoinResets)) return;
  drop_request(function);
  quiesce(card, function);
  progress_resets(card, function);
}

void begin_driver_reset(Card& card, Function& function, const wire::Message& request) {
  drop_request(function);
  if (!function.reset.of_function() || mutated(Mutant::JoinResets)) quiesce(card, function);
  function.close_rings();
  function.reset.owe_answer(request);
  progress_resets(card, function);
}

void begin_queue_reset(Card& card, Function& function, std::uint32_t queue, const wire::Message& request) {
  function.reset.begin_queue(queue, request);
  // Their replies would go to a ring that is not there any more.
  if (queue == wire::kAdminQueue) {
    function.commands.forget();
    function.buffers.destroy_unfinished(card.spaces, function.id());
  }
  if (queue == wire::kControlBlockQueue && !mutated(Mutant::ResetStreams)) {
    function.streams.withdraw_all_waits();
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
      if (function.streams[s].state() == StreamState::Closed) continue;
      begin_stream_reset(card, function, s, StreamState::Resetting);
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
  card.spaces.forget(function.id());
  card.run_queues.forget(function.id());
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if (function.regions.granted(i).bytes == 0) continue;
    card.pool.release(function.regions.granted(i).base);
    if (!mutated(Mutant::ForgetRegions)) function.regions.remove(i);
  }
}

bool others_at_work(const Card& card, const Function& function) {
  return std::ranges::any_of(card.functions.tenants(), [&](const Function& other) {
    return &other != &function && (card.plan.busy(other) || card.launches.active(other.id()));
  });
}

void end_function_reset(Card& card, Function& function) {
  function.reset.count_one();
  if (mutated(Mutant::CountReset)) {
    for (Function& other : card.functions) {
      if (&other != &function) other.reset.count_one();
    }
  }
  hal::note(wire::RecordedEventKind::FunctionReset, function.id(), function.generation());
  const auto request = function.reset.take_request();
  function.reset.end();
  function.renew(mutated(Mutant::ClearRings));
  if (!function.bound()) return;
  publish_header(function, card.boot_epoch());
  clear_window_state(function);
  // The owner may have scribbled on it, and looks at it before anything else when it attaches again.
  wire::store_release(function.header().post_code, shown_post(card));
  if (request) {
    respond_status(function, *request);
  } else {
    send_config_event(function, wire::kStatusNeedsReset);
  }
}

bool progress_function_reset(Card& card, Function& function) {
  if (card.launches.active(function.id())) return false;
  const std::uint64_t now = hal::now();
  if (function.reset.state() == ResetState::Stopping) {
    if (card.faults.armed(wire::FaultPoint::FunctionReset)) [[unlikely]]
      if (reset_stalls(card, function, now)) return false;
    function.reset.release(now);
    release_everything(card, function);
  }
  if (function.bound() && !function.reset.pay(now, others_at_work(card, function))) return false;
  if (!mutated(Mutant::BuffersEnd) && !function.buffers.destroy_some(card.spaces, function.id())) return true;
  end_function_reset(card, function);
  return true;
}

bool progress_queue_reset(Card& card, Function& function) {
  const std::uint32_t queue = function.reset.queue();
  // Only the control-block queue has kernels behind it. When they have stopped, their streams are settled by the
  // dispatcher as it collects the launches.
  if (queue == wire::kControlBlockQueue && !mutated(Mutant::ResetStreams)) {
    if (card.launches.active(function.id())) return false;
    for (const Stream& stream : function.streams) {
      if (stream.settling()) return false;
    }
  }
  const auto request = function.reset.take_request();
  function.reset.end();
  notify(function);
  function.queues[queue].reset();
  if (request) respond_queue(function, *request, queue);
  return true;
}

}  // namespace

bool progress_resets(Card& card, Function& function) {
  if (!function.reset.running()) return false;
  hal::mark(wire::Waypoint::Reset);
  return function.reset.of_function() ? progress_function_reset(card, function) : progress_queue_reset(card, function);
}

}  // namespace fw
