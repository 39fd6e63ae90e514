// SPDX-License-Identifier: Apache-2.0
// Control plane: virtio-msg requests and responses over the two FIFOs of the window (shared/message.hpp).
// Not thread-safe: bring-up and detach use it alone, in between the device serialises.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/transport/doorbells.hpp"
#include "host_driver/transport/running_clock.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/message.hpp"

namespace svp {

class ControlChannel {
 public:
  struct Statistics {  // may be read by any thread
    std::atomic<std::uint64_t> requests{0};
    std::atomic<std::uint64_t> doorbells{0};        // signalled for them: at most one each
    std::atomic<std::uint64_t> stale_responses{0};  // answers to requests that had been given up, or to nothing
    std::atomic<std::uint64_t> malformed{0};        // neither a response nor an event that we know
  };

  // Takes over the FIFOs where they are: what an earlier owner left in them is dropped. `exit_fd` may be -1; it and the
  // doorbells outlive this.
  ControlChannel(std::shared_ptr<Window> window, Doorbells& doorbells, int exit_fd, const Timeouts& timeouts);

  // Sends one request and waits for its response: spins shortly, then sleeps on doorbell and exit descriptor, looking
  // at the header every Timeouts::header_check. Gives up after Timeouts::post_progress without a new POST code; as long
  // as the heartbeat advances, after `timeout` if that is longer. Errors: refused by the card (Rejected), no answer
  // (Indeterminate), card gone (Lost), indices out of range.
  Expected<wire::Message> request(wire::Message message, std::string_view what, Timeouts::Duration timeout = {});

  template <typename Reply, typename Payload>
  Expected<Reply> transact(wire::MessageOp op, const Payload& payload, Timeouts::Duration timeout = {}) {
    const auto answer =
        request(wire::make_message(0, static_cast<std::uint8_t>(op), 0, payload), wire::name(op), timeout);
    if (!answer) return std::unexpected(answer.error());
    Reply reply;
    if (!wire::read_payload(*answer, reply)) return std::unexpected(refused(wire::name(op)));
    return reply;
  }
  // Sends requests that will be made in this order, behind each other and with one doorbell: the call that makes one
  // then only waits for its answer. A call that makes another one forgets those that are left, and their answers are
  // dropped.
  void announce(std::span<const wire::Message> messages);
  template <typename Payload>
  static wire::Message announcement(wire::MessageOp op, const Payload& payload) {
    return wire::make_message(0, static_cast<std::uint8_t>(op), 0, payload);
  }
  // True when some were left: whether the card has carried them out is not known.
  bool forget_announced();
  Expected<void> ping();
  // From now on no request waits longer than this, also for a card that a debugger holds.
  void hurry(Timeouts::Duration limit) {
    timeouts_.post_progress = timeouts_.function_reset = limit / 2;
    clock_.watch(nullptr, {});
  }

  // Waits of this channel and of bring-up do not count the time in which `held()` says that a debugger holds the card.
  void watch_debugger(std::function<bool()> held) {
    clock_.watch(std::move(held), timeouts_.post_progress / kLooksAtDebugger);
  }
  RunningClock& clock() { return clock_; }

  // Takes in what has come unasked. Returns the error of a FIFO whose indices are out of range.
  Expected<void> poll();
  bool has_message() const;

  // DEVICE_NEEDS_RESET was announced by a configuration event since the last successful status 0.
  bool needs_reset() const { return needs_reset_; }
  void forget_needs_reset() { needs_reset_ = false; }
  const Statistics& statistics() const { return statistics_; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Arrival : std::uint8_t { None, Other, Answer };

  // Without a doorbell.
  Expected<void> send(const wire::Message& message, std::string_view what);
  // At once, unless the card was awake a moment ago: then it is likely to see the request by itself, and the doorbell
  // is due when it has not answered shortly.
  void ring_if_asleep();
  void ring();
  void take_token(wire::Message& message);
  // True when it was announced, and is the next of those: its token is then in `message`.
  bool was_announced(wire::Message& message);
  // Takes one message; Answer when it is the response to `token`, which is then in `message`.
  Expected<Arrival> receive(std::uint16_t token, std::uint8_t op, wire::Message& message);
  void take_event(const wire::Message& message);
  // What the fault hooks make of the message that is next: false, it is not to be seen now.
  bool may_take();
  bool stalled() const;
  ErrorInfo refused(std::string_view what) const;
  ErrorInfo no_answer(std::string_view what, Clock::duration waited) const;
  ErrorInfo bad_index(std::string_view fifo, std::uint32_t ours, std::uint32_t theirs) const;
  ErrorInfo card_gone(std::string_view what) const;
  ErrorInfo restarted(std::string_view what) const;

  RunningClock clock_;
  std::shared_ptr<Window> window_;
  Doorbells& doorbells_;
  int exit_fd_;
  Timeouts timeouts_;
  std::uint32_t written_;
  std::uint32_t read_;
  std::uint16_t token_;
  Clock::time_point answered_{};  // while this side was spinning
  bool doorbell_due_ = false;
  int spins_;                             // before a wait sleeps: less where spinning was in vain
  std::vector<wire::Message> announced_;  // the next one first
  std::uint64_t announced_to_ = 0;        // boot of the card
  bool needs_reset_ = false;
  bool judged_ = false;  // the fault hooks have had their say about the next message
  bool drop_next_ = false;
  std::optional<std::uint64_t> corrupt_next_;  // byte
  std::optional<Clock::time_point> stalled_until_;
  Statistics statistics_;
};

}  // namespace svp
