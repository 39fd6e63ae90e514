// SPDX-License-Identifier: Apache-2.0
// One stream as the Scheduler runs it: what waits for credits or for staging, what the card holds, how all of it ends.
// Policy: first in, first out. Launching never blocks on the card: what the card can not take now waits here and is
// moved on by completions, credits and the staging worker.
//
//   pending_ ── head is a block ──────────────► submit ─► in_flight_ ─► on_completion ─► ended
//      ├─ head is a staged transfer ─► worker ─► ready_ (DMA of one chunk) ─┘
//      └─ head are tiles ─► blocks of the next ones, in front of it; by a thread of the pool when their HostOperation
//                           runs in the stream
//
// Eleven files: stream_channel.cpp (launching, sending), stream_replay.cpp, stream_checksum.cpp, stream_events.cpp,
// stream_host_calls.cpp, stream_staging.cpp, stream_tiles.cpp, stream_ending.cpp, stream_reset.cpp (waiting,
// resetting), stream_recovery.cpp, stream_trace.cpp. Its states: stream_states.hpp. A channel outlives its device:
// begin_recovery() … end_recovery() give it another one (runtime_recovery.hpp is the order). Thread-safe. Lock order:
// reaping lock of the device, mutex_, then the device's submit lock or the staging engine's.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "host_driver/device/device.hpp"
#include "host_driver/ras/state_log.hpp"
#include "host_driver/runtime/correction_slots.hpp"
#include "host_driver/runtime/host_calls.hpp"
#include "host_driver/runtime/lost_writes.hpp"
#include "host_driver/runtime/recovery_policy.hpp"
#include "host_driver/runtime/scratchpads.hpp"
#include "host_driver/runtime/stream_records.hpp"
#include "host_driver/runtime/stream_states.hpp"
#include "host_driver/runtime/transfer_counters.hpp"
#include "host_driver/runtime/unit.hpp"

namespace svp {

// What one walk of a plan takes.
struct WalkSize {
  std::size_t blocks = 0;
  std::size_t correction_at = ~std::size_t{0};  // index of the block that carries a correction buffer
  std::uint64_t correction_bytes = 0;
};

// What a runtime's policy means for one stream.
struct ChannelRules {
  bool retry_aborted = false;             // RecoveryPolicy::Recover
  FirstFailure* first_failure = nullptr;  // RecoveryPolicy::FailFast; outlives the channel
  bool checksums = false;                 // RuntimeOptions::checksums
  bool elide_corrections = false;         // RuntimeOptions::elide_corrections
  LostWrites* lost_writes = nullptr;      // with retry_aborted; outlives the channel
  TransferCounters* counters = nullptr;   // never null; outlives the channel
  HostCalls* host_calls = nullptr;        // likewise; functions of the program
  HostCalls* host_operations = nullptr;   // likewise
  Scratchpads* scratchpads = nullptr;     // likewise
};

class StreamChannel final : private CompletionSink, private CreditSink, private StagingClient, private AfterDelivery {
 public:
  using TimePoint = Device::TimePoint;

  // Records taken for one launch; those that are not committed go back.
  class Reservation {
   public:
    explicit Reservation(StreamChannel& channel) : channel_(channel) { uses.order_by(channel.clock_); }
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    LinkedList<Unit> units;
    LaunchState* launch = nullptr;
    AllocationUses uses{};     // what the launch works on
    std::uint64_t count = 0;   // of what ends: the units, or all blocks of a launch whose tiles are written later
    bool barrier = false;      // LaunchOptions::pipeline_barrier
    bool scratchpads = false;  // it uses them: it has a place among the launches that do
    std::optional<ClearedSlices> clears{};  // its one block is a Fill of these

   private:
    StreamChannel& channel_;
  };

  // Memory and staging outlive the channel. The stream is open.
  StreamChannel(std::shared_ptr<Device> device, HostMemory& memory, StagingEngine& staging, std::uint32_t stream,
                ChannelRules rules);
  // The device delivers nothing any more, and the staging worker has stopped.
  ~StreamChannel();

  std::uint32_t stream() const { return stream_.load(std::memory_order_relaxed); }

