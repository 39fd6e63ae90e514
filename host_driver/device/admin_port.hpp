// SPDX-License-Identifier: Apache-2.0
// Queue 0: admin requests in flight. One ticket per request, on the waiting thread's stack.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "host_driver/transport/fault_hooks.hpp"
#include "host_driver/transport/packed_queue.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/admin.hpp"

namespace svp {

class AdminPort {
 public:
  class Ticket {
   public:
    enum class State : std::uint8_t { Waiting, Answered, Gone };
    State state() const { return state_.load(std::memory_order_acquire); }
    const wire::AdminReply& reply() const { return reply_; }  // once Answered

   private:
    friend class AdminPort;
    std::atomic<State> state_{State::Waiting};
    wire::AdminReply reply_{};
    std::uint64_t cookie_ = 0;
    std::uint16_t slot_ = 0;
  };
  enum class Begin : std::uint8_t { Sent, Full, Closed };

  AdminPort(Window& window, PackedQueue queue, std::uint64_t generation, FaultSite faults = {});

  // Fills in magic, generation and cookie, and sends. `kick`: the card wants a doorbell.
  Begin begin(wire::AdminRequest& request, Ticket& ticket, bool& kick);
  // The waiting thread gives up: the ticket is not touched any more; its slot stays taken until the card answers.
  void abandon(Ticket& ticket);
  bool can_begin() const;

  // ---- reaping thread
  bool has_used() const { return !dead_ && queue_.has_used(); }
  // Takes replies and asks for the next doorbell. Returns how many.
  std::size_t harvest();
  const std::string& violation() const { return violation_; }
  void close();

  std::size_t outstanding() const { return outstanding_.load(std::memory_order_acquire); }

 private:
  mutable std::mutex mutex_;
  Window& window_;
  PackedQueue queue_;
  const std::uint64_t generation_;
  const FaultSite faults_;
  std::uint64_t next_cookie_ = 1;
  std::array<Ticket*, wire::kAdminSlots> tickets_{};
  std::array<std::uint64_t, wire::kAdminSlots> cookies_{};
  std::array<wire::AdminCommand, wire::kAdminSlots> commands_{};
  std::atomic<std::size_t> outstanding_{0};
  bool closed_ = false;
  std::string violation_;  // of the reaping thread
  bool dead_ = false;      // likewise
};

}  // namespace svp
