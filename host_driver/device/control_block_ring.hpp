// SPDX-License-Identifier: Apache-2.0
// Queue 1 as the driver sees it: which block is in which slot, who is to be told of it, what each stream may still
// submit. Every accepted block leaves through harvest() or close() exactly once.
//
// Thread-safe by one lock that is held for copying only. harvest() and close() are called by one thread at a time (the
// one that holds the device's reaping lock).
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host_driver/device/completion_sink.hpp"
#include "host_driver/device/device.hpp"
#include "host_driver/device/device_states.hpp"
#include "host_driver/transport/fault_hooks.hpp"
#include "host_driver/transport/packed_queue.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/control_block.hpp"
#include "shared/message.hpp"

namespace svp {

// How the driver ends blocks that the card has not ended.
enum class OutstandingEnd : std::uint8_t {
  Died,     // the card can do nothing any more: LOST or INDETERMINATE by the stream's started_seq
  Unknown,  // the card may still run, or was restarted: nothing in the window is proof, all INDETERMINATE
  Removed,  // the card's answer to a queue reset says that what was not completed was never started: ABORTED
};

class ControlBlockRing {
 public:
  enum class Refusal : std::uint8_t { None, Closed, NotOpen, Resetting };
  struct Submission {
    Refusal refusal = Refusal::None;
    std::size_t accepted = 0;
    bool kick = false;  // the card wants a doorbell
  };
  // A block that has ended: what to tell whom.
  struct Ended {
    CompletionSink* sink;
    wire::Completion completion;
  };
  // As many as one harvest() takes at most: what one lock section copies.
  static constexpr std::size_t kHarvest = 32;

  // `polled`: no doorbell is asked for when nobody reaps (DeviceOptions::polled).
  ControlBlockRing(Window& window, PackedQueue queue, const wire::DeviceConfig& config, bool with_crc, bool polled,
                   FaultSite faults = {});

  // Never blocks but for the lock. Arms the ring for a doorbell when nobody reaps (see enter_reaping()).
  Submission submit(std::uint32_t stream, std::span<const ControlBlockRequest> requests, bool verbatim);

  // ---- reaping thread
  // False when nothing from the card counts any more.
  bool has_used() const { return !dead_ && queue_.has_used(); }
  // Takes up to kHarvest ended blocks. `credits` gets the streams to notify. A card that breaks the protocol makes
  // violation() say so; what was taken before counts, the offending block stays outstanding.
  std::size_t harvest(std::array<Ended, kHarvest>& ended);
  // A stream whose submission was cut short and that may go on; taken off the list.
  struct Starved {
    std::uint32_t stream;
    CreditSink* sink;
  };
  std::optional<Starved> next_starved();
  bool any_starved() const { return starved_count_.load(std::memory_order_relaxed) != 0; }
  // A reset has ended, or the stream is closed, and somebody was refused meanwhile: no completion will tell him.
  bool credits_due() const { return credits_due_.load(std::memory_order_acquire); }
  bool take_credits_due() { return credits_due() && credits_due_.exchange(false, std::memory_order_acq_rel); }
  const std::string& violation() const { return violation_; }

  // While a thread reaps, no doorbells are wanted. leave_reaping() asks for one if something is outstanding; true when
  // something has come meanwhile, which the caller should take before it goes.
  void enter_reaping();
  bool leave_reaping();
  // Before the reaping thread sleeps; true: do not sleep.
  bool arm();
  void disarm();

  // Refuses everything from now on and ends what is outstanding, in order of stream and sequence. Allocates nothing;
  // what it returns is good until the next call, likewise renew().
  std::span<const Ended> close(OutstandingEnd how);

  // ---- the whole queue is reset (one thread at a time, which also reaps). Between begin and end submit() is refused.
  // False: closed, or a stream is being reset.
  bool begin_queue_reset();
  // The card has let go of the old ring, and harvest() found nothing more: what is left was never started and ends
  // ABORTED, in order of stream and sequence. Every open stream gets its next incarnation, as on the card.
  std::span<const Ended> renew(PackedQueue queue);
  void end_queue_reset();