  // Takes the records of `walks` walks of a plan. `recoveries`: as recoveries() said before anything of the device was
  // looked up. Until the reservation ends no recovery begins. Throws StreamError when the stream is poisoned, Error
  // while it is being reset or recovered, or was since, OutOfMemory.
  void reserve(Reservation& reservation, const WalkSize& walk, std::size_t walks, std::uint64_t recoveries);
  // The same for `tiles` tiles whose blocks are written as the card takes them: `units` gets the records of the first
  // tile (none of `first_now` is false) and one that stands for the others, launch->spare those that these are written
  // into. Throws as reserve().
  void reserve_tiles(Reservation& reservation, const WalkSize& walk, std::uint32_t tiles, bool first_now,
                     std::uint64_t recoveries);
  // Enqueues all of them, in order. Throws as reserve(); nothing was enqueued then. Returns the last launch's number.
  std::uint64_t commit(std::span<Reservation* const> reservations);
  // Both for a launch of one unit that moves nothing: a block that `write` fills in, or what it makes of it.
  std::uint64_t launch_one(std::shared_ptr<const void> keep_alive, std::uint64_t recoveries,
                           const std::function<void(Unit&)>& write);

  // What was prepared, in one submission. Throws as reserve().
  std::uint64_t launch_prepared(std::shared_ptr<PreparedLaunches::State> state, std::uint64_t recoveries);
  // The same of what has events or functions of the host: each piece is a launch. All of them, or none. Throws as
  // commit().
  std::uint64_t launch_pieces(const std::shared_ptr<PreparedLaunches::State>& state,
                              std::span<const ReplayPiece> pieces, std::uint64_t recoveries);
  // A wait of a launch of one block, which keeps the event.
  static void write_wait(Unit& unit, const AwaitedPlace& place);
  // A PATCH for each of `blocks`, as one launch; `reservation` has no records yet. Throws as commit(), and OutOfMemory.
  std::uint64_t patch_prepared(Reservation& reservation, std::shared_ptr<PreparedLaunches::State> state,
                               std::span<const PreparedBlock* const> blocks);

  // The number of its function in a trace.
  std::uint32_t trace_card() const;

  // Slots for correction tensors of up to `bytes`, for launches that overlap or leave out their DMA, or whose tensor is
  // larger than the stream's first slot. When there is no memory for them: as SlotMemory::allocate.
  std::shared_ptr<SlotMemory> slots_for(const std::shared_ptr<FlexAllocator>& allocator, std::uint64_t bytes,
                                        SlotMemory::Need need);
  bool elides_corrections() const { return rules_.elide_corrections; }

  // The next launch begins when everything before it has ended. Throws as reserve().
  void pipeline_barrier();

  // There are threads for this stream's functions, or HostOperations, from now on. Throws Error: the system has none
  // left.
  void expect_host_calls();
  void expect_host_operations();
  // An event that this stream waits for has been sent or has ended.
  void awaited_event_came() noexcept;
  // On the thread that ran it; a call of a function is gone when it returns.
  void host_call_ended(HostCall& call, std::optional<HostFailure> why) noexcept;

  // Memory that was released is kept until all that has been launched has ended; not at all when that is so already.
  void keep_until_ended(std::unique_ptr<RecordedUse> use) noexcept;
  // For those that may outlive the channel.
  const std::shared_ptr<ChannelLink>& link() const { return link_; }

  std::uint64_t launched() const;
  std::uint64_t ended() const { return clock_.ended.load(std::memory_order_acquire); }
  std::uint64_t recoveries() const { return recoveries_.load(std::memory_order_acquire); }
  // Waits for the launches up to `number`, or until needing_recovery(). False: the deadline passed. Throws Error when
  // called from inside a sink.
  bool wait(std::uint64_t number, TimePoint deadline);
  void poll();
  // Lets go of what ended launches kept alive, on this thread, with no lock held: destructors of the caller's run here.
  // The second also waits for other threads that do the same, unless it is called by such a destructor.
  void let_go_of_ended() noexcept;
  void finish_letting_go() noexcept;
  // The first error since the last reset, if any.
  std::optional<StreamError> error() const;
  // For a wait that began when recoveries() was `since`: also what a recovery has cleared meanwhile. Told once by rule
  // RecoveryPolicy::Recover.
  std::optional<StreamError> take_error(std::uint64_t since);

