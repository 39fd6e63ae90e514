// SPDX-License-Identifier: Apache-2.0
// Reaping, waiting and sleeping (protocol §8, host side). See device_impl.hpp for who does what when.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/device/device_impl.hpp"
#include "host_driver/transport/guarded.hpp"
#include "host_driver/transport/pause.hpp"

namespace svp {

namespace {

thread_local bool in_sink = false;

// Looks at the clock, and at what comes rarely, once in so many spins (one is some ten nanoseconds).
constexpr unsigned kSpinsPerLook = 32;
constexpr int kHarvestsPerLook = 4;
// Passes in which a leaving thread still takes what has just come, before it leaves the rest to the event loop.
constexpr int kLeavingPasses = 4;

void bump(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

bool inside_sink() { return in_sink; }

// ---- reaping --------------------------------------------------------------------------------------------------------

void Device::Impl::deliver(std::span<const ControlBlockRing::Ended> ended) {
  // A sink's allocations are its owner's.
  std::optional<DriverCall> not_the_driver;
  if (DriverCall::active()) not_the_driver.emplace(nullptr);
  in_sink = true;
  for (const auto& end : ended) {
    if (end.sink != nullptr) end.sink->on_completion(end.completion);
  }
  if (blocks->any_starved()) {
    // Bounded: a sink whose submit() is cut short again comes back with the next harvest.
    for (unsigned i = 0; i < wire::kStreamsPerFunction; ++i) {
      const auto starved = blocks->next_starved();
      if (!starved) break;
      starved->sink->on_credits(starved->stream);
    }
  }
  in_sink = false;
}

void Device::Impl::deliver_counted(std::span<const ControlBlockRing::Ended> ended) {
  const std::uint64_t delivery = deliveries.load(std::memory_order_relaxed);
  deliveries.store(delivery + 1, std::memory_order_release);
  deliver(ended);
  deliveries.store(delivery + 2, std::memory_order_release);
}

void Device::Impl::tell_credits() {
  if (!blocks->credits_due()) return;
  wake_all();
  (void)try_reap(false);  // else the holder of the lock has been told by missed
}

std::size_t Device::Impl::progress() try { return progress_now(); } catch (const std::bad_alloc&) {
  // Only a protocol error has texts: its finder has closed the queue, or the message is taken.
  note_failure(error_or_less(wire::Outcome::Indeterminate, []() -> ErrorInfo { throw std::bad_alloc(); }),
               OutstandingEnd::Unknown, Health::Dead);
  fail_outstanding();
  return 1;
}

std::size_t Device::Impl::progress_now() {
  if (state.get(std::memory_order_relaxed) == DeviceState::Detached) return 0;
  std::size_t found = 0;
  if (blocks->take_credits_due()) deliver_counted({});
  // Bounded: whoever reaps for busy others must get to look at his own condition.
  for (int passes = 0; passes < kHarvestsPerLook && blocks->has_used(); ++passes) {
    const std::uint64_t delivery = deliveries.load(std::memory_order_relaxed);
    deliveries.store(delivery + 1, std::memory_order_release);
    const std::size_t count = blocks->harvest(harvested);
    if (count != 0) deliver({harvested.data(), count});
    deliveries.store(delivery + 2, std::memory_order_release);
    found += count;
  }
  if (admins->has_used()) found += admins->harvest();
  if (events->has_used()) {
    bool kick = false;
    found += events->harvest(kick);
    if (kick) doorbells.ring();
  }
  if (channel.has_message()) {
    ++found;
    auto polled = channel.poll();
    if (!polled) note_failure(polled.error(), OutstandingEnd::Unknown, Health::Dead);
    if (channel.needs_reset()) check_health();
  }
  if (card_trace) [[unlikely]]
    card_trace->drain();
  for (const std::string* violation : {&blocks->violation(), &admins->violation(), &events->violation()}) {
    if (!violation->empty()) note_violation(*violation);
  }
  if (failing(std::memory_order_acquire)) fail_outstanding();
  if (found != 0) wake_followers();
  return found;
}

bool Device::Impl::something_to_do() const {
  if (claims.load(std::memory_order_relaxed) != 0 || blocks->credits_due()) return true;
  return blocks->has_used() || admins->has_used() || events->has_used() || channel.has_message() ||
         (failing(std::memory_order_acquire) && !outstanding_failed(std::memory_order_relaxed));
}

void Device::Impl::enter() { blocks->enter_reaping(); }

void Device::Impl::leave() {
  AfterDeliveries left;
  leave_with(left);
  left.run();
}

void Device::Impl::leave_with(AfterDeliveries& left) {
  // Goes on only when somebody left work while we held the lock; each pass takes what is there.
  for (;;) {
    for (int pass = 0; blocks->leave_reaping() && pass < kLeavingPasses; ++pass) {
      enter();
      progress();
      if (followers.load(std::memory_order_relaxed) != 0) break;  // one of them goes on
    }
    if (blocks->has_used()) missed.store(true);  // no doorbell will come for what is there already
    if (!after.empty()) left.take(after);
    reap_mutex.unlock();
    // Store→load: our unlock against the missed flag and the count of those who found us here.
    wire::full_fence();
    if (followers.load(std::memory_order_relaxed) != 0) wake_followers();
    const bool outstanding_left = failing(std::memory_order_relaxed) && !outstanding_failed(std::memory_order_relaxed);
    if (!outstanding_left && !missed.load(std::memory_order_relaxed)) return;
    if (!reap_mutex.try_lock()) return;  // the next holder looks at the same flags
    missed.store(false);
    doorbells.drain();
    enter();
    progress();
  }
}

std::size_t Device::Impl::try_reap(bool by_loop) {
  if (!reap_mutex.try_lock()) {
    missed.store(true);
    wire::full_fence();
    if (!reap_mutex.try_lock()) return 0;
    missed.store(false);
  }
  enter();
  if (by_loop) doorbells.drain();
  const std::size_t found = progress();
  if (by_loop) bump(loop_reaps, found);
  leave();
  return found;
}

void Device::Impl::wake_followers() {
  wire::full_fence();  // what they wait for has been written; have they said that they sleep?
  if (followers.load(std::memory_order_relaxed) == 0) return;
  {
    const std::lock_guard lock(follower_mutex);
    ++wakes;
  }
  follower_wake.notify_all();
}

void Device::Impl::wake_all() {
  wake_followers();
  wire::full_fence();
  if (!leader_sleeps.load(std::memory_order_relaxed)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd.get(), &one, sizeof one);
}

// ---- waiting --------------------------------------------------------------------------------------------------------

WaitStatus Device::Impl::wait(ConditionRef condition, TimePoint deadline) {
  if (in_sink) return WaitStatus::Refused;
  const DriverCall marked = driver_call();
  for (;;) {
    if (condition.holds(condition.context)) return WaitStatus::Done;
    if (outstanding_failed(std::memory_order_acquire)) {
      return condition.holds(condition.context) ? WaitStatus::Done : WaitStatus::Failed;
    }
    const auto status = reap_mutex.try_lock() ? lead(condition, deadline) : follow(condition, deadline);
    if (status) return *status;
  }
}

bool Device::Impl::held_by_debugger() {
  std::function<bool()> held;
  {
    const std::lock_guard lock(debugger_mutex);
    held = options.held_by_debugger;
  }
  return held && held();
}

Device::Impl::CardDeadline::CardDeadline(Impl& device, Duration bound)
    : look(device.options.faults.no_timers ? bound : bound / kLooksAtDebugger), end(Clock::now() + bound) {
  clock.watch([&device] { return device.held_by_debugger(); }, look);
}

// In pieces: a debugger that holds the card is noticed at the end of one.
WaitStatus Device::Impl::wait_for_card(ConditionRef condition, CardDeadline& deadline) {
  for (;;) {
    const Duration left = deadline.end - deadline.clock.now();
    const WaitStatus status = wait(condition, Clock::now() + std::min(left, deadline.look));
    if (status != WaitStatus::TimedOut || left <= Duration{0}) return status;
  }
}

std::optional<WaitStatus> Device::Impl::lead(ConditionRef condition, TimePoint deadline) {
  enter();
  std::optional<WaitStatus> status = WaitStatus::Done;
  bool slept = false;  // since something was found
  bool slept_ever = false;
  Duration bound = options.timeouts.recheck_min;
  std::optional<SpinPolicy::Permit> permit(std::in_place, spin_policy);
  TimePoint start{};
  for (;;) {
    const std::size_t found = progress();
    if (condition.holds(condition.context)) break;
    if (outstanding_failed(std::memory_order_relaxed)) {
      status = WaitStatus::Failed;
      break;
    }
    if (claims.load(std::memory_order_relaxed) != 0) {
      permit->stop();
      leave();
      give_way();
      return std::nullopt;
    }
    // A wait that is over at once needs no clock. What is learned from is the last gap: many short jobs make a long
    // wait through which spinning was right.
    if (start == TimePoint{} || found != 0) start = Clock::now();
    if (!slept || found != 0) {
      if (slept) permit.emplace(spin_policy);
      slept = false;
      bound = options.timeouts.recheck_min;
      if (spin(condition, deadline, permit->budget())) continue;
    }
    if (Clock::now() >= deadline) {
      status = WaitStatus::TimedOut;
      break;
    }
    permit->stop();
    slept = slept_ever = true;
    sleep(condition, deadline, bound);
    bound = std::min(bound * 2, options.timeouts.recheck_max);
  }
  permit->stop();
  if (status == WaitStatus::Done && start != TimePoint{}) {
    if (!slept_ever) bump(spin_waits);
    spin_policy.learn(Clock::now() - start, slept);
  }
  leave();
  return status;
}

void Device::Impl::give_way() {
  std::unique_lock lock(follower_mutex);
  follower_wake.wait_for(lock, options.timeouts.recheck_max, [this] { return claims.load() == 0; });
}

Device::Impl::Claim::Claim(Impl& of) : of_(of) {
  of_.claims.fetch_add(1);
  of_.wake_all();
  of_.reap_mutex.lock();
  of_.enter();
}

Device::Impl::Claim::~Claim() {
  of_.claims.fetch_sub(1);
  AfterDeliveries left;
  of_.leave_with(left);
  {
    const std::lock_guard lock(of_.follower_mutex);
    ++of_.wakes;
    of_.follower_wake.notify_all();
  }
  left.run();
}

// True when there is something to do, or the condition may hold.
bool Device::Impl::spin(ConditionRef condition, TimePoint deadline, Duration budget) {
  if (budget.count() == 0) return false;
  const TimePoint end = std::min(deadline, Clock::now() + budget);
  for (unsigned spins = 1;; ++spins) {
    if (blocks->has_used()) return true;
    if (spins % kSpinsPerLook == 0) {
      if (something_to_do() || condition.holds(condition.context)) return true;
      if (Clock::now() >= end) return false;
    }
    cpu_pause();
  }
}

// Arms, looks again, sleeps. True when work was found.
bool Device::Impl::sleep(ConditionRef condition, TimePoint deadline, Duration bound) {
  leader_sleeps.store(true);
  bool work = blocks->arm() || something_to_do();  // arm() contains the store→load fence, also for leader_sleeps
  Doorbells::Wakeup wakeup;
  if (!work && !condition.holds(condition.context)) {
    bump(sleeps);
    const Duration limit = options.faults.no_timers ? kWithoutTimers : bound;
    const Duration left = deadline - Clock::now();
    wakeup = doorbells.sleep(options.exit_fd.get(), wake_fd.get(), std::clamp(left, Duration{0}, limit));
    work = something_to_do();
    if (work && !wakeup.rang && !wakeup.gone) bump(late_finds);
  }
  leader_sleeps.store(false);
  if (!wakeup.rang) {
    std::uint64_t count;
    // bounded: the eventfd does not block
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    [[maybe_unused]] const auto got = ::read(wake_fd.get(), &count, sizeof count);
  }
  blocks->disarm();
  if (wakeup.gone) {
    note_death();
  } else {
    check_health();
  }
  return work;
}

// Somebody else reaps. Returns a status, or nothing when it is worth trying to lead.
std::optional<WaitStatus> Device::Impl::follow(ConditionRef condition, TimePoint deadline) {
  followers.fetch_add(1);
  wire::full_fence();  // now the holder sees us; then look at the lock and the condition once more
  std::optional<WaitStatus> status;
  std::unique_lock lock(follower_mutex);
  const std::uint64_t seen = wakes;
  lock.unlock();
  if (reap_mutex.try_lock()) {
    followers.fetch_sub(1);
    return lead(condition, deadline);
  }
  if (condition.holds(condition.context)) {
    status = WaitStatus::Done;
  } else if (!outstanding_failed(std::memory_order_acquire)) {
    lock.lock();
    const auto bound = options.faults.no_timers ? Duration{kWithoutTimers} : options.timeouts.recheck_max;
    const TimePoint now = Clock::now();
    bump(sleeps);
    follower_wake.wait_until(lock, std::min(deadline, now + bound), [&] { return wakes != seen; });
    lock.unlock();
    if (condition.holds(condition.context)) {
      status = WaitStatus::Done;
    } else if (Clock::now() >= deadline) {
      status = WaitStatus::TimedOut;
    }
  }
  followers.fetch_sub(1);
  return status;
}

// ---- event loop -----------------------------------------------------------------------------------------------------

void Device::Impl::on_doorbell(unsigned poll_events) {
  const DriverCall marked = driver_call();
  if ((poll_events & (POLLHUP | POLLERR)) != 0) note_death();
  if ((poll_events & POLLIN) != 0) {
    trace::instant(trace::Kind::DoorbellFromCard, trace_card);
    const Doorbells::Received received = doorbells.receive();
    if (received.lost) return;
    if (received.twice) (void)try_reap(true);
    if (received.delay.count() != 0) {
      options.loop->run_at(Clock::now() + received.delay, [this, alive = std::weak_ptr<int>(tick_lifetime)] {
        if (alive.lock() != nullptr) (void)try_reap(true);
      });
      return;
    }
  }
  (void)try_reap(true);
}

void Device::Impl::start_ticking() {
  if (options.faults.no_timers || ticking.exchange(true)) return;
  schedule_tick();
}

void Device::Impl::schedule_tick() {
  // Outliving the device is harmless: detach() ends this on the loop's thread, where ticks run.
  try {
    options.loop->run_at(Clock::now() + options.timeouts.tick, [this, alive = std::weak_ptr<int>(tick_lifetime)] {
      if (alive.lock() != nullptr) on_tick();
    });
  } catch (const std::bad_alloc&) {
    // What was submitted is submitted: the next submission tries again, and waiters need no tick.
    ticking.store(false);
  }
}

std::size_t Device::Impl::look_at_card() {
  if (outstanding_failed() || !reap_mutex.try_lock()) return 0;  // who waits looks after everything himself
  enter();
  const std::size_t found = look_as_holder();
  leave();
  return found;
}

void Device::Impl::look_at_card_now() {
  if (outstanding_failed()) return;
  const Claim claim(*this);
  (void)look_as_holder();
}

std::size_t Device::Impl::look_as_holder() {
  const std::size_t found = progress();
  if (state.get(std::memory_order_relaxed) != DeviceState::Detached) {
    pollfd end{options.exit_fd.get(), POLLIN, 0};
    if (end.fd >= 0 && ::poll(&end, 1, 0) > 0) note_death();
    check_health();
  }
  if (failing(std::memory_order_acquire)) fail_outstanding();
  return found;
}

void Device::Impl::on_tick() {
  const DriverCall marked = driver_call();
  if (outstanding_failed()) return;
  const std::size_t found = look_at_card();
  bump(late_finds, found);
  bump(loop_reaps, found);
  const std::uint64_t submitted = blocks->submitted();
  const auto busy = [this] { return blocks->outstanding() != 0 || admins->outstanding() != 0; };
  if (std::exchange(ticked_submissions, submitted) == submitted && !busy()) {
    ticking.store(false);
    wire::full_fence();  // a submitter that saw us ticking has made itself seen here
    if (!busy() || ticking.exchange(true)) return;
  }
  schedule_tick();
}

}  // namespace svp
