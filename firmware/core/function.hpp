// SPDX-License-Identifier: Apache-2.0
// One PCI function of the card as the firmware holds it: identity, window, queues, regions, streams, statistics. Only
// hart 0 touches it, except the region table during a launch (constant then) and the counters of its kernels.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "firmware/core/fault_table.hpp"
#include "firmware/core/packed_queue.hpp"
#include "firmware/core/region_table.hpp"
#include "firmware/core/slot_table.hpp"
#include "firmware/core/stream.hpp"
#include "shared/admin.hpp"
#include "shared/message.hpp"
#include "shared/virtio.hpp"
#include "shared/window.hpp"

namespace fw {

inline constexpr std::uint32_t kWholeFunction = ~std::uint32_t{0};
inline constexpr std::uint64_t kNever = ~std::uint64_t{0};  // of device ticks

// An admin command that waits: for a kernel to stop, or for memory to be scrubbed.
struct PendingAdmin {
  wire::AdminRequest request;
  std::uint64_t reply;  // window offset, checked
  std::uint16_t chain_id;
  std::uint16_t chain_slots;
  std::uint64_t mark;  // about a reset: answered when the target's count has come so far; of a stream: its incarnation
  bool used = false;
};

// Work of hart 0 for functions.
struct Served {
  std::uint64_t quanta = 0;  // turns in which a function had something done
  std::uint64_t bytes = 0;   // moved for transfers; summed, copied and cleared for launches
};

struct Function {
  wire::FunctionKind kind = wire::FunctionKind::Unbound;
  std::uint32_t index = 0;  // VF number
  std::uint32_t id = 0;     // place in Card::functions
  Place place;              // where it is bound, or was last
  std::uint64_t generation = 0;
  std::span<std::byte> window;

  // virtio device state (control_server)
  std::uint32_t device_status = 0;
  std::uint64_t driver_features = 0;
  std::uint32_t config_generation = 0;
  std::uint32_t control_read = 0;  // our side of both FIFOs: the shared words are only ever written
  std::uint32_t control_written = 0;
  bool reset_running = false;           // of the function or of a queue: waits for kernels to stop (reset.hpp)
  std::uint32_t reset_queue = 0;        // which one; kWholeFunction for the function
  bool reset_asked = false;             // by the driver, with …
  wire::Message reset_request{};        // … which is answered when it ends
  std::uint64_t reset_began = 0;        // device ticks
  bool reset_stopped = false;           // nothing of the old owner runs; what it held is released
  bool reset_charged = false;           // a driver was at work
  std::uint64_t resets_paid_until = 0;  // device ticks: see kResetTicks
  std::array<PackedQueue, wire::kQueueCount> queues;

  RegionTable regions;
  std::array<Stream, wire::kStreamsPerFunction> streams;
  StreamSet runnable;
  StreamSet launches_waiting;  // their head found no room on the cores; a launch that ends makes room for one
  bool checks_images = false;  // perhaps: some head's image is being summed (Block::image)
  BlockPool blocks;
  std::array<PendingAdmin, wire::kAdminSlots> pending_admin;
  std::uint32_t pending_admin_count = 0;

  wire::AdminReply::Values stats{};  // .stats
  std::uint64_t events_lost = 0;

  // What M is told of a function; its owner's resets do not touch it.
  std::uint64_t quota_bytes = 0;  // 0: none
  std::uint32_t weight = 1;       // of its turns: wire::kMaxWeight at most
  std::uint64_t violations = 0;   // since it was bound
  std::uint64_t violations_told = 0;
  wire::Status last_violation = wire::Status::None;
  std::uint64_t resets = 0;
  std::uint64_t stop_ticks = 0;  // of the last one

  unsigned quiet_looks = 0;  // of hart 0's loop, in a row

  // What hart 0 served to others while this function waited for its turn: since the last reset the most at a time.
  Served seen;         // Card::served when hart 0 looked at its rings last, or found that it began to wait
  Served most_waited;  // from there to a turn of its own

  FaultTable* faults = nullptr;       // the card's; set when the function is created
  std::uint32_t strikes = 0;          // boot word: a stream's time-outs before it is banned; 0: never
  std::uint64_t stalls_end = kNever;  // device ticks: when the first stalled transfer goes on or runs out of budget
  std::uint64_t reset_stall_end = kNever;  // likewise a stalled reset; kNever: not asked yet
  std::uint64_t ring_violations_told = 0;
  std::uint64_t ring_violations_told_at = kNever;  // Card::heartbeat: at once, but once a heartbeat

  bool bound() const { return !window.empty(); }
  bool running() const { return (device_status & wire::kStatusDriverOk) != 0; }
  bool crc_negotiated() const { return (driver_features & wire::kFeatureControlBlockCrc) != 0; }
  PackedQueue& queue(wire::Queue q) { return queues[q]; }
  wire::WindowHeader& header() { return *reinterpret_cast<wire::WindowHeader*>(window.data()); }
  template <typename T>
  T* at(std::uint64_t offset) {
    return reinterpret_cast<T*>(window.data() + offset);
  }
};

// Generation, streams, queues and status as after a reset: stream 0 open with incarnation 1 (protocol §4). M has none.
void reset_function_state(Function& function);

// Writes the fixed part of a window's header; the magic comes last, with release.
struct Identity {
  wire::FunctionKind kind;
  std::uint32_t index;
  unsigned slot;
  std::uint64_t generation;
};
void publish_header(std::span<std::byte> window, const Identity& identity, std::uint64_t boot_epoch);
inline void publish_header(Function& function, std::uint64_t boot_epoch) {
  publish_header(function.window, {function.kind, function.index, function.place.slot, function.generation},
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
