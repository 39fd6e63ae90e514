// SPDX-License-Identifier: Apache-2.0
// What the driver breaks in itself when it is told to: allocations, system calls, steps of bring-up, and what it
// receives from the card. Scripts over all points: host_driver/faults.
//
// One HostFaults serves all devices of a scenario. Every place asks armed() first: one relaxed load of a mask that no
// thread writes while nothing is being armed. Thread-safe; occur() neither allocates nor blocks but for a short lock.
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

#include "host_driver/base/fault_point.hpp"
#include "host_driver/base/process.hpp"

namespace svp {

inline constexpr std::uint32_t kAny = ~std::uint32_t{0};

// One fault of the driver or the transport (fault::Point 0x100 … 0x2ff). Its trigger's `not_before` counts device ticks
// since begin().
struct HostFault {
  fault::Point point = fault::Point::Allocation;
  fault::Action action = fault::Action::Fail;
  wire::FaultTrigger trigger = wire::occurrences();
  std::uint64_t argument = 0;  // SystemCall: errno; Delay, Stall: microseconds; Corrupt: as the catalogue says
  std::uint64_t offset = 0;    // Window: bytes
};

// What happens at a point just now.
struct HostOccurrence {
  std::uint32_t function = kAny;
  std::uint32_t stream = kAny;
  std::uint32_t opcode = kAny;
  std::uint64_t sequence = 0;
};

// What a fault that fires does.
struct HostShot {
  fault::Action action;
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
  bool armed(fault::Point point) const noexcept {
    return (armed_.load(std::memory_order_relaxed) & bit_of(point)) != 0;
  }
  // Counts the occurrence; what is to be done when it is due. Call when armed() only.
  std::optional<HostShot> occur(fault::Point point, const HostOccurrence& occurrence) noexcept;

  // Runs a closure later, on a thread of its own; what is still to come when this ends is dropped.
  void later(std::chrono::microseconds delay, std::function<void()> closure);

 private:
  struct Row {
    HostFault fault;
    HostEvidence evidence;
    bool used = false;
  };
  // 0x100 … 0x107 and 0x200 … 0x207 are bits 0 … 15.
  static constexpr std::uint32_t bit_of(fault::Point point) {
    const auto number = static_cast<std::uint32_t>(point);
    return std::uint32_t{1} << ((number >> 8) * 8 - 8 + (number & 7));
  }
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

// ---- calls of the driver --------------------------------------------------------------------------------------------

// While one exists, this thread's allocations and system calls are the driver's: Allocation and SystemCall count them.
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
