// SPDX-License-Identifier: Apache-2.0
// svp::Device: one function of a card, attached. Submit control blocks, get exactly one typed outcome each.
//
//   auto device = Device::attach(std::move(slot), std::move(options));        // bring-up to DRIVER_OK
//   auto stream = (*device)->open_stream(StreamPriority::Low);
//   auto accepted = (*device)->submit(*stream, requests);                     // never blocks
//   (*device)->wait_until([&] { return sink.done(); }, deadline);             // reaps meanwhile
//
// Threading: every member may be called from any thread, except inside sinks (see completion_sink.hpp). No lock is held
// while a sink runs but the reaping lock, which submit() never takes.
// Progress: a thread that waits reaps for all; when none waits, the event loop does, woken by the card's doorbell. No
// call is needed to make completions arrive.
// fork(): a child that does not exec has no window, and none of the threads. Every call on its copy is refused with a
// typed error, and destroying the copy touches nothing; the parent does not notice.
// End of the card: when the emulator dies, its epoch changes or it breaks the protocol, completions that it had
// published are delivered first; then every outstanding block ends LOST (its stream had not started it) or
// INDETERMINATE, every waiter returns, and every later call fails at once with the same error (failure()).
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <spyre/options.hpp>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/device/after_delivery.hpp"
#include "host_driver/device/completion_sink.hpp"
#include "host_driver/device/device_options.hpp"
#include "host_driver/memory/region.hpp"
#include "host_driver/ras/record.hpp"
#include "host_driver/transport/slot_handle.hpp"
#include "host_driver/transport/window_identity.hpp"
#include "shared/admin.hpp"
#include "shared/control_block.hpp"
#include "shared/message.hpp"

namespace svp {

// A control block to submit. The caller sets opcode, flags, budget and cookie of the header, and the payload; the
// device fills in magic, sticks, stream, incarnation, generation, sequence and checksum in its own copy. Only the
// sticks that the opcode needs are read (a NOP: the first one), during the call only. An opcode of unknown size is sent
// as one stick.
struct ControlBlockRequest {
  const wire::ControlBlock* block = nullptr;
  CompletionSink* sink = nullptr;  // exists until it was called
};

using spyre::StreamPriority;

// Numbers never change meaning. Silent: work is outstanding and the heartbeat has not moved for
// Timeouts::silent. It may come back by itself; nothing has been given up.
enum class Health : std::uint8_t { Alive = 0, Silent = 1, NeedsReset = 2, Dead = 3 };

enum class WaitStatus : std::uint8_t {
  Done,      // the condition holds
  TimedOut,  // the deadline passed; nothing has been given up
  Failed,    // the card is gone and the condition still does not hold; failure() says why
  Refused,   // called from inside a sink
};

// What the driver counted since attach (card_statistics(): what the card counted).
struct DeviceStatistics {
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;  // with any outcome
  std::uint64_t doorbells_signalled = 0;
  std::uint64_t doorbells_suppressed = 0;
  std::uint64_t spin_waits = 0;  // waits that ended while spinning
  std::uint64_t sleeps = 0;      // of waiting threads
  std::uint64_t loop_reaps = 0;  // completions found by the event loop
  std::uint64_t late_finds = 0;  // work found by a timer although no doorbell had come
  std::uint64_t stale_responses = 0;
  std::uint64_t events = 0;                       // device events received
  std::uint64_t doorbells_dropped_to_card = 0;    // by FaultHooks
  std::uint64_t doorbells_dropped_from_card = 0;  // likewise
};

class Device {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  // Maps the window, brings the function up (bring_up.hpp) and starts to listen. At most Timeouts::post_progress
  // without a sign of progress. Errors name the bring-up step, the POST code and the next step.
  static Expected<std::unique_ptr<Device>> attach(SlotHandle slot, DeviceOptions options);

  // close(). No other thread may be inside a member.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Lets go of the function: resets it (bounded: Timeouts::detach) unless the card is gone. Published completions are
  // delivered first, then outstanding blocks end ABORTED (the card said that they never started), LOST or INDETERMINATE
  // before this returns. Other threads may be inside members: they return, and every later call fails with failure().
  // The function may be attached again at once, also while this object still exists. Idempotent.
  void close();

  // ---- the card as attached -----------------------------------------------------------------------------------------
  const wire::DeviceConfig& config() const;
  std::uint64_t features() const;
  const Timeouts& timeouts() const;
  // What DMA can reach: the host-memory block as mapped here, and where it starts in the window. The mapping stays as
  // long as anybody holds `mapping()`, also beyond the device.
  std::span<std::byte> host_memory() const;
  std::uint64_t host_memory_offset() const;
  std::shared_ptr<void> mapping() const;
  // Two devices with the same one share their host memory, byte by byte: an owner that attaches again keeps it.
  WindowIdentity window_identity() const;

  // ---- control blocks -----------------------------------------------------------------------------------------------
  // Takes as many of `requests`, from the front, as the stream has credits (wire::kStreamCredits outstanding at most)
  // and the ring has room; returns that number. Publishes them with one release and rings at most one doorbell. Never
  // blocks, never calls a sink. When it takes fewer than given, the stream's CreditSink is called once there is room
  // again. Errors: stream not open, stream being reset or closed, card gone. Nothing was taken then.
  Expected<std::size_t> submit(std::uint32_t stream, std::span<const ControlBlockRequest> requests);

