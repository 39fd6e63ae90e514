// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/host_faults.hpp"
#include "host_driver/base/start_thread.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <memory>
#include <utility>

#include "shared/units.hpp"

namespace svp {

namespace {

// Trivial types with constant initialisers: operator new asks for them, also while a thread starts or ends.
constinit thread_local HostFaults* calling = nullptr;
constinit thread_local std::uint32_t calling_function = kAny;

bool counts(const HostFault& fault, const HostOccurrence& at, std::chrono::nanoseconds now) {
  constexpr std::int64_t kTickNanoseconds = 1'000'000'000 / wire::kTicksPerSecond;
  const std::int64_t ticks = std::max<std::int64_t>(0, now.count() / kTickNanoseconds);
  return static_cast<std::uint64_t>(ticks) >= fault.trigger.not_before &&
         wire::matches(fault.trigger, at.function, at.stream, at.opcode, at.sequence);
}

}  // namespace

HostFaults::~HostFaults() {
  if (!process_.is_this()) {
    std::construct_at(&later_thread_);  // in a forked child it does not exist
    return;
  }
  {
    const std::lock_guard lock(later_mutex_);
    stopping_ = true;
  }
  later_changed_.notify_all();
  // bounded: stopping_ is set and it was woken; its closures do not block
  if (later_thread_.joinable()) later_thread_.join();
}

void HostFaults::update_mask() {
  std::uint32_t mask = 0;
  for (const Row& row : rows_) {
    if (row.evidence.armed) mask |= bit_of(row.fault.point);
  }
  armed_.store(mask, std::memory_order_relaxed);
}

std::optional<unsigned> HostFaults::arm(const HostFault& fault) {
  const std::lock_guard lock(mutex_);
  for (unsigned i = 0; i < kRows; ++i) {
    if (rows_[i].used) continue;
    rows_[i] = {fault, {}, true};
    rows_[i].evidence.armed = true;
    update_mask();
    return i;
  }
  return std::nullopt;
}

void HostFaults::disarm(unsigned row) {
  const std::lock_guard lock(mutex_);
  rows_.at(row).evidence.armed = false;
  update_mask();
}

void HostFaults::disarm_all() {
  const std::lock_guard lock(mutex_);
  for (Row& row : rows_) row.evidence.armed = false;
  update_mask();
}

HostEvidence HostFaults::evidence(unsigned row) const {
  const std::lock_guard lock(mutex_);
  return rows_.at(row).evidence;
}

std::optional<HostShot> HostFaults::occur(fault::Point point, const HostOccurrence& occurrence) noexcept {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now() - begin_;
  std::optional<HostShot> shot;
  bool changed = false;
  for (Row& row : rows_) {
    HostEvidence& evidence = row.evidence;
    if (!evidence.armed || row.fault.point != point || !counts(row.fault, occurrence, now)) continue;
    ++evidence.counted;
    if (evidence.counted == wire::next_firing(row.fault.trigger, evidence.fired)) {
      shot = HostShot{row.fault.action, row.fault.argument, row.fault.offset};
      if (evidence.fired++ == 0) evidence.first_time = now;
      evidence.last_time = now;
      evidence.last = occurrence;
    }
    // A stall without an end lasts as long as its row is armed.
    const bool endless = row.fault.action == fault::Action::Stall && row.fault.argument == 0;
    if (!endless && wire::next_firing(row.fault.trigger, evidence.fired) == 0) {
      evidence.armed = false;
      changed = true;
    }
    if (shot) break;  // what is broken already is no occurrence for the rows behind, as on the card
  }
  if (changed) update_mask();
  return shot;
}

void HostFaults::later(std::chrono::microseconds delay, std::function<void()> closure) {
  const DriverCall not_the_driver(nullptr);
  {
    const std::lock_guard lock(later_mutex_);
    later_.emplace(Clock::now() + delay, std::move(closure));
    if (!later_thread_.joinable()) later_thread_ = start_thread([this] { run_later(); });
  }
  later_changed_.notify_all();
}

void HostFaults::run_later() {
  std::unique_lock lock(later_mutex_);
  while (!stopping_) {
    if (later_.empty()) {
      later_changed_.wait(lock);  // bounded: the destructor ends it, or a new closure
      continue;
    }
    if (const auto due = later_.begin()->first; due > Clock::now()) {
      later_changed_.wait_until(lock, due);
      continue;
    }
    auto closure = std::move(later_.begin()->second);
    later_.erase(later_.begin());
    lock.unlock();
    closure();
    closure = nullptr;
    lock.lock();
  }
}

DriverCall::DriverCall(HostFaults* faults, std::uint32_t function) noexcept
    : before_(std::exchange(calling, faults)), function_before_(std::exchange(calling_function, function)) {}

DriverCall::~DriverCall() {
  calling = before_;
  calling_function = function_before_;
}

bool DriverCall::active() noexcept { return calling != nullptr; }

bool allocation_fails() noexcept {
  HostFaults* const faults = calling;
  if (faults == nullptr || !faults->armed(fault::Point::Allocation)) return false;
  return faults->occur(fault::Point::Allocation, {.function = calling_function}).has_value();
}

int system_call_error() noexcept {
  HostFaults* const faults = calling;
  if (faults == nullptr || !faults->armed(fault::Point::SystemCall)) return 0;
  const auto shot = faults->occur(fault::Point::SystemCall, {.function = calling_function});
  return shot ? static_cast<int>(shot->argument) : 0;
}

}  // namespace svp
