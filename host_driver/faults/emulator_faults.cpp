// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/emulator_faults.hpp"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "host_driver/base/start_thread.hpp"
#include "host_driver/base/timeouts.hpp"
#include "qemu/machine_error.hpp"

namespace svp::fault {

namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

std::optional<std::string> problem(const qemu::Result<void>& done) {
  return done ? std::nullopt : std::optional(done.error().message);
}

// Number of the millisecond at which it fires next; 0: never again.
std::uint64_t next_occurrence(const Evidence& evidence) {
  return wire::next_firing(carried_out(evidence.fault.trigger, 0), evidence.fired);
}

}  // namespace

EmulatorFaults::EmulatorFaults(qemu::Machine& machine, std::vector<Evidence> faults, Clock::time_point begin,
                               std::function<void()> before_end)
    : machine_(machine), begin_(begin), before_end_(std::move(before_end)), faults_(std::move(faults)) {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    faults_[i].was_armed = faults_[i].still_armed = true;
    to_do_.emplace(due(faults_[i]), Due{i, false});
  }
  thread_ = start_thread([this] { run(); });
}

EmulatorFaults::~EmulatorFaults() { disarm(); }

void EmulatorFaults::disarm() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  // bounded: stopping_ is set and it was woken; a task is a signal or a QMP command
  if (thread_.joinable()) thread_.join();
}

std::vector<Evidence> EmulatorFaults::evidence() const {
  const std::lock_guard lock(mutex_);
  std::vector<Evidence> result = faults_;
  const auto now = Clock::now();
  for (Evidence& evidence : result) {
    const auto waited = duration_cast<microseconds>(now - armed_at_).count();
    const auto before = static_cast<std::int64_t>(evidence.fault.trigger.not_before_us.low);
    if (evidence.still_armed)
      evidence.counted = static_cast<std::uint64_t>(std::max<std::int64_t>(0, waited - before) / 1000);
    evidence.counted = std::max(evidence.counted, evidence.fired);
  }
  return result;
}

// When it fires next.
EmulatorFaults::Clock::time_point EmulatorFaults::due(const Evidence& evidence) const {
  const Trigger& trigger = evidence.fault.trigger;
  return armed_at_ + microseconds(trigger.not_before_us.low) + milliseconds(next_occurrence(evidence));
}

void EmulatorFaults::run() {
  ::pthread_setname_np(::pthread_self(), "spyre-faults");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (to_do_.empty()) {
      changed_.wait(lock);  // bounded: disarm() ends it, which the destructor calls
      continue;
    }
    if (const auto when = to_do_.begin()->first; when > Clock::now()) {
      changed_.wait_until(lock, when);
      continue;
    }
    const Due task = to_do_.begin()->second;
    to_do_.erase(to_do_.begin());
    if (task.undo) {
      undo(task.fault, lock);
    } else {
      fire(task.fault, lock);
    }
  }
  for (std::size_t i = 0; i < faults_.size(); ++i) undo(i, lock);
  for (Evidence& evidence : faults_) evidence.still_armed = false;
}

void EmulatorFaults::fire(std::size_t index, std::unique_lock<std::mutex>& lock) {
  const Fault fault = faults_[index].fault;
  lock.unlock();
  const auto problem = act(fault, index);
  const auto now = Clock::now();
  lock.lock();
  Evidence& evidence = faults_[index];
  if (problem) {
    evidence.note = *problem;
    evidence.still_armed = false;
    return;
  }
  const std::uint64_t number = next_occurrence(evidence);
  evidence.last_us = static_cast<std::uint64_t>(duration_cast<microseconds>(now - begin_).count());
  if (evidence.fired++ == 0) evidence.first_us = evidence.last_us;
  evidence.counted = number;
  evidence.hart = fault.hart;
  if (fault.action == Action::Stall && fault.argument.low != 0) {
    to_do_.emplace(now + milliseconds(fault.argument.low), Due{index, true});
  }
  evidence.still_armed = next_occurrence(evidence) != 0;
  if (evidence.still_armed) to_do_.emplace(std::max(due(evidence), now), Due{index, false});
}

void EmulatorFaults::undo(std::size_t index, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  frozen_.erase(index);
  std::optional<std::string> trouble;
  if (stopped_.erase(index) != 0 && stopped_.empty() && machine_.alive()) trouble = problem(machine_.cont());
  lock.lock();
  if (trouble) faults_[index].note = *trouble;
}

std::optional<std::string> EmulatorFaults::act(const Fault& fault, std::size_t index) {
  switch (fault.point) {
    case Point::Stop:
      if (auto trouble = problem(machine_.stop())) return trouble;
      stopped_[index] = true;
      return std::nullopt;
    case Point::FreezeHart: return freeze(fault, index);
    case Point::SystemReset: before_end_(); return problem(machine_.system_reset());
    case Point::Kill: {
      before_end_();
      const auto killed = machine_.kill();
      return killed ? std::nullopt : std::optional(killed.error().message);
    }
    case Point::SocketCut: machine_.cut_control(); return std::nullopt;
    default: return "this is no point of the emulator";
  }
}

std::optional<std::string> EmulatorFaults::freeze(const Fault& fault, std::size_t index) {
  const auto harts = machine_.hart_threads();
  if (!harts) return harts.error().message;
  const auto found = std::ranges::find(*harts, fault.hart.value_or(0), &qemu::HartThread::hart);
  if (found == harts->end()) {
    return "there is no hart " + std::to_string(fault.hart.value_or(0)) + ", the card has " +
           std::to_string(harts->size());
  }
  frozen_.erase(index);
  auto frozen = qemu::FrozenThread::freeze(found->host_thread, kFreezeLimit);
  if (!frozen) return frozen.error().message;
  frozen_.emplace(index, *std::move(frozen));
  return std::nullopt;
}

}  // namespace svp::fault