  // ---- streams (any thread)
  bool open_stream(std::uint32_t stream, std::uint32_t incarnation);
  // Between the two, submit() is refused; who was is told of the end by his credit sink.
  std::optional<std::uint32_t> begin_reset(std::uint32_t stream);  // incarnation; nullopt: not open, or being reset
  void end_reset(std::uint32_t stream, std::uint32_t incarnation);
  void end_failed_reset(std::uint32_t stream);
  void close_stream(std::uint32_t stream);
  bool is_open(std::uint32_t stream) const;
  bool is_resetting(std::uint32_t stream) const;  // between begin_reset() and its end, close_stream() among them
  std::uint32_t incarnation(std::uint32_t stream) const;
  std::size_t outstanding(std::uint32_t stream) const;
  void set_credit_sink(std::uint32_t stream, CreditSink* sink);

  std::size_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }
  std::uint64_t submitted() const { return submitted_.load(std::memory_order_relaxed); }
  std::uint64_t completed() const { return completed_.load(std::memory_order_relaxed); }

 private:
  struct Stream {
    StateMachine<RingStreamState> state{};
    std::uint32_t incarnation = 0;
    std::uint64_t next_sequence = 1;
    std::atomic<std::uint32_t> outstanding{0};  // changed under the lock, read without
    CreditSink* credit_sink = nullptr;
  };
  // What we know about the block in a slot.
  struct Slot {
    CompletionSink* sink = nullptr;
    std::uint32_t credit_stream = 0;  // whose credit it uses
    std::uint32_t stream = 0;         // as sent
    std::uint32_t incarnation = 0;
    std::uint64_t generation = 0;
    std::uint64_t sequence = 0;
    std::uint64_t cookie = 0;
  };

  void write_block(std::uint32_t index, std::uint16_t slot, Stream& stream, const ControlBlockRequest& request,
                   bool verbatim);
  std::string check(const Slot& slot, const wire::Completion& completion, std::uint32_t written) const;
  // Fault hooks. True: this completion is not to be seen.
  bool inject(std::uint16_t id, const Slot& slot, wire::Completion& completion);
  void flip_window_bits();
  static bool overtaken_by_reset(const Stream& stream, const wire::Completion& completion);
  void release(const Slot& slot);
  void set_state(std::uint32_t stream, RingStreamState to);
  RingStreamState state_of(std::uint32_t stream) const { return stream_table_[stream].state.get(); }
  std::span<const Ended> end_all(std::span<const std::uint16_t> ids, OutstandingEnd how, wire::Status status);
  void mark_starved(std::uint32_t stream);
  void end_refusals();

  Window& window_;
  const bool polled_;
  const FaultSite faults_;
  const std::uint64_t generation_;
  const std::uint32_t credits_;
  const std::uint32_t streams_;
  const bool with_crc_;

  mutable std::mutex mutex_;
  PackedQueue queue_;
  std::array<Stream, wire::kStreamsPerFunction> stream_table_;
  std::array<Slot, wire::kControlBlockSlots> slots_;
  std::bitset<wire::kStreamsPerFunction> starved_;
  std::uint32_t next_starved_ = 0;
  bool reaping_ = false;
  bool closed_ = false;
  std::vector<std::uint16_t> offending_;  // given back by the card in a way that is not to be trusted
  std::vector<std::uint16_t> ids_;        // of close() and renew(): as large as they can get from the start
  std::vector<Ended> ended_;              // likewise
  std::string violation_;                 // of the reaping thread
  bool dead_ = false;                     // likewise

  std::atomic<std::uint32_t> starved_count_{0};
  std::atomic<bool> credits_due_{false};
  std::atomic<std::size_t> outstanding_{0};
  std::atomic<std::uint64_t> submitted_{0};
  std::atomic<std::uint64_t> completed_{0};
};

}  // namespace svp
