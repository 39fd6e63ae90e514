// SPDX-License-Identifier: Apache-2.0
// One stream as the Scheduler runs it: what waits for credits or for staging, what the card holds, how all of it ends.
// Policy: first in, first out. Launching never blocks on the card: what the card can not take now waits here and is
// moved on by completions, credits and the staging worker.
//
//   pending_ ── head is a block ──────────────► submit ─► in_flight_ ─► on_completion ─► ended
//      └─ head is a staged transfer ─► worker ─► ready_ (DMA of one chunk) ─┘
//
// Thread-safe. Lock order: reaping lock of the device, mutex_, then the device's submit lock or the staging engine's.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "host_driver/device/device.hpp"
#include "host_driver/exec/unit.hpp"

namespace flex {

// What one walk of a plan takes.
struct WalkSize {
  std::size_t blocks = 0;
  std::size_t correction_at = ~std::size_t{0};  // index of the block that carries a correction buffer
  std::uint64_t correction_bytes = 0;
};

class StreamChannel final : private CompletionSink, private CreditSink, private StagingClient {
 public:
  using TimePoint = Device::TimePoint;

  // Records taken for one launch; those that are not committed go back.
  class Reservation {
   public:
    explicit Reservation(StreamChannel& channel) : channel_(channel) {}
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    LinkedList<Unit> units;
    LaunchState* launch = nullptr;
    std::size_t count = 0;

   private:
    StreamChannel& channel_;
  };

  // Device, memory and staging outlive the channel. The stream is open.
  StreamChannel(Device& device, HostMemory& memory, StagingEngine& staging, std::uint32_t stream);
  // The device delivers nothing any more, and the staging worker has stopped.
  ~StreamChannel();

  std::uint32_t stream() const { return stream_; }

  // Takes the records of `walks` walks of a plan. Throws StreamError when the stream is poisoned, Error while it is
  // being reset, OutOfMemory.
  void reserve(Reservation& reservation, const WalkSize& walk, std::size_t walks);
  // Enqueues all of it. Throws as reserve(); nothing was enqueued then. Returns the launch's number.
  std::uint64_t commit(Reservation& reservation);

  std::uint64_t launched() const;
  std::uint64_t ended() const { return ended_.load(std::memory_order_acquire); }
  // Waits for the launches up to `number`. False: the deadline passed. Throws Error when called from inside a sink.
  bool wait(std::uint64_t number, TimePoint deadline);
  // The first error since the last reset, if any.
  std::optional<StreamError> error() const;

  // STREAM_RESET: everything ends, then the stream works again. Errors leave it poisoned.
  Expected<void> reset();
  // The device is about to go: nothing new is accepted or sent.
  void close();

 private:
  void on_completion(const wire::Completion& completion) noexcept override;
  void on_credits(std::uint32_t stream) noexcept override;
  bool on_chunk(StagingChunk& chunk) noexcept override;
  void on_drain(StagingChunk& chunk) noexcept override;

  // All with mutex_ held.
  void check_usable() const;
  bool stopped() const { return failure_.has_value() || paused_ || closed_; }
  void pump();
  bool submit_from(LinkedList<Unit>& list);
  void start_staged(Unit& unit);
  void chunk_ended(Unit& unit, const wire::Completion& completion);
  void finish_staged(Unit& owner);
  void end_unit(Unit& unit, const wire::Completion& completion);
  void retire_launches();
  void note_failure(const Unit& unit, const wire::Completion& completion);
  // To the log of errors: the first one of the stream.
  void record_failure(const ErrorInfo& error) const;
  void note_card_gone(const ErrorInfo& why);
  void drop_waiting();
  void drop_unit(Unit& unit);
  Unit& chunk_unit(Unit& owner, StagingChunk& chunk, std::uint64_t at);
  wire::Completion ending(wire::Outcome outcome, wire::Status status) const;

  Device& device_;
  StagingEngine& staging_;
  const std::uint32_t stream_;

  mutable std::mutex mutex_;
  RecordPool<Unit> units_;
  RecordPool<LaunchState> launch_records_;
  CorrectionPool corrections_;
  LinkedList<Unit> pending_;    // blocks and staged transfers, in order
  LinkedList<Unit> ready_;      // chunk DMAs of the transfer at the head of pending_, or of the one that just left it
  LinkedList<Unit> in_flight_;  // with the card, in order
  LinkedList<LaunchState> launches_;
  std::uint64_t launched_ = 0;
  std::uint32_t drains_ = 0;  // chunks on their way to the caller's memory
  std::uint32_t chunks_ = 0;  // held by this stream
  bool paused_ = false;       // a reset runs
  bool closed_ = false;
  bool card_gone_ = false;
  std::optional<StreamFailure> failure_;  // set: poisoned
  std::optional<ErrorInfo> card_error_;
  std::condition_variable quiet_;  // for waits that the device can not serve any more

  std::atomic<std::uint64_t> ended_{0};  // launches up to this number have ended
};

}  // namespace flex
