// SPDX-License-Identifier: Apache-2.0
// Which functions hart 0 looks at. A function that was quiet for kQuietLooks looks in a row is looked at less often:
// one of the quiet ones every few iterations. Its first block waits a few microseconds longer; in return nobody pays
// for neighbours who do nothing. After a long iteration (a kernel's slice, a budget used up) all are looked at. Hart 0
// only, but for iterations().
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <utility>

#include "firmware/core/function_table.hpp"

namespace fw {

// Iterations of the loop that find nothing before hart 0 goes to sleep: long enough to catch the answer of a host that
// is awake (a round trip is about 1 µs), short against the cost of a wake-up (13–40 µs).
inline constexpr unsigned kIdleIterations = 200;
inline constexpr unsigned kQuietLooks = 256;
inline constexpr unsigned kIterationsPerQuietLook = 4;
static_assert(kIdleIterations > kIterationsPerQuietLook * kMaxFunctions,
              "every function is looked at before hart 0 sleeps");

class PollPlan {
 public:
  // ---- who is busy

  bool busy(const Function& function) const { return (busy_ >> function.id() & 1) != 0; }
  std::uint32_t busy_functions() const { return busy_; }
  void look_at(Function& function) {
    if (!busy(function)) function.waiting.begins(served_);
    busy_ |= std::uint32_t{1} << function.id();
  }
  void rest(const Function& function) { busy_ &= ~(std::uint32_t{1} << function.id()); }
  // The one that is served now, as a bit: it may have been quiet until now, and others are not made to wait longer for
  // it than for one that was not.
  std::uint32_t serving() const { return serving_; }
  void begin_serving(const Function& function) { serving_ = std::uint32_t{1} << function.id(); }
  void end_serving() { serving_ = 0; }

  // ---- one iteration

  void begin_iteration() {
    looked_at_ = 0;
    served_functions_ = 0;
    served_control_ = false;
  }
  // A busy function that this iteration has not looked at yet, and it is looked at now; kNobodyLeft: there is none.
  static constexpr unsigned kNobodyLeft = ~0u;
  unsigned next() {
    const std::uint32_t left = busy_ & ~looked_at_;
    if (left == 0) return kNobodyLeft;
    const auto f = static_cast<unsigned>(std::countr_zero(left));
    looked_at_ |= std::uint32_t{1} << f;
    return f;
  }
  // Ends the iteration. A quiet function of `functions` that is looked at as well; kNobodyLeft: none, as in most
  // iterations.
  unsigned end_iteration(std::uint32_t functions) {
    const std::uint32_t iterations = iterations_.load(std::memory_order_relaxed) + 1;
    iterations_.store(iterations, std::memory_order_relaxed);
    if (iterations % kIterationsPerQuietLook != 0) return kNobodyLeft;
    if (++quiet_cursor_ >= functions) quiet_cursor_ = 0;
    return (~(busy_ | looked_at_) >> quiet_cursor_ & 1) != 0 ? quiet_cursor_ : kNobodyLeft;
  }
  std::uint32_t iterations() const { return iterations_.load(std::memory_order_relaxed); }  // since boot; any hart

  // ---- what was done

  // A function had something done.
  void note_quantum() {
    ++served_.quanta;
    ++served_functions_;
  }
  void note_bytes(std::uint64_t bytes) { served_.bytes += bytes; }
  const Served& served() const { return served_; }                 // to all functions
  unsigned served_functions() const { return served_functions_; }  // by the last iteration
  void note_control() { served_control_ = true; }
  bool served_control() const { return served_control_; }  // by the last iteration: control messages

  // ---- quiet functions

  // The iteration was long: somebody quiet may have asked for something since.
  void look_at_all() { look_at_all_ = true; }
  // So many steps were served: after `quantum` of them the quiet ones are looked at.
  void note_steps(std::uint64_t steps, std::uint64_t quantum) {
    unseen_steps_ += steps;
    look_at_all_ |= unseen_steps_ >= quantum;
  }
  // Whether they are to be looked at now, which the caller does.
  bool take_look_at_all() {
    if (!look_at_all_) return false;
    look_at_all_ = false;
    unseen_steps_ = 0;
    return true;
  }

 private:
  std::uint32_t busy_ = 0;  // bit per function: looked at in every iteration
  std::uint32_t serving_ = 0;
  std::uint32_t looked_at_ = 0;
  unsigned served_functions_ = 0;
  bool served_control_ = false;
  bool look_at_all_ = false;
  unsigned quiet_cursor_ = 0;
  std::uint64_t unseen_steps_ = 0;  // since quiet functions were looked at
  Served served_;
  std::atomic<std::uint32_t> iterations_{0};  // of the loop; written by hart 0, read by its watchers
};

}  // namespace fw