  // STREAM_RESET: everything ends, then the stream works again. Errors leave it poisoned.
  Expected<void> reset() { return reset_as(StreamActivity::Resetting, std::nullopt); }

  // ---- recovery
  // The stream failed, everything of it that the card had has ended, and rules.retry_aborted wants somebody to repair
  // it.
  bool needs_recovery() const { return is_recovery_due(condition_.get(std::memory_order_acquire)); }
  // This stream, or the one that its next launch is held back for; null: neither needs recovery.
  StreamChannel* needing_recovery();
  bool poisoned() const;
  bool device_gone() const;  // a reset of the stream does not help
  // reset(), then launches of which no block had started are sent again, in order. The error is kept for take_error().
  // `deadline`: of waiting for a reset that somebody else has begun; likewise below.
  Expected<void> reset_and_retry(TimePoint deadline) { return reset_as(StreamActivity::Retrying, deadline); }
  Expected<void> reset_for_recovery(TimePoint deadline) { return reset_as(StreamActivity::Resetting, deadline); }
  // Launches that a recovery has ended.
  struct Ended {
    std::uint64_t aborted = 0;
    std::uint64_t lost = 0;
  };
  // The card resets all queues: between the two nothing is launched.
  Expected<void> begin_queue_reset(TimePoint deadline);
  Ended end_queue_reset(const Expected<void>& result);
  // Nothing was done to the queues: as before begin_queue_reset().
  void cancel_queue_reset();
  // Nothing is launched any more, and no launch is half written when this returns.
  Expected<void> begin_recovery(TimePoint deadline);
  // The device has delivered its last: ends what is left.
  Expected<Ended> end_everything(TimePoint deadline);
  // Host memory is another block now.
  void move_memory(HostMemory& memory, StagingEngine& staging);
  // `stream`: its number on `device`. Launches are accepted again.
  void end_recovery(std::shared_ptr<Device> device, std::uint32_t stream);
  // Nothing was done to the device: as before begin_recovery().
  void cancel_recovery();
  void fail_recovery(const ErrorInfo& why);
  // The device is about to go: nothing new is accepted or sent.
  void close();
  // It is gone: ends what it never had.
  void end_at_close();

 private:
  // Holds mutex_; afterwards what ended meanwhile is let go of.
  class Locked : public std::unique_lock<std::mutex> {
   public:
    explicit Locked(StreamChannel& channel) : std::unique_lock<std::mutex>(channel.mutex_), channel_(channel) {}
    ~Locked() {
      if (owns_lock()) unlock();
      channel_.tell_waiters();
      channel_.let_go_of_ended();
    }

   private:
    StreamChannel& channel_;
  };

  void after_delivery() noexcept override { let_go_of_ended(); }
  // Streams that wait for events of this one go on. With no channel's lock held; a sink may call it.
  void tell_waiters() noexcept;
  void on_completion(const wire::Completion& completion) noexcept override;
  void on_credits(std::uint32_t stream) noexcept override;
  bool on_chunk(StagingChunk& chunk) noexcept override;
  bool take_chunk(StagingChunk& chunk);
  void on_drain(StagingChunk& chunk) noexcept override;
  void on_drain_dropped(StagingChunk& chunk) noexcept override;
  void drain_ended(StagingChunk& chunk);

