// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/function.hpp"
#include "firmware/mutants/mutants.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "firmware/hal/hart.hpp"
#include "shared/memory_order.hpp"
#include "shared/version.hpp"

namespace fw {

void Function::create(const Identity& identity, FaultTable& faults, EventGrants& grants, std::uint32_t timeout_limit,
                      std::uint64_t first_generation) {
  identity_ = identity;
  faults_ = &faults;
  timeout_limit_ = timeout_limit;
  generation_ = first_generation;
  regions.init(identity.kind);
  streams.init(identity.id, grants);
  buffers.init(first_generation);
  reset.init(identity.id);
}

void Function::close_rings() {
  device_status_ = 0;
  for (auto& queue : queues) queue.reset();
}

void Function::renew(bool keeps_rings) {
  ++generation_;
  if (!keeps_rings) close_rings();
  driver_features_ = 0;
  ++config_generation_;
  streams.reset(!manages());
  commands.forget();
  ring_violations = {};
  if (!mutated(Mutant::ClearStatistics)) counters_ = {};
  waiting.forget();
  events_lost_ = 0;
}

namespace {

void name_block(wire::WindowHeader::NamedBlock& entry, std::string_view name, wire::Block block) {
  std::memset(entry.name, 0, sizeof entry.name);
  std::memcpy(entry.name, name.data(), std::min(name.size(), sizeof entry.name - 1));
  entry.block = block;
}

}  // namespace

// The host looks at a header whenever it likes, so the words are stored one by one, and the magic is off meanwhile.
void publish_header(std::span<std::byte> window, const Identity& identity, std::uint64_t boot_epoch) {
  auto& header = *reinterpret_cast<wire::WindowHeader*>(window.data());
  wire::store_relaxed<std::uint64_t>(header.magic, 0);
  wire::full_fence();
  wire::WindowHeader fresh{};
  fresh.abi_version = wire::kAbiVersion;
  fresh.kind = identity.kind;
  fresh.function_index = identity.index;
  fresh.slot = identity.slot;
  fresh.generation = identity.generation;
  fresh.boot_epoch = boot_epoch;
  fresh.window_bytes = window.size();
  const struct {
    std::string_view name;
    wire::Block block;
  } blocks[] = {{"fifo to card", wire::kFifoToCard},
                {"fifo to host", wire::kFifoToHost},
                {"queues", wire::kQueueBlock},
                {"control blocks", wire::kControlBlocks},
                {"completions", wire::kCompletions},
                {"started", wire::kStartedSequences},
                {"admin requests", wire::kAdminRequests},
                {"admin replies", wire::kAdminReplies},
                {"events", wire::kEvents},
                {"trace", wire::kTraceRing},
                {"host memory", wire::host_memory(window.size())}};
  for (std::size_t i = 0; i < std::size(blocks); ++i) name_block(fresh.blocks[i], blocks[i].name, blocks[i].block);
  auto* to = reinterpret_cast<std::uint64_t*>(&header);
  const auto* from = reinterpret_cast<const std::uint64_t*>(&fresh);
  constexpr std::size_t kFixed = offsetof(wire::WindowHeader, heartbeat) / 8;
  constexpr std::size_t kBlocks = offsetof(wire::WindowHeader, blocks) / 8;
  wire::store_shared_words(to + 1, from + 1, kFixed - 1);
  wire::store_shared_words(to + kBlocks, from + kBlocks, sizeof fresh.blocks / 8);
  wire::store_release(header.magic, wire::kWindowMagic);
}

void clear_window_state(Function& function) {
  if (mutated(Mutant::ClearWindow)) return;
  wire::store_relaxed(function.header().device_status, std::uint32_t{0});
  wire::store_relaxed(function.header().events_lost, std::uint64_t{0});
  auto* started = function.at<std::uint64_t>(wire::kStartedSequences.offset);
  for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) wire::store_relaxed(started[s], std::uint64_t{0});
}

void post_event(Function& function, const wire::DeviceEvent& event) {
  PackedQueue& queue = function.queue(wire::kEventQueue);
  Chain chain;
  if (function.running() && queue.pop(chain)) {
    const bool usable = chain.well_formed && chain.readable.bytes == 0 && chain.writable.bytes >= sizeof event &&
                        wire::is_aligned(chain.writable.offset, wire::kStickBytes) &&
                        wire::kEvents.contains(chain.writable.offset, sizeof event);
    if (usable) {
      wire::store_shared_words(function.at<std::uint64_t>(chain.writable.offset),
                               reinterpret_cast<const std::uint64_t*>(&event), sizeof event / 8);
    } else {
      ++function.counters().ring_violations;
      note_violation(function, wire::Status::BadChain);
    }
    queue.push_used(chain.id, chain.slots, usable ? sizeof event : 0);
    if (usable) return;
  }
  const std::uint64_t lost = function.lose_event();
  if (function.bound()) wire::store_relaxed(function.header().events_lost, lost);
}

bool is_violation(wire::Outcome outcome, wire::Status status) {
  using wire::Status;
  if (outcome == wire::Outcome::Rejected) {
    const bool form_or_address = status >= Status::BadMagic && status < Status::UnknownStream;
    return form_or_address || (status < Status::Stopped && status != Status::Busy && status != Status::StreamPoisoned &&
                               status != Status::FunctionResetting);
  }
  return outcome == wire::Outcome::Fault && status >= Status::LoadFault && status <= Status::BadEnvironmentCall;
}

void note_violation(Function& function, wire::Status status) {
  if (mutated(Mutant::LogEachViolation)) hal::log("violation");
  function.violations.count(status);
}

void post_stream_event(Function& function, wire::EventKind kind, unsigned stream, wire::Status status,
                       std::uint64_t argument) {
  wire::DeviceEvent event{};
  event.kind = kind;
  event.stream = stream;
  event.incarnation = function.streams[stream].incarnation;
  event.status = status;
  event.time = hal::now();
  event.argument = argument;
  post_event(function, event);
}

void tell_ring_violations(Function& function) {
  const std::uint64_t violations = function.counters().ring_violations;
  if (!function.ring_violations.tell(violations)) return;
  wire::DeviceEvent event{};
  event.kind = wire::EventKind::RingViolation;
  event.status = wire::Status::BadChain;
  event.argument = violations;
  event.time = hal::now();
  post_event(function, event);
}

namespace {

// How often the doorbell is really reset level.
[[gnu::cold, gnu::noinline]] unsigned doorbells_after_faults(Function& function) {
  const auto shot = function.faults().occur(wire::FaultPoint::Doorbell, {.function = function.id()});
  if (!shot) return 1;
  return shot->action == wire::FaultAction::Suppress ? 0 : 2;
}

}  // namespace

void signal_doorbell(Function& function) {
  unsigned doorbells = 1;
  if (function.faults().armed(wire::FaultPoint::Doorbell)) [[unlikely]]
    doorbells = doorbells_after_faults(function);
  for (; doorbells != 0; --doorbells) hal::signal(function.place().doorbell, function.place().peer);
}

void notify(Function& function) {
  bool wanted = false;
  for (auto& queue : function.queues) wanted |= queue.active() && queue.take_notification();
  if (!wanted) return;
  ++function.counters().doorbells_signalled;
  signal_doorbell(function);
}

}  // namespace fw
