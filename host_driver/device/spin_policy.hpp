// SPDX-License-Identifier: Apache-2.0
// How long a waiting thread may spin before it sleeps. Two rules (protocol §8, performance.md): never more spinning
// threads than usable CPUs - 1 in this process (usable_cpus.hpp; the card needs one), and spin only as long as spinning
// lately paid off.
#pragma once

#include <atomic>
#include <chrono>

#include "host_driver/base/timeouts.hpp"

namespace svp {

class SpinPolicy {
 public:
  using Duration = std::chrono::nanoseconds;

  // Counts the CPUs, see count_cpus().
  SpinPolicy(const Timeouts& timeouts, bool disabled);

  // Counts them anew, for the whole process, unless that was done a moment ago: what it may use changes, and threads
  // restrict themselves. That reads files of the system: whoever is about to attach does it while others work.
  static void count_cpus();

  // The permission to spin, for as long as it exists.
  class Permit {
   public:
    explicit Permit(SpinPolicy& policy);
    ~Permit() { stop(); }
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    Duration budget() const { return budget_; }
    void stop();  // gives the CPU's place back early

   private:
    bool holds_place_ = false;
    Duration budget_{0};
  };

  // The wait is over: how long it took since something was found last, and whether it slept meanwhile. A wait shorter
  // than a sleep costs pays for more spinning next time, a longer one for less. A wait that slept would have been
  // shorter by just that cost (up to 135 µs, more on a busy machine) had it spun: without this allowance, two sides
  // that both sleep would never find out that they need not. Thread-safe; approximate.
  void learn(Duration waited, bool slept) {
    const auto now = budget_.load(std::memory_order_relaxed);
    const auto next =
        waited <= (slept ? 3 * max_ : max_) ? std::min(max_.count(), now * 2) : std::max(min_.count(), now / 2);
    if (next != now) budget_.store(next, std::memory_order_relaxed);
  }

 private:
  friend class Permit;
  const Duration min_;
  const Duration max_;
  std::atomic<Duration::rep> budget_;
};

}  // namespace svp
