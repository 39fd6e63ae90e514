// SPDX-License-Identifier: Apache-2.0
#include "host_driver/transport/control_channel.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host_driver/transport/pause.hpp"

namespace svp {

using wire::Message;

namespace {

// A control message is answered in some ten microseconds when the card is awake. When it sleeps, or has no CPU, whoever
// waits for it spins on a CPU that the emulator could have: then shortly.
constexpr int kSpins = 2000;
constexpr int kFewestSpins = 250;
// A card that has answered goes on looking for so long, with a margin: it needs no doorbell, which costs the emulator's
// main loop an iteration and the card an interruption. One that does not answer within so many spins gets it all the
// same.
constexpr std::chrono::microseconds kStaysAwake{10};  // bounded: not a wait, only whether a doorbell can wait
constexpr int kSpinsWithoutDoorbell = 250;

std::string post_of(const HeaderView& header) {
  return "POST " + std::to_string(static_cast<std::uint32_t>(header.post_code)) + " (" +
         std::string(wire::name(header.post_code)) + ")";
}

}  // namespace

ControlChannel::ControlChannel(std::shared_ptr<Window> window, Doorbells& doorbells, int exit_fd,
                               const Timeouts& timeouts)
    : window_(std::move(window)), doorbells_(doorbells), exit_fd_(exit_fd), timeouts_(timeouts) {
  written_ = wire::load_relaxed(window_->fifo_to_card().written);
  read_ = wire::load_acquire(window_->fifo_to_host().written);
  wire::store_release(window_->fifo_to_host().read, read_);
  // Answers to an earlier owner's last requests may still come: start somewhere else. 0 is for events.
  token_ = static_cast<std::uint16_t>(Clock::now().time_since_epoch().count() >> 10);
  spins_ = kSpins;
}

ErrorInfo ControlChannel::refused(std::string_view what) const {
  return {.layer = Layer::Firmware,
          .source = std::string(what),
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "read the card's console; a status out of order or a queue set twice is refused",
          .message = "the card refused " + std::string(what) + " at " + post_of(window_->header())};
}

ErrorInfo ControlChannel::no_answer(std::string_view what, Clock::duration waited) const {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
  return {.layer = Layer::Firmware,
          .source = std::string(what),
          .outcome = wire::Outcome::Indeterminate,
          .recoverable = false,
          .next_step = "read the card's console, then start a new card",
          .message = "no answer to " + std::string(what) + " in " + std::to_string(milliseconds) +
                     " ms; the card shows " + post_of(window_->header())};
}

ErrorInfo ControlChannel::bad_index(std::string_view fifo, std::uint32_t ours, std::uint32_t theirs) const {
  return {.layer = Layer::Transport,
          .source = std::string(fifo),
          .outcome = wire::Outcome::Indeterminate,
          .recoverable = false,
          .next_step = "start a new card",
          .message = "the card's index of the " + std::string(fifo) + " is " + std::to_string(theirs) + ", ours " +
                     std::to_string(ours) + ": more than the " + std::to_string(wire::kFifoSlots) +
                     " messages it can hold"};
}

ErrorInfo ControlChannel::card_gone(std::string_view what) const {
  return {.layer = Layer::Emulator,
          .source = "emulator process",
          .outcome = wire::Outcome::Lost,
          .recoverable = false,
          .next_step = "start a new card",
          .message =
              "the card died while " + std::string(what) + " waited for its answer, at " + post_of(window_->header())};
}

ErrorInfo ControlChannel::restarted(std::string_view what) const {
  return {.layer = Layer::Firmware,
          .source = std::string(what),
          .outcome = wire::Outcome::Indeterminate,
          .recoverable = true,
          .next_step = "attach again",
          .message = "the card was restarted while " + std::string(what) + " waited for its answer"};
}

Expected<void> ControlChannel::send(const Message& message, std::string_view what) {
  wire::Fifo& fifo = window_->fifo_to_card();
  const std::uint32_t taken = wire::load_acquire(fifo.read);
  const std::uint32_t waiting = written_ - taken;
  if (waiting > wire::kFifoSlots) return std::unexpected(bad_index("control FIFO to the card", written_, taken));
  // A few requests at a time: a full FIFO holds sixty that nobody took.
  if (waiting == wire::kFifoSlots) return std::unexpected(no_answer(what, {}));
  wire::store_shared_words(reinterpret_cast<std::uint64_t*>(&fifo.slots[written_ % wire::kFifoSlots]),
                           reinterpret_cast<const std::uint64_t*>(&message), sizeof message / 8);
  ++written_;
  wire::store_release(fifo.written, written_);
  ++statistics_.requests;
  return {};
}

void ControlChannel::ring_if_asleep() {
  doorbell_due_ = Clock::now() - answered_ < kStaysAwake;
  if (!doorbell_due_) ring();
}

void ControlChannel::ring() {
  doorbell_due_ = false;
  ++statistics_.doorbells;
  doorbells_.ring();
}

void ControlChannel::take_token(Message& message) {
  if (++token_ == 0) ++token_;
  message.header.token = token_;
}

void ControlChannel::announce(std::span<const Message> messages) {
  announced_.clear();
  announced_to_ = window_->header().boot_epoch;
  for (Message message : messages) {
    take_token(message);
    if (!send(message, "an announced request")) break;  // whoever makes it is told why
    announced_.push_back(message);
  }
  if (!announced_.empty()) ring_if_asleep();
}

bool ControlChannel::forget_announced() {
  const bool any = !announced_.empty();
  announced_.clear();
  return any;
}

bool ControlChannel::was_announced(Message& message) {
  if (announced_.empty()) return false;
  message.header.token = announced_.front().header.token;
  if (std::memcmp(&message, &announced_.front(), sizeof message) != 0) {
    announced_.clear();
    return false;
  }
  announced_.erase(announced_.begin());
  return true;
}

bool ControlChannel::has_message() const {
  return wire::load_acquire(window_->fifo_to_host().written) != read_ && !stalled();
}

bool ControlChannel::stalled() const {
  if (!stalled_until_) return false;
  return Clock::now() < *stalled_until_ && doorbells_.faults().armed(fault::Point::ControlFifo);
}

bool ControlChannel::may_take() {
  if (!judged_) {
    judged_ = true;
    if (const auto shot = doorbells_.faults().occur(fault::Point::ControlFifo)) {
      drop_next_ = shot->action == fault::Action::Suppress;
      if (shot->action == fault::Action::Corrupt) corrupt_next_ = shot->argument % wire::kMessageBytes;
      if (shot->action == fault::Action::Stall) {
        stalled_until_ =
            shot->argument == 0 ? Clock::time_point::max() : Clock::now() + std::chrono::microseconds(shot->argument);
      }
    }
  }
  if (stalled()) return false;
  stalled_until_.reset();
  return true;
}

void ControlChannel::take_event(const Message& message) {
  wire::ConfigEvent event{};
  if (message.header.type != 0 || message.header.op != static_cast<std::uint8_t>(wire::MessageOp::EventConfig) ||
      !wire::read_payload(message, event)) {
    ++statistics_.malformed;
    return;
  }
  if ((event.status & wire::kStatusNeedsReset) != 0) needs_reset_ = true;
}

Expected<ControlChannel::Arrival> ControlChannel::receive(std::uint16_t token, std::uint8_t op, Message& message) {
  wire::Fifo& fifo = window_->fifo_to_host();
  const std::uint32_t theirs = wire::load_acquire(fifo.written);
  if (theirs == read_) return Arrival::None;
  if (theirs - read_ > wire::kFifoSlots) return std::unexpected(bad_index("control FIFO to the host", read_, theirs));
  const bool injected = judged_ || doorbells_.faults().armed(fault::Point::ControlFifo);
  if (injected && !may_take()) return Arrival::None;
  wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&message),
                          reinterpret_cast<const std::uint64_t*>(&fifo.slots[read_ % wire::kFifoSlots]),
                          sizeof message / 8);
  ++read_;
  wire::store_release(fifo.read, read_);
  if (injected) {
    judged_ = false;
    if (const auto byte = std::exchange(corrupt_next_, std::nullopt)) {
      reinterpret_cast<unsigned char*>(&message)[*byte] ^= 0xFF;
    }
    if (std::exchange(drop_next_, false)) return Arrival::Other;
  }
  if ((message.header.type & wire::kMessageResponse) == 0) {
    take_event(message);
    return Arrival::Other;
  }
  if (token == 0 || message.header.token != token || message.header.op != op) {
    ++statistics_.stale_responses;
    return Arrival::Other;
  }
  return Arrival::Answer;
}

