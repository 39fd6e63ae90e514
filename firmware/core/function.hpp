// SPDX-License-Identifier: Apache-2.0
// One PCI function of the card as the firmware holds it: identity, window, queues, regions, streams, statistics. Only
// hart 0 touches it, except the region table during a launch (constant then) and the counters of its kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "firmware/core/command_buffers.hpp"
#include "firmware/core/fault_table.hpp"
#include "firmware/core/function_reset.hpp"
#include "firmware/core/packed_queue.hpp"
#include "firmware/core/pending_commands.hpp"
#include "firmware/core/region_table.hpp"
#include "firmware/core/slot_table.hpp"
#include "firmware/core/stream_table.hpp"
#include "firmware/core/violations.hpp"
#include "shared/admin.hpp"
#include "shared/message.hpp"
#include "shared/virtio.hpp"
#include "shared/window.hpp"

namespace fw {

// Work of hart 0 for functions.
struct Served {
  std::uint64_t quanta = 0;  // iterations in which a function had something done
  std::uint64_t bytes = 0;   // moved for transfers; summed, copied and cleared for launches
};

// What hart 0 served to others while a function waited for its quantum.
class Waiting {
 public:
  // It has nothing to do, or was served: whatever is served to others from now on, it has not waited for.
  void seen(const Served& served) { seen_ = served; }
  // It is found to have something: it waits for its quantum from now on, for bytes from when it was looked at last.
  void begins(const Served& served) { seen_.quanta = served.quanta; }
  // It was served; `before` was served to all when its quantum began.
  void ends(const Served& before) {
    most_.quanta = std::max(most_.quanta, before.quanta - seen_.quanta);
    most_.bytes = std::max(most_.bytes, before.bytes - seen_.bytes);
  }
  // Since the last reset the most at a time.
  const Served& most() const { return most_; }
  void forget() { most_ = {}; }

 private:
  Served seen_;
  Served most_;
};

// Our side of the control FIFOs of a window: the shared words are only ever written.
struct ControlCursors {
  std::uint32_t read = 0;
  std::uint32_t written = 0;
};

class Function {
 public:
  // ---- parts: each keeps its own promises

  RegionTable regions;
  std::array<PackedQueue, wire::kQueueCount> queues;
  StreamTable streams;
  CommandBuffers buffers;
  PendingCommands commands;
  FunctionReset reset;
  Violations violations;
  RingViolations ring_violations;
  Waiting waiting;
  ControlCursors control;

  // ---- who it is

  struct Identity {
    std::uint32_t id;  // place in Card::functions
    wire::FunctionKind kind;
    std::uint32_t index;  // VF number
  };
  // Once, before everything else; it has no slot yet. `timeout_limit`: a stream's time-outs before it is banned; 0:
  // never. No generation below `first_generation` was its own in this boot or comes back.
  void create(const Identity& identity, FaultTable& faults, EventGrants& grants, std::uint32_t timeout_limit,
              std::uint64_t first_generation);
  std::uint32_t id() const { return identity_.id; }
  wire::FunctionKind kind() const { return identity_.kind; }
  std::uint32_t index() const { return identity_.index; }
  bool manages() const { return identity_.kind == wire::FunctionKind::Management; }
  FaultTable& faults() const { return *faults_; }
  std::uint32_t timeout_limit() const { return timeout_limit_; }

  // ---- where it is reached

  void bind(const Place& place, std::span<std::byte> window) {
    place_ = place;
    window_ = window;
  }
  void unbind() { window_ = {}; }
  bool bound() const { return !window_.empty(); }
  const Place& place() const { return place_; }  // where it is bound, or was last
  std::span<std::byte> window() const { return window_; }
  wire::WindowHeader& header() { return *reinterpret_cast<wire::WindowHeader*>(window_.data()); }
  template <typename T>
  T* at(std::uint64_t offset) {
    return reinterpret_cast<T*>(window_.data() + offset);
  }

  // ---- what its driver has made of it (VIRTIO 1.4 §2.1)