  // The same with every byte of the blocks as the caller wrote it (header.sticks, capped to 1–4, says how much is
  // sent): what a conformance test refuses blocks with. The card decides; the caller resets the stream afterwards.
  Expected<std::size_t> submit_verbatim(std::uint32_t stream, std::span<const ControlBlockRequest> requests);

  // Blocks of the stream that hold a credit: accepted, and not taken from the ring yet. A snapshot; their sinks are
  // called right after, so 0 does not mean that the last call has returned.
  std::size_t outstanding(std::uint32_t stream) const;

  // Set it before the first submit(). Null removes. When it returns, the previous sink is not running and will not be
  // called again (from inside a sink: is not called again).
  void set_credit_sink(std::uint32_t stream, CreditSink* sink);

  // ---- waiting ------------------------------------------------------------------------------------------------------
  // Returns when `done()` is true, the deadline passed or the card is gone. Reaps while it waits: spins for a budget
  // that adapts, then sleeps. `done` is called often, by this thread only, with no lock held but the reaping one: it
  // must be cheap, must not block and may read what sinks write with atomics. The deadline is looked at while sleeping
  // and every few spins.
  template <std::predicate Condition>
  WaitStatus wait_until(Condition&& done, TimePoint deadline) {
    return wait_for_condition(
        {[](void* context) {
           return static_cast<bool>((*static_cast<std::remove_reference_t<Condition>*>(context))());
         },
         const_cast<void*>(static_cast<const void*>(&done))},
        deadline);
  }
  // Lets sleeping waiters look at their conditions again: for conditions that change by other means than completions.
  void wake_waiters();
  // Delivers what is there, without waiting. Returns how many blocks ended.
  std::size_t poll();

  // ---- admin --------------------------------------------------------------------------------------------------------
  // Sends one admin command and waits for its reply (Timeouts::admin). magic, generation and cookie are filled in.
  // Several may be in flight, from several threads. A reply with an outcome other than OK is a reply: check it. Errors:
  // card gone; no reply in time (INDETERMINATE: it may have been executed, its slot stays reserved until the reply
  // comes); called from inside a sink.
  Expected<wire::AdminReply> admin(wire::AdminRequest request);

  // Errors as the card reported them (status and field in the message), besides those of admin().
  Expected<std::uint32_t> open_stream(StreamPriority priority);
  // Everything outstanding on the stream is reported before it returns: the source FAULT or TIMEOUT, the others
  // ABORTED. Meanwhile submit() on it is refused. Afterwards sequence numbers start again.
  Expected<void> reset_stream(std::uint32_t stream);
  Expected<void> close_stream(std::uint32_t stream);
  // ResetLevel::Queue (RESET_VQUEUE): all streams at once, also those of which nobody knows what holds them up; admin
  // commands need not work. What the card has ended is delivered, what ran ends FAULT "stopped", what never started
  // ABORTED; then every stream is open, with its next incarnation. At most Timeouts::queue_reset while the heartbeat
  // advances. After an error but "is being reset" the device needs a function reset (attach again).
  Expected<void> reset_queues();
  std::uint32_t stream_incarnation(std::uint32_t stream) const;

  // From inside a sink of this device: `wanted` is called once more when this delivery is over and its locks are gone.
  // It exists until close() has returned.
  void after_delivery(AfterDelivery& wanted);
  // While it exists, allocations of this thread are the driver's for the fault points: of sinks that are part of the
  // driver.
  DriverCall driver_call() const;
  // Whether this thread is inside a sink of any device.
  static bool delivering();

  Expected<Region> acquire_region(RegionType type, std::uint64_t bytes);
  Expected<void> release_region(const Region& region);
  // What the card has for this function now; asks it.
  Expected<MemoryInfo> memory_info();
  // The three above as the allocator wants them. Exists as long as the device.
  RegionSource& region_source();

  // As counted by the card since the function's last reset.
  Expected<wire::AdminReply> card_statistics();

  // ---- state --------------------------------------------------------------------------------------------------------
  DeviceStatistics statistics() const;
  // Device events since the last call, oldest first; at most 256 are kept, the rest counted in statistics().events
  // only.
  std::vector<wire::DeviceEvent> take_events();
  Health health() const;
  // Looks at the card now. An idle device does not: without this, a restart is found with the next call that submits.
  // While another thread waits for the device it looks, every Timeouts::recheck_max, and this does nothing.
  void check();
  // The same whoever waits, who gives way for it: health() is that of the card after this call began. Costs the wake-up
  // of a thread.
  void check_now();
  // Why the device is Dead or NeedsReset; empty while it works.
  std::optional<ErrorInfo> failure() const;
  // For records of errors (host_driver/ras): which card, which function.
  ras::Where where() const;
  // Its number in a trace (host_driver/trace); 0: nothing is recorded.
  std::uint32_t trace_card() const;

 private:
  struct Impl;
  struct ConditionRef {
    bool (*holds)(void*);
    void* context;
  };

  explicit Device(std::unique_ptr<Impl> impl);
  WaitStatus wait_for_condition(ConditionRef condition, TimePoint deadline);

  std::unique_ptr<Impl> impl_;
};

}  // namespace svp