  // All with mutex_ held.
  void set_activity(StreamActivity activity) { ras::logged(stream(), activity_.change(activity)); }
  // `next(now)`: a function of stream_states.hpp.
  template <typename Next>
  void set_condition(Next next) {
    ras::logged(stream(), condition_.change_by(next));
  }
  void set_usable();
  bool gone() const { return is_gone(condition_.get(std::memory_order_relaxed)); }
  ErrorInfo refused_now(const char* state, const char* next, bool recoverable = true) const;
  void check_usable() const;
  bool stopped() const { return failure_.has_value() || activity_.get() != StreamActivity::Open; }
  void begin_reservation(Reservation& reservation, std::uint64_t recoveries);
  Unit* take_unit();
  void enqueue(Reservation& reservation);
  void take_place(Reservation& reservation);
  void write_calls(Reservation& reservation, std::shared_ptr<PreparedLaunches::State> state, const CallsStep& calls);
  void write_piece(Reservation& reservation, const std::shared_ptr<PreparedLaunches::State>& state,
                   const ReplayPiece& piece);
  void place_event(Unit& unit, std::uint64_t launch);
  void note_with_card(Event& event);
  bool may_be_sent(const Unit& unit) const;
  static bool is_signal(const Unit& unit);
  static bool is_wait(const Unit& unit);
  bool depends_on_failure(const Unit& unit) const;
  void end_in_flight(const wire::Completion& reported);
  Expected<void> reset_as(StreamActivity kind, std::optional<TimePoint> deadline);
  // Without a deadline it is refused beside another reset.
  Expected<void> begin_reset(StreamActivity kind, std::optional<TimePoint> deadline);
  Expected<void> free_for_reset() const;
  Expected<void> free_for_reset_by(std::unique_lock<std::mutex>& lock, TimePoint deadline);
  void leave_reset();
  void cancel_reset();
  Ended end_queue_reset_now(std::unique_lock<std::mutex>& lock, const Expected<void>& result);
  Expected<void> end_reset(std::unique_lock<std::mutex>& lock, const Expected<void>& result, StreamActivity kind);
  StreamError current_error() const;
  bool keeps_launches() const;
  bool keeps(const Unit& unit, const wire::Completion& completion) const;
  bool is_ended_by_recovery() const;
  void note_written(const Unit& unit, wire::Outcome outcome);
  void finish_unit(Unit& unit, const wire::Completion& completion);
  void tell_observer(const Unit& unit, const wire::Completion& completion) const;
  void drop_kept();
  void send_kept_again();
  void begin_kept(LaunchState& launch);
  void tell_failure();
  void note_first_failure();
  void pump();
  bool send_next();
  bool submit_from(LinkedList<Unit>& list);
  Unit* next_sent(LinkedList<Unit>& list);
  void forget_unsent(const LinkedList<Unit>& list, std::size_t blocks);
  void end_left_out(Unit& unit, const wire::Completion& of_compute);
  bool write_tiles(Unit& tiles);
  std::uint64_t blocks_of(const Unit& unit) const;
  void end_tiles(LaunchState& launch);
  void drop_spare(LaunchState& launch);
  static bool recycle(Unit& unit);
  void start_staged(Unit& unit);
  void start_host_call();
  void fail_host_call(Unit& unit, const HostFailure& why);
  void note_host_failure(const Unit& unit, const char* job, const HostFailure& why);
  void start_host_operation();
  void host_operation_ended(HostCall& call, std::optional<HostFailure> why) noexcept;
  void put_back(HostCall& call, bool written);
  void fail_host_operation();
  void end_failed_tile(Unit& tiles);
  void end_operation_of_before(HostCall& call);
  // Blocks with the card, or a HostOperation on its thread.
  bool is_under_way() const { return !in_flight_.empty() || on_host_ == OnHost::Operation; }
  bool may_begin(const Unit& unit) {
    return (!unit.launch->barrier || launches_.head == unit.launch) && (unit.launch->after.empty() || comes_next(unit));
  }
  bool comes_next(const Unit& unit);
  void request_chunks(const StagedTransfer& transfer);
  // After something that stopped the stream and did nothing to the device: as if it had not been.
  void go_on();
  void chunk_ended(Unit& unit, const wire::Completion& completion);
  void finish_staged(Unit& owner);
  void end_unit(Unit& unit, const wire::Completion& completion);
  void count_direct(const Unit& unit, const wire::Completion& completion) const;
  void retire_launches();
  void end_place(LaunchState& launch);
  void trace_block(const Unit& unit, const wire::Completion& completion) const;
  static StreamFailure describe(const Unit& unit, const wire::Completion& completion);
  void note_failure(const Unit& unit, const wire::Completion& completion);
  // To the log of errors: the first one of the stream.
  void record_failure(const ErrorInfo* error) const;  // null: failure_ explained
  void note_refused(const ErrorInfo& why);
  void note_card_gone(const ErrorInfo& why);
  // The stream can not be used any more; whether the card is gone as well, the condition says.
  void note_unusable(const ErrorInfo& why);
  void drop_waiting();
  void drop_unit(Unit& unit);
  void set_chunk_units_aside(std::size_t chunks);
  Unit& chunk_unit(Unit& owner, StagingChunk& chunk, std::uint64_t at);
  void seal_transfer(Unit& unit) const;
  wire::Completion verified(const Unit& unit, const wire::Completion& completion) const;
  wire::Completion ending(wire::Outcome outcome, wire::Status status) const;
  wire::Completion never_sent() const;