  std::uint64_t generation() const { return generation_; }
  void next_generation() { ++generation_; }
  std::uint32_t device_status() const { return device_status_; }
  bool has_status(std::uint32_t bits) const { return (device_status_ & bits) != 0; }
  // NEEDS_RESET is the device's: a driver can neither set nor clear it.
  void set_driver_status(std::uint32_t wanted) {
    constexpr std::uint32_t kNeedsReset = wire::kStatusNeedsReset;
    device_status_ = (wanted & ~kNeedsReset) | (device_status_ & kNeedsReset);
  }
  void need_reset() { device_status_ |= wire::kStatusNeedsReset; }
  bool running() const { return has_status(wire::kStatusDriverOk); }
  std::uint64_t features() const { return driver_features_; }
  bool has_feature(std::uint64_t feature) const { return (driver_features_ & feature) != 0; }
  void accept_features(std::uint64_t bits) { driver_features_ = bits; }
  bool crc_negotiated() const { return has_feature(wire::kFeatureControlBlockCrc); }
  std::uint32_t config_generation() const { return config_generation_; }
  PackedQueue& queue(wire::Queue q) { return queues[q]; }
  // No driver: status 0 and no rings.
  void close_rings();

  // Generation, streams, queues and status as after a reset: stream 0 open with incarnation 1 (protocol §4). M has
  // none. `keeps_rings`: of a mutant.
  void renew(bool keeps_rings = false);

  // ---- counters and limits

  using Counters = decltype(wire::AdminReply::Values::stats);
  Counters& counters() { return counters_.stats; }
  const Counters& counters() const { return counters_.stats; }
  const wire::AdminReply::Values& counters_on_the_wire() const { return counters_; }
  std::uint64_t lose_event() { return ++events_lost_; }
  // What its transfers cost hart 0, in bytes of a copy: what a quantum is charged with.
  void charge(std::uint64_t bytes) { charged_ += bytes; }
  std::uint64_t charged() const { return charged_; }

  // Set by M or the PF; the owner's resets do not touch them.
  std::uint64_t quota_bytes() const { return quota_bytes_; }  // 0: none
  void set_quota(std::uint64_t bytes) { quota_bytes_ = bytes; }
  std::uint32_t weight() const { return weight_; }  // of its quanta: 1 … wire::kMaxWeight
  void set_weight(std::uint32_t weight) { weight_ = weight; }

  // Looks of hart 0's loop in a row that found nothing: true from the `limit`th on.
  bool quiet_again(unsigned limit) { return ++quiet_looks_ >= limit; }
  void not_quiet() { quiet_looks_ = 0; }

 private:
  Identity identity_{0, wire::FunctionKind::Unbound, 0};
  FaultTable* faults_ = nullptr;
  std::uint32_t timeout_limit_ = 0;
  Place place_;
  std::span<std::byte> window_;
  std::uint64_t generation_ = 0;
  std::uint32_t device_status_ = 0;
  std::uint64_t driver_features_ = 0;
  std::uint32_t config_generation_ = 0;
  wire::AdminReply::Values counters_{};  // .stats
  std::uint64_t events_lost_ = 0;
  std::uint64_t charged_ = 0;
  std::uint64_t quota_bytes_ = 0;
  std::uint32_t weight_ = 1;
  unsigned quiet_looks_ = 0;
};

// Writes the fixed part of a window's header; the magic comes last, with release.
struct Identity {
  wire::FunctionKind kind;
  std::uint32_t index;
  unsigned slot;
  std::uint64_t generation;
};
void publish_header(std::span<std::byte> window, const Identity& identity, std::uint64_t boot_epoch);
inline void publish_header(Function& function, std::uint64_t boot_epoch) {
  publish_header(function.window(), {function.kind(), function.index(), function.place().slot, function.generation()},
                 boot_epoch);
}

// The words of a window that count or tell the present state, as after a reset.
void clear_window_state(Function& function);

// Posts an event to the driver; without a buffer it is counted in the header, never waited for.
void post_event(Function& function, const wire::DeviceEvent& event);

// The function did what it may not, or tried to: counted, and told to M by the next heartbeat.
void note_violation(Function& function, wire::Status status);
// Whether an ending of a control block or a command is one. Running out of something is not, nor being stopped.
bool is_violation(wire::Outcome outcome, wire::Status status);

// About a stream as it is now.
void post_stream_event(Function& function, wire::EventKind kind, unsigned stream, wire::Status status,
                       std::uint64_t argument = 0);

// The driver broke its rings: one event for all that was found since the last one.
void tell_ring_violations(Function& function);

// Rings the function's doorbell when a queue that got something asks for it.
void notify(Function& function);
// Every doorbell to a host goes through here.
void signal_doorbell(Function& function);

}  // namespace fw