Expected<void> ControlChannel::poll() {
  Message message;
  // Bounded: a card that writes without end must not hold the caller.
  for (std::uint32_t i = 0; i < wire::kFifoSlots; ++i) {
    const auto arrival = receive(0, 0, message);
    if (!arrival) return std::unexpected(arrival.error());
    if (*arrival == Arrival::None) break;
  }
  return {};
}

Expected<Message> ControlChannel::request(Message message, std::string_view what, Timeouts::Duration timeout) {
  HeaderView last = window_->header();
  std::uint64_t boot = last.boot_epoch;
  if (was_announced(message)) {
    boot = announced_to_;
  } else {
    take_token(message);
    if (auto sent = send(message, what); !sent) return std::unexpected(std::move(sent.error()));
    ring_if_asleep();
  }

  const auto start = clock_.now();
  auto progress = start;  // of the POST code
  auto beat = start;
  Message answer;
  bool gone = false;
  const int limit = spins_;
  for (int spins = 0;; ++spins) {
    const auto arrival = receive(message.header.token, message.header.op, answer);
    if (!arrival) return std::unexpected(arrival.error());
    if (*arrival == Arrival::Answer) {
      const bool empty = answer.header.size <= sizeof(wire::MessageHeader) || answer.header.size > wire::kMessageBytes;
      if (spins < limit) {
        spins_ = std::min(limit * 2, kSpins);
        answered_ = Clock::now();
      }
      if (announced_.empty()) doorbell_due_ = false;
      if (empty) return std::unexpected(refused(what));
      return answer;
    }
    if (gone && *arrival == Arrival::None) return std::unexpected(card_gone(what));
    if (doorbell_due_ && spins >= kSpinsWithoutDoorbell) ring();
    if (spins < limit) {
      cpu_pause();
      continue;
    }
    if (spins == limit) spins_ = std::max(limit / 4, kFewestSpins);
    // What the card had written before its end still counts. No sleep while it keeps talking of something else.
    if (*arrival == Arrival::None) gone = doorbells_.sleep(exit_fd_, -1, timeouts_.header_check).gone;
    const auto now = clock_.now();
    const HeaderView header = window_->header();
    if (header.post_code != last.post_code) progress = now;
    if (header.heartbeat != last.heartbeat) beat = now;
    last = header;
    // A card that begins another boot skips what lay in its FIFO: its answer will not come, however long it runs.
    if (header.magic == wire::kWindowMagic && header.boot_epoch != boot) return std::unexpected(restarted(what));
    const bool patient = now - start < timeout && now - beat < timeouts_.post_progress;
    const bool endless = now - start >= timeouts_.function_reset + timeouts_.post_progress;  // whatever it pretends
    if (endless || (now - progress >= timeouts_.post_progress && !patient)) {
      return std::unexpected(no_answer(what, now - start));
    }
  }
}

Expected<void> ControlChannel::ping() {
  const std::uint32_t value = token_ * 2654435761u;
  const auto answer =
      request(wire::make_message(wire::kMessageBus, static_cast<std::uint8_t>(wire::BusOp::Ping), 0, wire::Ping{value}),
              "PING");
  if (!answer) return std::unexpected(answer.error());
  wire::Ping echoed{};
  if (!wire::read_payload(*answer, echoed) || echoed.value != value) return std::unexpected(refused("PING"));
  return {};
}

}  // namespace svp
