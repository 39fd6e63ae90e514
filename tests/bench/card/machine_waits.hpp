// SPDX-License-Identifier: Apache-2.0
// What the machine under the emulator took from a job: the time that a thread which carries the job was ready to run and had
// no CPU. Three do: the caller's, hart 0's, and the emulator's main loop, which is the wire that bells and timers come by. On
// silicon a hart is a CPU and a wire is a wire; here they are threads among others, and one slice of the host's scheduler
// (3 ms) that went to somebody else is as long as thirty transfers. What is left without these waits is the card's own
// doing, and what a neighbour keeps busy: a thread that runs does not wait.
#pragma once

#include <sys/types.h>

#include <array>

#include "host_driver/device/card.hpp"

namespace bench {

// Where neighbours flood the wire itself, most of its waits are their doing and not in the job's way: they stay in.
enum class Wire : unsigned char { TakenOut, LeftIn };

class MachineWaits {
 public:
  // Of `card` and of the thread that calls. Where the kernel keeps no such account (CONFIG_SCHED_INFO) nothing has waited.
  explicit MachineWaits(flex::Card& card, Wire wire = Wire::TakenOut);
  ~MachineWaits();
  MachineWaits(const MachineWaits&) = delete;
  MachineWaits& operator=(const MachineWaits&) = delete;

  // Nanoseconds since the threads began; all together. About 3 us.
  double total() const;

 private:
  std::array<int, 3> files_{-1, -1, -1};
};

}  // namespace bench
