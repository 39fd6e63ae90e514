// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <vector>

#include "host_driver/frontend/context.hpp"

namespace bench {

// For as long as it exists: this thread and the card's hart 0 on different CPUs. On a busy machine the scheduler may
// put both on one, where a polled round trip takes two time slices whatever is measured. The emulator's main loop,
// which carries the doorbells, stays on this thread's side: a wire does not take turns with the card, and where it
// does, a flood of doorbells costs the card a whole slice of the host's scheduler now and then. Only these three
// threads are touched; threads that are started meanwhile inherit the placement, so peers are opened before. On one CPU
// it does nothing.
class Apart {
 public:
  explicit Apart(svp::Context& card) : Apart(card.card()) {}
  explicit Apart(svp::Card& card);
  ~Apart();
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;

 private:
  struct Moved {
    pid_t thread;
    cpu_set_t before;
  };
  void move(pid_t thread, int cpu);
  std::vector<Moved> moved_;
};

}  // namespace bench