  const std::shared_ptr<ChannelLink> link_ = std::make_shared<ChannelLink>(*this);
  StagingEngine* staging_;  // never null; changed by a recovery
  const ChannelRules rules_;
  std::atomic<std::uint32_t> stream_;  // changed by a recovery

  mutable std::mutex mutex_;
  std::shared_ptr<Device> device_;
  RecordPool<Unit> units_;
  RecordPool<LaunchState> launch_records_;
  LinkedList<Unit>
      chunk_units_;  // set aside: one for each chunk of staging, because chunks come where nothing may fail
  std::optional<CorrectionPool> corrections_;
  CorrectionSlots slots_;
  LinkedList<Unit> pending_;    // blocks, staged transfers, functions and tiles, in order
  LinkedList<Unit> ready_;      // chunk DMAs of the transfer at the head of pending_, or of the one that just left it
  LinkedList<Unit> in_flight_;  // with the card, in order
  LinkedList<LaunchState> launches_;
  LinkedList<LaunchState> ended_launches_;  // that still hold what they kept alive
  std::uint32_t letting_go_ = 0;            // threads that are at it
  std::atomic<bool> any_ended_{false};      // ended_launches_ is not empty
  std::uint64_t launched_ = 0;
  std::uint64_t signals_ = 0;       // the last event's value on the timeline; never used twice, whatever is reset
  LinkedList<Event> signals_told_;  // whose waiters have still to be told
  std::atomic<bool> any_told_{false};
  std::atomic<bool> place_ended_{false};                // a launch that uses scratchpads: others may wait for it
  std::atomic<StreamChannel*> held_back_for_{nullptr};  // what the next launch waits for
  std::uint64_t resets_ = 0;                            // of the stream, of any kind
  // What of this stream runs on the host. Nothing is sent meanwhile.
  enum class OnHost : std::uint8_t { Nothing, Function, Operation };
  OnHost on_host_ = OnHost::Nothing;
  HostCall host_operation_;
  std::uint64_t resets_before_call_ = 0;
  std::uint32_t resets_waiting_ = 0;  // for a HostOperation to return
  bool has_host_thread_ = false;
  bool has_operation_thread_ = false;
  bool barrier_next_ = false;  // the next launch stands behind a barrier
  std::uint32_t waits_ = 0;    // for events, with the card
  std::uint32_t reads_ = 0;    // staged transfers to the caller's memory that have begun
  std::uint32_t drains_ = 0;   // chunks on their way to the caller's memory
  std::uint32_t chunks_ = 0;   // held by this stream
  std::uint32_t writing_ = 0;  // reservations
  StateMachine<StreamActivity> activity_;
  // The first error since the last reset: set in every condition but Usable, except that what an owner's reset ends is
  // no error, even when the card went meanwhile.
  std::optional<StreamFailure> failure_;
  std::optional<ErrorInfo> card_error_;
  std::optional<StreamError> unreported_;  // cleared by RecoveryPolicy::Recover, to be told once
  std::optional<StreamError> last_error_;  // what the last recovery cleared
  Ended ended_by_recovery_{};
  std::condition_variable quiet_;  // for waits that the device can not serve any more

  UseClock clock_{.stream = this};  // launches up to clock_.ended have ended
  std::atomic<std::uint64_t> recoveries_{0};
  AtomicStateMachine<StreamCondition> condition_;  // changed with mutex_ held
};

}  // namespace svp
