// SPDX-License-Identifier: Apache-2.0
// Inside of Device. Four files: device.cpp (public calls), progress.cpp (reaping, waiting, sleeping), queue_reset.cpp,
// device_end.cpp (failure, end of what is outstanding, detach).
//
// Who reaps: whoever holds reap_mutex_. The holder disarms the ring, harvests, delivers, and arms again before it lets
// go if anything is outstanding (Session). Who does not get the lock says so in missed_ (or is seen in followers_), and
// the holder looks at both after it let go: between the two nothing can fall through. Who needs the lock for itself (a
// queue reset, the end) makes a Claim, to which a waiting holder gives way.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "host_driver/base/event_loop.hpp"
#include "host_driver/base/process.hpp"
#include "host_driver/base/unique_fd.hpp"
#include "host_driver/device/admin_port.hpp"
#include "host_driver/device/bring_up.hpp"
#include "host_driver/device/card_trace.hpp"
#include "host_driver/device/control_block_ring.hpp"
#include "host_driver/device/device.hpp"
#include "host_driver/device/device_states.hpp"
#include "host_driver/device/event_port.hpp"
#include "host_driver/device/spin_policy.hpp"
#include "host_driver/ras/log.hpp"
#include "host_driver/ras/state_log.hpp"
#include "host_driver/trace/recorder.hpp"
#include "host_driver/transport/control_channel.hpp"
#include "host_driver/transport/doorbells.hpp"
#include "host_driver/transport/guarded.hpp"
#include "host_driver/transport/running_clock.hpp"
#include "host_driver/transport/window.hpp"

namespace svp {

struct Device::Impl final : RegionSource {
  using Duration = std::chrono::nanoseconds;

  Impl(DeviceOptions given, std::shared_ptr<Window> mapped, SlotHandle slot);

  // ---- public calls that need more than one line (device.cpp)
  Expected<void> start();  // bring-up, then listen()
  void listen();
  // Marks an occasional call as the driver's own for the fault points, and types what it may throw.
  template <typename Call>
  auto as_driver(std::string_view what, Call&& call) {
    const DriverCall marked(options.faults.injector.get(), options.faults.function);
    return guarded(what, call);
  }
  Expected<std::size_t> submit(std::uint32_t stream, std::span<const ControlBlockRequest> requests, bool verbatim);
  ErrorInfo refusal(ControlBlockRing::Refusal why, std::uint32_t stream) const;
  Expected<wire::AdminReply> admin(wire::AdminRequest request);
  Expected<wire::AdminReply> accepted_admin(const wire::AdminRequest& request, std::string source);
  // Makes a stream ours that the card opened. False: it is one that it must not give us.
  bool adopt_stream(std::uint32_t stream, std::uint32_t incarnation);
  Expected<std::uint32_t> reset_or_close(wire::AdminCommand command, std::uint32_t stream);
  Expected<std::uint32_t> open_stream(StreamPriority priority);
  Expected<Region> acquire(RegionType type, std::uint64_t bytes) override;
  Expected<Region> acquire_now(RegionType type, std::uint64_t bytes);
  Expected<void> release(const Region& region) override;
  std::uint64_t guaranteed_bytes() const override { return link.config.share_bytes; }
  std::uint64_t budget_bytes() const override { return link.config.budget_bytes; }
  Expected<MemoryInfo> memory_info() override;
  // For records of errors.
  ras::Where where() const;
  void begin_trace();
  // Returns when whatever was being delivered has been delivered.
  void wait_for_deliveries();

  // ---- reaping and waiting (progress.cpp)
  WaitStatus wait(ConditionRef condition, TimePoint deadline);
  // So long the card may run from now on: the time in which a debugger holds it does not count.
  struct CardDeadline {
    CardDeadline(Impl& device, Duration bound);
    RunningClock clock;
    Duration look;
    TimePoint end;
  };
  WaitStatus wait_for_card(ConditionRef condition, CardDeadline& deadline);
  bool held_by_debugger();
  // Holds reap_mutex_ on entry, not on return. Nothing: gave way to a claim.
  std::optional<WaitStatus> lead(ConditionRef condition, TimePoint deadline);
  void give_way();
  std::optional<WaitStatus> follow(ConditionRef condition, TimePoint deadline);
  std::size_t progress();  // holds reap_mutex_; what it finds no memory for ends the device
  std::size_t progress_now();
  // While it exists, this thread's allocations are the driver's.
  DriverCall driver_call() { return DriverCall(options.faults.injector.get(), options.faults.function); }
  void deliver(std::span<const ControlBlockRing::Ended> ended);
  // The same, seen by wait_for_deliveries().
  void deliver_counted(std::span<const ControlBlockRing::Ended> ended);
  // After the end of a reset: whoever was refused meanwhile submits again now.
  void tell_credits();
  bool something_to_do() const;
  bool spin(ConditionRef condition, TimePoint deadline, Duration budget);
  bool sleep(ConditionRef condition, TimePoint deadline, Duration bound);
  void enter();
  void
  leave();  // also unlocks, goes on when somebody was missed meanwhile, and runs what sinks have left for afterwards
  void leave_with(AfterDeliveries& left);  // the same without running it
  // Reaps if nobody does; else makes sure that the holder looks again. Returns what was found here.
  std::size_t try_reap(bool by_loop);
  void wake_followers();
  void wake_all();

  // Holds reap_mutex_ against those that wait with it.
  class Claim {
   public:
    explicit Claim(Impl& of);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    Impl& of_;
  };

