// SPDX-License-Identifier: Apache-2.0
// The part of a session that is in the emulator: one thread that does what is due at its time, and undoes it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "host_driver/faults/evidence.hpp"
#include "qemu/frozen_thread.hpp"
#include "qemu/machine.hpp"

namespace svp::fault {

class EmulatorFaults {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts at once: an occurrence is a millisecond from now. `begin` is what the evidence counts its times from.
  // `before_end` is called, by this object's thread, before something that ends a boot of the firmware. The machine
  // outlives this.
  EmulatorFaults(qemu::Machine& machine, std::vector<Evidence> faults, Clock::time_point begin,
                 std::function<void()> before_end);
  // Lets go on what is stopped or frozen, and ends the thread.
  ~EmulatorFaults();
  EmulatorFaults(const EmulatorFaults&) = delete;
  EmulatorFaults& operator=(const EmulatorFaults&) = delete;

  void disarm();  // the same; the evidence stays
  std::vector<Evidence> evidence() const;

 private:
  struct Due {
    std::size_t fault;
    bool undo;
  };

  void run();
  void fire(std::size_t index, std::unique_lock<std::mutex>& lock);
  void undo(std::size_t index, std::unique_lock<std::mutex>& lock);
  // Carries it out; what went wrong, or nothing.
  std::optional<std::string> act(const Fault& fault, std::size_t index);
  std::optional<std::string> freeze(const Fault& fault, std::size_t index);
  Clock::time_point due(const Evidence& evidence) const;

  qemu::Machine& machine_;
  const Clock::time_point begin_;
  const Clock::time_point armed_at_ = Clock::now();
  const std::function<void()> before_end_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<Evidence> faults_;
  std::multimap<Clock::time_point, Due> to_do_;

  // Of the thread alone.
  std::map<std::size_t, qemu::FrozenThread> frozen_;
  std::map<std::size_t, bool> stopped_;

  std::thread thread_;
};

}  // namespace svp::fault
