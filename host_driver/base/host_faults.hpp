// SPDX-License-Identifier: Apache-2.0
// What the driver breaks in itself when it is told to: allocations, system calls, steps of bring-up, and what it hears
// from the card. The card's own points are in shared/fault.hpp; scripts over both in host_driver/faults.
//
// One HostFaults serves all devices of a scenario. Every place asks armed() first: one relaxed load of a mask that no
// thread writes while nothing is being armed. Thread-safe; strike() neither allocates nor blocks but for a short lock.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "host_driver/base/process.hpp"

namespace svp {

enum class HostPoint : std::uint8_t {
  Allocation,      // an allocation of the driver, in a call that is marked by DriverCall
  SystemCall,      // likewise a system call that may fail
  BringUpStep,     // a step of bring-up is about to be done
  AdminReply,      // the reply of an admin command has come
  DoorbellToCard,  // the card is about to be signalled
  DoorbellToHost,  // the card's ring was heard
  Completion,      // a completion was taken from the ring
  Window,          // completions are about to be taken from the ring
  ControlFifo,     // a control message of the card is about to be taken
};
inline constexpr unsigned kHostPoints = static_cast<unsigned>(HostPoint::ControlFifo) + 1;

enum class HostAction : std::uint8_t {
  Fail,       // SystemCall: with the errno `argument`
  Suppress,   // does not happen
  Duplicate,  // happens twice
  Delay,      // happens `argument` microseconds later
  Corrupt,    // Completion, ControlFifo: the byte `argument` is inverted; Window: the bits `argument` of a byte
  Stall,      // nothing is taken for `argument` microseconds; 0: until it is disarmed
};

// Of those that count, number `first` fires, and then every `every`-th, `shots` times in all: the card decides likewise
// (shared/fault.hpp).
constexpr bool is_due(std::uint64_t counted, std::uint64_t first, std::uint64_t every, std::uint64_t fired,
                      std::uint64_t shots) {
  if ((shots != 0 && fired >= shots) || counted < first) return false;
  return counted == first || (every != 0 && (counted - first) % every == 0);
}

inline constexpr std::uint32_t kAny = ~std::uint32_t{0};

struct HostFault {
  HostPoint point = HostPoint::Allocation;
  HostAction action = HostAction::Fail;
  std::uint32_t function = kAny;            // wire::Target
  std::uint32_t stream = kAny;              // Completion
  std::uint32_t opcode = kAny;              // AdminReply: wire::AdminCommand
  std::uint64_t sequence = 0;               // Completion; 0: any
  std::uint64_t first = 1;                  // from 1
  std::uint64_t every = 0;                  // 0: never again after the first
  std::uint64_t shots = 1;                  // 0: no limit
  std::chrono::microseconds not_before{0};  // since begin()
  std::uint64_t argument = 0;
  std::uint64_t offset = 0;  // Window: bytes
};

// What happens at a point just now.
struct HostOccurrence {
  std::uint32_t function = kAny;
  std::uint32_t stream = kAny;
  std::uint32_t opcode = kAny;
  std::uint64_t sequence = 0;
};

struct HostStrike {
  HostAction action;
  std::uint64_t argument;
  std::uint64_t offset;
};

struct HostEvidence {
  std::uint64_t counted = 0;
  std::uint64_t fired = 0;
  std::chrono::nanoseconds first_time{0};  // since begin()
  std::chrono::nanoseconds last_time{0};
  HostOccurrence last{};  // the one that fired last
  bool armed = false;
};

class HostFaults {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr unsigned kRows = 16;

  HostFaults() = default;
  ~HostFaults();
  HostFaults(const HostFaults&) = delete;
  HostFaults& operator=(const HostFaults&) = delete;

  // Times count from here. Without it: from construction.
  void begin(Clock::time_point now) { begin_ = now; }
  // The row, or nothing when all are taken.
  std::optional<unsigned> arm(const HostFault& fault);
  // The evidence stays.
  void disarm(unsigned row);
  void disarm_all();
  HostEvidence evidence(unsigned row) const;

  // Whether anything may fire at the point.
  bool armed(HostPoint point) const noexcept {
    return (armed_.load(std::memory_order_relaxed) >> static_cast<unsigned>(point) & 1) != 0;
  }
  // Counts the occurrence; what is to be done when it is due. Call when armed() only.
  std::optional<HostStrike> strike(HostPoint point, const HostOccurrence& occurrence) noexcept;

  // Runs a closure later, on a thread of its own; what is still to come when this ends is dropped.
  void later(std::chrono::microseconds delay, std::function<void()> closure);

 private:
  struct Row {
    HostFault fault;
    HostEvidence evidence;
    bool used = false;
  };
  void update_mask();  // holds mutex_
  void run_later();

  std::atomic<std::uint32_t> armed_{0};
  mutable std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();
  std::array<Row, kRows> rows_{};

  std::mutex later_mutex_;
  std::condition_variable later_changed_;
  std::multimap<Clock::time_point, std::function<void()>> later_;
  bool stopping_ = false;
  std::thread later_thread_;
  OwnerProcess process_;
};

// ---- calls of the driver ------------------------------------------------------------------------------------------------

// While one lives, this thread's allocations and system calls are the driver's: Allocation and SystemCall count them.
// Null suspends that: for calls into somebody else's code, and for telling of an error.
class DriverCall {
 public:
  explicit DriverCall(HostFaults* faults, std::uint32_t function = kAny) noexcept;
  ~DriverCall();
  DriverCall(const DriverCall&) = delete;
  DriverCall& operator=(const DriverCall&) = delete;

  static bool active() noexcept;

 private:
  HostFaults* before_;
  std::uint32_t function_before_;
};

// Asked by an operator new that a program links in (host_driver/faults/allocation_hook.cpp).
bool allocation_fails() noexcept;
// 0, or the errno that the next system call of this thread shall fail with.
int system_call_error() noexcept;

}  // namespace svp
