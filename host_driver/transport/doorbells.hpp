// SPDX-License-Identifier: Apache-2.0
// The two doorbells of a slot. Hints only: they coalesce, get lost and may come for nothing; the rings are the state.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "host_driver/base/unique_fd.hpp"
#include "host_driver/transport/fault_hooks.hpp"
#include "host_driver/transport/slot_handle.hpp"

namespace svp {

// Decides whether a fault hook fires: probability p per question, from a seed, the same on every machine. Thread-safe.
class Chance {
 public:
  Chance(double probability, std::uint64_t seed);
  bool armed() const { return threshold_ != 0; }
  // False at once when disarmed: one predictable branch.
  bool fires() { return armed() && roll(); }
  // How often it did: evidence that a fault was there.
  std::uint64_t fired() const { return fired_.load(std::memory_order_relaxed); }

 private:
  bool roll();
  std::uint64_t draw();
  std::uint64_t threshold_;  // fires when a 64-bit draw is below; ~0 = always
  std::atomic<std::uint64_t> state_;
  std::atomic<std::uint64_t> fired_{0};
};

class Doorbells {
 public:
  Doorbells(SlotHandle slot, const FaultHooks& faults);

  // Rings the card. Never blocks, never fails: a full pipe means that enough rings are pending, a dead reader is
  // noticed elsewhere. No SIGPIPE. Thread-safe.
  void ring();

  // Readable when the card rang; also when the emulator is gone (hang-up).
  int from_card() const { return slot_.doorbell_from_card(); }
  // Takes all pending rings. Thread-safe.
  void drain() const;
  // What the fault hooks make of the ring that was just received.
  struct Received {
    bool lost = false;   // take it for silence
    bool twice = false;  // it will be received once more
    std::chrono::microseconds delay{0};
  };
  Received receive() { return faulty_ ? receive_faulty() : Received{}; }
  const FaultSite& faults() const { return faults_; }

  struct Wakeup {
    bool rang = false;  // the doorbell was signalled (and taken)
    bool gone = false;  // the doorbell hung up or the exit descriptor is readable: the emulator has ended
  };
  // Sleeps until the doorbell rings, the emulator ends, `wake_fd` becomes readable or the time is over. Descriptors
  // below 0 are left out. A ring that a fault hook takes away ends the sleep at its bound
  // only.
  Wakeup sleep(int exit_fd, int wake_fd, std::chrono::nanoseconds bound);

  std::uint64_t signalled() const { return signalled_.load(std::memory_order_relaxed); }
  // By the fault hooks: doorbells that were not signalled, and doorbells that were received and ignored.
  std::uint64_t dropped_to_card() const { return lose_to_card_.fired(); }
  std::uint64_t dropped_from_card() const { return lose_from_card_.fired(); }
  const SlotHandle& slot() const { return slot_; }

 private:
  void write_guarded() const;
  void write_ring() const;
  bool may_ring();
  Received receive_faulty();

  SlotHandle slot_;
  // A reading end of our own on the pipe to the card: while it is open, a write after the emulator's death is no
  // SIGPIPE. Not to be had when /proc is absent; then the signal is held back around each write.
  UniqueFd reader_;
  FaultSite faults_;
  const bool faulty_;  // any hook for doorbells is there
  Chance lose_to_card_;
  Chance lose_from_card_;
  std::atomic<std::uint64_t> signalled_{0};
  std::atomic<bool> echo_{false};  // the next sleep finds a doorbell that is not there
};

}  // namespace svp
