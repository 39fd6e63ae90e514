// SPDX-License-Identifier: Apache-2.0
// Where the reset of a function, or of one of its queues, stands (protocol §9). What is done in each state is in
// reset.cpp; this class holds what has to be remembered until the answer, and the price of resets. Hart 0 only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "firmware/core/states.hpp"
#include "firmware/core/timeouts.hpp"
#include "shared/message.hpp"

namespace fw {

class FunctionReset {
 public:
  using State = ResetState;

  // `function` is whose it is, for the log.
  void init(std::uint32_t function) { function_ = function; }

  State state() const { return machine_.state(); }
  bool running() const { return !machine_.is(State::None); }
  bool of_function() const { return machine_.is(State::Stopping) || machine_.is(State::Released); }

  // None → OfQueue. The request is answered when it ends.
  void begin_queue(std::uint32_t queue, const wire::Message& request) {
    set_state(State::OfQueue);
    queue_ = queue;
    owe_answer(request);
  }
  std::uint32_t queue() const { return queue_; }

  // → Stopping, at device ticks `now`. `charged`: a driver was at work.
  void begin(std::uint64_t now, bool charged) {
    if (of_function()) restart();  // of a mutant: resets do not join
    set_state(State::Stopping);
    began_ = now;
    charged_ = charged;
    stall_end_ = kNeverTicks;
  }
  // Stopping → Released.
  void release(std::uint64_t now) {
    set_state(State::Released);
    stall_end_ = kNeverTicks;
    stop_ticks_ = now - began_;
  }
  // → None.
  void end() { set_state(State::None); }

  // The driver asked for it, and is told of its end.
  void owe_answer(const wire::Message& request) { request_ = request; }
  void owe_nothing() { request_.reset(); }
  std::optional<wire::Message> take_request() { return std::exchange(request_, std::nullopt); }

  // Each reset of a function at work is paid for with kResetTicks, and credit is given for kResetsInARow of them.
  // False: it is in debt, while others are at work (`contended`).
  bool pay(std::uint64_t now, bool contended) {
    if (!charged_) return true;
    const bool in_debt = paid_until_ + kResetTicks > now + kResetsInARow * kResetTicks;
    if (in_debt && contended) return false;
    if (!in_debt) paid_until_ = std::max(paid_until_, now) + kResetTicks;
    return true;
  }

  // FaultPoint::FunctionReset: until when it is held back; kNeverTicks: not asked yet.
  std::uint64_t stall_end() const { return stall_end_; }
  void stall_until(std::uint64_t ticks) { stall_end_ = ticks; }

  // Resets of the function that have ended.
  std::uint64_t count() const { return count_; }
  void count_one() { ++count_; }
  std::uint64_t stop_ticks() const { return stop_ticks_; }  // from begin to Released, of the last one

 private:
  static constexpr std::uint64_t kNeverTicks = ~std::uint64_t{0};

  void set_state(State to) { fw::set_state(Machine::FunctionReset, machine_, to, function_); }
  void restart() {
    if (machine_.is(State::Stopping)) set_state(State::Released);
    set_state(State::None);
  }

  StateMachine<kResetStates> machine_;
  std::uint32_t function_ = 0;
  std::uint32_t queue_ = 0;
  std::optional<wire::Message> request_;
  std::uint64_t began_ = 0;  // device ticks
  bool charged_ = false;
  std::uint64_t paid_until_ = 0;  // device ticks
  std::uint64_t stall_end_ = kNeverTicks;
  std::uint64_t count_ = 0;
  std::uint64_t stop_ticks_ = 0;
};

}  // namespace fw