  // ---- queue reset (queue_reset.cpp)
  Expected<void> reset_queues();
  Expected<void> renew_block_queue();

  // ---- event loop (progress.cpp)
  void on_doorbell(unsigned events);
  void on_tick();
  // Reaps and looks at the card, unless somebody who does both holds the lock.
  std::size_t look_at_card();
  // Whoever holds it: a waiting holder gives way, because it may be asleep and has not seen what the caller knows of.
  void look_at_card_now();
  std::size_t look_as_holder();
  void start_ticking();
  void schedule_tick();

  // ---- end (device_end.cpp)
  // `next(now)`: a function of device_states.hpp. True: this thread has made the change.
  template <typename Next>
  bool set_state(Next next) {
    return ras::logged(doorbells.slot().index(), state.change_by(next)).made();
  }
  template <typename Next>
  void set_health(Next next) {
    ras::logged(doorbells.slot().index(), health_seen.change_by(next));
  }
  // What Device::health() says. Its end is not told before the state says that the device fails: who has waited for it
  // and leaves the reaping then ends what is outstanding (leave_with()).
  Health health() const;
  bool failing(std::memory_order order = std::memory_order_seq_cst) const { return is_failing(state.get(order)); }
  bool outstanding_failed(std::memory_order order = std::memory_order_seq_cst) const {
    return is_outstanding_failed(state.get(order));
  }
  // First failure wins. From a thread that does not hold reap_mutex_: also ends everything, now or through the holder.
  void fail(ErrorInfo error, OutstandingEnd how, Health health);
  void note_failure(ErrorInfo error, OutstandingEnd how, Health health);
  // Whether the end is written to the log of errors: not if it is none, and not if the device's owner records it.
  enum class EndRecord : std::uint8_t { Written, LeftToOwner, NoError };
  // If the device had ended before, the first reason stays.
  void note_end(ErrorInfo error, OutstandingEnd how, Health ended, EndRecord record);
  void report_end(const ErrorInfo& error) const;
  void note_death();
  void note_violation(const std::string& what);
  void check_health();      // holds reap_mutex_
  void fail_outstanding();  // holds reap_mutex_
  void detach();
  void wait_until_detached() const;
  void let_go_of_function();  // holds a claim
  std::optional<ErrorInfo> failure() const;
  ErrorInfo failure_or(std::string message) const;

  // In a forked child: what every call is refused with.
  ErrorInfo not_ours() const { return made_by_the_parent("device"); }

  // ---- parts
  const OwnerProcess process;
  DeviceOptions options;
  std::shared_ptr<Window> window;
  Doorbells doorbells;
  ControlChannel channel;  // under reap_mutex_ after start()
  FunctionLink link;       // config and features; the queues have moved to the ports
  std::optional<ControlBlockRing> blocks;
  std::optional<AdminPort> admins;
  std::optional<EventPort> events;
  SpinPolicy spin_policy;
  UniqueFd wake_fd;  // ends the sleep of the thread that reaps
  EventLoop::WatchId doorbell_watch = EventLoop::WatchId::None;
  EventLoop::WatchId exit_watch = EventLoop::WatchId::None;

  // ---- reaping
  std::mutex reap_mutex;
  std::atomic<bool> missed{false};  // somebody with a reason to reap found the lock taken
  std::atomic<bool> leader_sleeps{false};
  std::atomic<std::uint32_t> claims{0};
  std::atomic<std::uint64_t> deliveries{0};  // odd while completions are being taken and delivered
  std::array<ControlBlockRing::Ended, ControlBlockRing::kHarvest> harvested;
  AfterDeliveries after;  // under reap_mutex

  std::mutex debugger_mutex;  // options.held_by_debugger, between who waits and the end

  // Opening, resetting and closing a stream share it; a queue reset, which concerns all streams, holds it alone.
  std::shared_mutex stream_commands;

  // ---- followers: threads that wait while another one reaps
  std::mutex follower_mutex;
  std::condition_variable follower_wake;
  std::uint64_t wakes = 0;
  std::atomic<std::uint32_t> followers{0};

  // ---- health, under reap_mutex but for its end
  std::uint64_t last_heartbeat = 0;
  TimePoint last_beat{};
  AtomicStateMachine<Health> health_seen;  // Alive and Silent: under reap_mutex; its end: under failure_mutex

  // ---- failure
  mutable std::mutex failure_mutex;
  std::optional<ErrorInfo> failure_info;
  OutstandingEnd outstanding_end = OutstandingEnd::Unknown;
  // It begins to fail under failure_mutex, has failed under reap_mutex, and is detached by one thread.
  AtomicStateMachine<DeviceState> state;

  // ---- tick
  std::atomic<bool> ticking{false};
  std::uint64_t ticked_submissions = 0;  // of the loop's thread
  std::shared_ptr<int> tick_lifetime = std::make_shared<int>(0);

  // ---- counters
  std::atomic<std::uint32_t> trace_card{0};  // Device::trace_card()
  std::optional<CardTrace> card_trace;       // with reap_mutex_ held
  std::atomic<std::uint64_t> doorbells_suppressed{0};
  std::atomic<std::uint64_t> spin_waits{0};
  std::atomic<std::uint64_t> sleeps{0};
  std::atomic<std::uint64_t> loop_reaps{0};
  std::atomic<std::uint64_t> late_finds{0};
};

// Whether this thread is inside a sink of any device: waiting there would wait for itself.
bool inside_sink();
// The error of a blocking call from there.
ErrorInfo not_in_sink();

}  // namespace svp
