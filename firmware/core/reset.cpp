// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/reset.hpp"

#include "firmware/core/card.hpp"
#include "firmware/core/control_server.hpp"
#include "firmware/core/dispatcher.hpp"
#include "shared/memory_order.hpp"

namespace fw {

using abi::Outcome;
using abi::Status;

void begin_stream_reset(Card& card, Function& function, unsigned index) {
  Stream& stream = function.streams[index];
  ++stream.incarnation;
  stream.next_sequence = 1;
  stream.resetting = true;
  if (stream.phase == Stream::Phase::Computing) {
    // The head is completed when its kernel has stopped; then the queue behind it (launch_ended).
    stream.poisoned = true;
    card.cores.stop(function, index);
    return;
  }
  if (stream.phase == Stream::Phase::Moving) finish_head(function, index, Outcome::Fault, {Status::Stopped});
  while (stream.head != kNoBlock) finish_head(function, index, Outcome::Aborted, {Status::Stopped});
  stream.poisoned = false;
  stream.resetting = false;
  function.runnable.remove(index, stream.high_priority);
}

void begin_function_reset(Card& card, Function& function, const abi::Message& request) {
  ++function.generation;
  function.reset_running = true;
  function.reset_queue = kWholeFunction;
  function.reset_request = request;
  function.device_status = 0;
  function.runnable = RunnableStreams{};
  for (auto& queue : function.queues) queue.reset();
  card.cores.stop(function);
  progress_resets(card, function);
}

void begin_queue_reset(Card& card, Function& function, std::uint32_t queue, const abi::Message& request) {
  function.reset_running = true;
  function.reset_queue = queue;
  function.reset_request = request;
  if (queue == abi::kControlBlockQueue) {
    for (unsigned s = 0; s < abi::kStreamsPerFunction; ++s) {
      if (function.streams[s].open) begin_stream_reset(card, function, s);
    }
  }
  progress_resets(card, function);
}

namespace {

void release_everything(Card& card, Function& function) {
  card.cores.forget(function);
  for (unsigned i = 0; i < abi::kRegionsPerFunction; ++i) {
    if (function.regions.at(i).bytes == 0) continue;
    card.pool.release(function.regions.at(i).base);
    function.regions.remove(i);
  }
}

void end_function_reset(Card& card, Function& function) {
  release_everything(card, function);
  const abi::Message request = function.reset_request;
  function.reset_running = false;
  reset_function_state(function);
  publish_header(function, card.boot_epoch);
  abi::store_relaxed(function.header().device_status, std::uint32_t{0});
  abi::store_relaxed(function.header().events_lost, std::uint64_t{0});
  auto* started = function.at<std::uint64_t>(abi::kStartedSequences.offset);
  for (unsigned s = 0; s < abi::kStreamsPerFunction; ++s) abi::store_relaxed(started[s], std::uint64_t{0});
  respond_status(function, request);
}

}  // namespace

bool progress_resets(Card& card, Function& function) {
  if (!function.reset_running || card.cores.active(function)) return false;
  if (function.reset_queue == kWholeFunction) {
    end_function_reset(card, function);
    return true;
  }
  // Kernels have stopped, but their streams are settled by the dispatcher when it collects the launches.
  for (const Stream& stream : function.streams) {
    if (stream.resetting) return false;
  }
  function.reset_running = false;
  notify(function);
  function.queues[function.reset_queue].reset();
  respond_queue(function, function.reset_request, function.reset_queue);
  return true;
}

}  // namespace fw
