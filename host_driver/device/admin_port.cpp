// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/admin_port.hpp"

#include <utility>

#include "host_driver/transport/guarded.hpp"

namespace svp {

namespace {

constexpr std::uint64_t request_offset(std::uint16_t slot) {
  return wire::kAdminRequests.offset + slot * wire::kStickBytes;
}
constexpr std::uint64_t reply_offset(std::uint16_t slot) {
  return wire::kAdminReplies.offset + slot * wire::kStickBytes;
}

}  // namespace

AdminPort::AdminPort(Window& window, PackedQueue queue, std::uint64_t generation, FaultSite faults)
    : window_(window), queue_(std::move(queue)), generation_(generation), faults_(std::move(faults)) {
  (void)queue_.arm();  // replies are rare: always ask for the doorbell
}

AdminPort::Begin AdminPort::begin(wire::AdminRequest& request, Ticket& ticket, bool& kick) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Begin::Closed;
  if (!queue_.can_add(2)) return Begin::Full;
  const std::uint16_t slot = queue_.peek_id();
  request.magic = wire::kAdminMagic;
  request.generation = generation_;
  request.cookie = next_cookie_++;
  ticket.cookie_ = request.cookie;
  ticket.slot_ = slot;
  tickets_[slot] = &ticket;
  cookies_[slot] = request.cookie;
  commands_[slot] = request.command;
  wire::store_shared_words(window_.words(request_offset(slot)), reinterpret_cast<const std::uint64_t*>(&request),
                           sizeof request / 8);
  const RingBuffer chain[2] = {{request_offset(slot), sizeof request, false},
                               {reply_offset(slot), sizeof(wire::AdminReply), true}};
  (void)queue_.add(chain);
  outstanding_.fetch_add(1, std::memory_order_acq_rel);
  queue_.publish();
  kick = queue_.kick_needed();
  return Begin::Sent;
}

void AdminPort::abandon(Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  if (tickets_[ticket.slot_] == &ticket) tickets_[ticket.slot_] = nullptr;
}

bool AdminPort::can_begin() const {
  const std::lock_guard lock(mutex_);
  return closed_ || queue_.can_add(2);
}

std::size_t AdminPort::harvest() {
  if (!has_used()) return 0;
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  do {
    PackedQueue::Used used;
    while (true) {  // bounded: poll() finds no more than the ring holds, else Broken
      const auto found = queue_.poll(used);
      if (found == PackedQueue::PollResult::Empty) break;
      if (found == PackedQueue::PollResult::Broken) {
        violation_ = text_or_less([&] { return queue_.violation(); });
        closed_ = dead_ = true;
        return count;
      }
      wire::AdminReply reply;
      wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&reply), window_.words(reply_offset(used.id)),
                              sizeof reply / 8);
      if (used.written != sizeof reply || reply.cookie != cookies_[used.id] || reply.outcome > wire::Outcome::Aborted) {
        violation_ = text_or_less([&] {
          return "an admin reply has length " + std::to_string(used.written) + ", cookie " +
                 std::to_string(reply.cookie) + " (sent " + std::to_string(cookies_[used.id]) + ") and outcome " +
                 std::to_string(static_cast<unsigned>(reply.outcome));
        });
        closed_ = dead_ = true;  // tickets end in close()
        return count;
      }
      if (faults_.armed(fault::Point::AdminReply) &&
          faults_.occur(fault::Point::AdminReply, {.opcode = static_cast<std::uint32_t>(commands_[used.id])})) {
        // As if it had never come: the slot stays taken, and who waits gives up at his time-out.
        queue_.quarantine(used.id);
        continue;
      }
      outstanding_.fetch_sub(1, std::memory_order_acq_rel);
      ++count;
      if (Ticket* const ticket = std::exchange(tickets_[used.id], nullptr); ticket != nullptr) {
        ticket->reply_ = reply;
        ticket->state_.store(Ticket::State::Answered, std::memory_order_release);  // the ticket may be gone now
      }
    }
  } while (queue_.arm());
  return count;
}

void AdminPort::close() {
  const std::lock_guard lock(mutex_);
  closed_ = dead_ = true;
  for (Ticket*& ticket : tickets_) {
    if (ticket != nullptr) ticket->state_.store(Ticket::State::Gone, std::memory_order_release);
    ticket = nullptr;
  }
  outstanding_.store(0, std::memory_order_release);
}

}  // namespace svp
