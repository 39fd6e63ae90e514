// SPDX-License-Identifier: Apache-2.0
// What stands on the driver's rings (control blocks, admin commands, events) against a card that gives back what it
// likes, when it likes, with any content. Every accepted block and every ticket ends exactly once, with the card's word
// only when that fits what was sent; a card that breaks the protocol is found out, and close() ends the rest.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "host_driver/device/admin_port.hpp"
#include "host_driver/device/control_block_ring.hpp"
#include "host_driver/device/event_port.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using fuzz::Input;
using fuzz::require;
using svp::AdminPort;
using svp::ControlBlockRing;

constexpr std::uint64_t kGeneration = 7;

std::shared_ptr<svp::Window> make_window() {
  const svp::UniqueFd file(::memfd_create("window", MFD_CLOEXEC));
  require(::ftruncate(file.get(), wire::kMinWindowBytes) == 0, "a window has a file");
  auto window = svp::Window::map(file.get(), wire::kMinWindowBytes);
  require(window.has_value(), "a window can be mapped");
  return *std::move(window);
}

wire::DeviceConfig config() {
  wire::DeviceConfig config{};
  config.generation = kGeneration;
  config.streams = wire::kStreamsPerFunction;
  config.stream_credits = wire::kStreamCredits;
  return config;
}

// The card's side of one ring, which knows where the driver looks next as long as it plays by the rules.
class CardSide {
 public:
  CardSide(svp::Window& window, wire::Queue queue) : window_(window), layout_(wire::kQueueLayouts[queue]) {}

  // A used element. `how`: 0 of another lap, 1 somewhere else, else where the driver looks.
  void give(std::uint16_t id, std::uint32_t length, std::uint16_t slots, unsigned how, std::uint16_t elsewhere) {
    const bool wrap = how == 0 ? !wrap_ : wrap_;
    const std::uint16_t at = how == 1 ? static_cast<std::uint16_t>(elsewhere % layout_.size) : next_;
    const auto flags = static_cast<std::uint16_t>(wire::used_flags(wrap) | wire::kDescWrite);
    wire::store_release(window_.at<wire::DescriptorWords>(layout_.descriptors + at * sizeof(wire::Descriptor)).tail,
                        wire::pack_tail({length, id, flags}));
    if (how > 1) advance(slots);
  }
  void event(std::uint32_t word) { wire::store_relaxed(window_.at<std::uint32_t>(layout_.device_area), word); }

 private:
  void advance(std::uint16_t slots) {
    next_ = static_cast<std::uint16_t>(next_ + slots);
    if (next_ < layout_.size) return;
    next_ = static_cast<std::uint16_t>(next_ - layout_.size);
    wrap_ = !wrap_;
  }

  svp::Window& window_;
  const wire::QueueLayout& layout_;
  std::uint16_t next_ = 0;
  bool wrap_ = true;
};

struct Sink final : svp::CompletionSink {
  void on_completion(const wire::Completion&) noexcept override {}
};

class Ports {
 public:
  explicit Ports(Input input)
      : input_(input),
        window_(make_window()),
        blocks_(*window_, queue(wire::kControlBlockQueue, wire::kControlBlockSlots), config(), input_.below(2) != 0,
                input_.below(2) != 0),
        admin_(*window_, queue(wire::kAdminQueue, wire::kAdminSlots), kGeneration),
        events_(*window_, with_buffers(queue(wire::kEventQueue, wire::kEventQueueSize))),
        block_card_(*window_, wire::kControlBlockQueue),
        admin_card_(*window_, wire::kAdminQueue),
        event_card_(*window_, wire::kEventQueue) {}

  void run() {
    while (!input_.empty()) step();
    finish();
  }

 private:
  svp::PackedQueue queue(wire::Queue which, std::uint16_t chains) {
    return {window_->bytes(), wire::kQueueLayouts[which], chains, input_.below(2) != 0};
  }

  static svp::PackedQueue with_buffers(svp::PackedQueue queue) {
    while (queue.can_add(1)) {
      const svp::RingBuffer buffer{wire::kEvents.offset + queue.peek_id() * wire::kStickBytes, wire::kStickBytes, true};
      (void)queue.add({&buffer, 1});
    }
    queue.publish();
    return queue;
  }

  void step() {
    switch (input_.below(12)) {
      case 0:
      case 1: return submit();
      case 2:
      case 3: return complete();
      case 4: return harvest();
      case 5: return reap();
      case 6: return streams();
      case 7: return command();
      case 8: return answer();
      case 9: return events();
      case 10: return scribble();
      default: {
        CardSide* const cards[] = {&block_card_, &admin_card_, &event_card_};
        return cards[input_.below(3)]->event(input_.take<std::uint32_t>());
      }
    }
  }

  // ---- control blocks
  void submit() {
    const std::uint32_t stream = input_.below(160);  // some do not exist
    const bool verbatim = input_.below(4) == 0;
    std::array<wire::ControlBlock, 4> blocks;
    std::vector<svp::ControlBlockRequest> requests;
    for (unsigned i = 0, count = 1 + input_.below(4); i < count; ++i) {
      blocks[i] = wire::ControlBlock{};
      blocks[i].header = input_.take<wire::ControlBlockHeader>();
      if (!verbatim) blocks[i].header.opcode = static_cast<wire::Opcode>(input_.below(8));
      requests.push_back({&blocks[i], &sinks_.emplace_back()});
    }
    const auto result = blocks_.submit(stream, requests, verbatim);
    require(result.accepted <= requests.size(), "no more is accepted than was given");
    require(result.refusal == ControlBlockRing::Refusal::None || result.accepted == 0, "a refusal accepts nothing");
    for (std::size_t i = 0; i < result.accepted; ++i) waiting_.insert(requests[i].sink);
    require(blocks_.outstanding() == waiting_.size(), "what was accepted is outstanding");
  }

  // What the card says of a block: mostly that it ended, as it was sent.
  void complete() {
    const auto id = static_cast<std::uint16_t>(input_.below(8) == 0 ? input_.take<std::uint16_t>() : input_.below(8));
    const unsigned how = input_.below(16);
    if (id < wire::kControlBlockSlots) {
      auto completion = input_.below(8) == 0 ? input_.take<wire::Completion>() : honest_completion(id);
      auto* bytes = reinterpret_cast<std::uint8_t*>(&completion);
      if (input_.below(8) == 0) bytes[input_.below(sizeof completion)] ^= input_.take<std::uint8_t>();
      wire::store_shared_words(window_->words(wire::kCompletions.offset + id * wire::kStickBytes),
                               reinterpret_cast<const std::uint64_t*>(&completion), sizeof completion / 8);
    }
    block_card_.give(id, input_.below(8) == 0 ? input_.take<std::uint32_t>() : wire::kStickBytes, 2, how,
                     input_.take<std::uint16_t>());
  }
  wire::Completion honest_completion(std::uint16_t id) {
    wire::ControlBlockHeader header;
    wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&header),
                            window_->words(wire::kControlBlocks.offset + id * wire::kControlBlockSlotBytes),
                            sizeof header / 8);
    wire::Completion completion{};
    completion.outcome = static_cast<wire::Outcome>(input_.below(5));
    completion.stream = header.stream;
    completion.incarnation = header.incarnation;
    completion.generation = header.generation;
    completion.sequence = header.sequence;
    completion.cookie = header.cookie;
    return completion;
  }

  void end(const ControlBlockRing::Ended& ended) {
    require(waiting_.erase(ended.sink) == 1, "a block ends exactly once");
    require(ended.completion.outcome <= wire::Outcome::Indeterminate, "an outcome is one of seven");
  }
  void harvest() {
    std::array<ControlBlockRing::Ended, ControlBlockRing::kHarvest> ended;
    const bool had_failed = !blocks_.violation().empty();
    const std::size_t count = blocks_.harvest(ended);
    require(!had_failed || count == 0, "nothing counts after a violation");
    for (std::size_t i = 0; i < count; ++i) {
      require(ended[i].completion.outcome <= wire::Outcome::Aborted, "the card knows five outcomes");
      end(ended[i]);
    }
    require(blocks_.outstanding() == waiting_.size(), "what has not ended is outstanding");
  }
  void reap() {
    switch (input_.below(4)) {
      case 0: return blocks_.enter_reaping();
      case 1: return (void)blocks_.leave_reaping();
      case 2: return (void)blocks_.arm();
      default:
        while (blocks_.next_starved()) {  // bounded: each call takes a stream off the list
        }
    }
  }
  void streams() {
    const std::uint32_t stream = input_.below(160);
    switch (input_.below(5)) {
      case 0: return (void)blocks_.open_stream(stream, input_.take<std::uint32_t>());
      case 1: return (void)blocks_.begin_reset(stream);
      case 2:
        if (blocks_.is_resetting(stream)) blocks_.end_reset(stream, input_.take<std::uint32_t>());
        return;
      case 3:
        if (blocks_.is_resetting(stream)) blocks_.end_failed_reset(stream);
        return;
      default:
        if (blocks_.is_open(stream)) blocks_.close_stream(stream);
    }
  }

  // ---- admin
  void command() {
    if (input_.below(4) == 0 && !tickets_.empty()) {
      auto& ticket = tickets_[input_.below(256) % tickets_.size()];
      if (ticket->state() == AdminPort::Ticket::State::Waiting) {
        admin_.abandon(*ticket);
        std::swap(ticket, tickets_.back());
        tickets_.pop_back();  // gone: a late answer must not touch it
      }
      return;
    }
    auto request = input_.take<wire::AdminRequest>();
    auto ticket = std::make_unique<AdminPort::Ticket>();
    bool kick = false;
    if (admin_.begin(request, *ticket, kick) == AdminPort::Begin::Sent) tickets_.push_back(std::move(ticket));
  }
  void answer() {
    const auto id = static_cast<std::uint16_t>(input_.below(8) == 0 ? input_.take<std::uint16_t>() : input_.below(8));
    if (id < wire::kAdminSlots) {
      wire::AdminRequest request;
      wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&request),
                              window_->words(wire::kAdminRequests.offset + id * wire::kStickBytes), sizeof request / 8);
      wire::AdminReply reply{};
      if (input_.below(4) == 0) reply = input_.take<wire::AdminReply>();
      if (input_.below(4) != 0) reply.cookie = request.cookie;
      wire::store_shared_words(window_->words(wire::kAdminReplies.offset + id * wire::kStickBytes),
                               reinterpret_cast<const std::uint64_t*>(&reply), sizeof reply / 8);
    }
    admin_card_.give(id, input_.below(8) == 0 ? input_.take<std::uint32_t>() : wire::kStickBytes, 2, input_.below(16),
                     input_.take<std::uint16_t>());
    (void)admin_.harvest();
    for (const auto& ticket : tickets_) {
      if (ticket->state() != AdminPort::Ticket::State::Answered) continue;
      require(ticket->reply().outcome <= wire::Outcome::Aborted, "a reply that is believed is one of the card's");
    }
  }

  // ---- events
  void events() {
    bool kick = false;
    if (input_.below(2) != 0) {
      const std::uint64_t at = wire::kEvents.offset + input_.below(wire::kEventQueueSize) * wire::kStickBytes;
      wire::store_relaxed(*window_->words(at), input_.take<std::uint64_t>());
      event_card_.give(static_cast<std::uint16_t>(input_.below(80)),
                       input_.below(4) == 0 ? input_.take<std::uint32_t>() : wire::kStickBytes, 1, input_.below(16),
                       input_.take<std::uint16_t>());
    } else {
      (void)events_.harvest(kick);
      require(events_.take().size() <= 256, "events that nobody takes are bounded");
    }
  }

  // Any word of the blocks that a card may write, rings included.
  void scribble() {
    const std::uint64_t at =
        wire::kHeaderBlock.end() + input_.take<std::uint32_t>() % (wire::kReservedBlock.offset - 4096);
    wire::store_relaxed(*window_->words(at / 8 * 8), input_.take<std::uint64_t>());
  }

  void finish() {
    harvest();
    for (const auto& ended : blocks_.close(static_cast<svp::OutstandingEnd>(input_.below(3)))) end(ended);
    require(waiting_.empty() && blocks_.outstanding() == 0, "close() ends everything that was accepted");
    require(blocks_.submitted() == blocks_.completed(), "counters add up");
    for (std::uint32_t s = 0; s < wire::kStreamsPerFunction; ++s) {
      require(blocks_.outstanding(s) == 0, "every credit came back");
    }
    admin_.close();
    for (const auto& ticket : tickets_) {
      require(ticket->state() != AdminPort::Ticket::State::Waiting, "no ticket waits for a closed port");
    }
  }

  Input input_;
  std::shared_ptr<svp::Window> window_;
  ControlBlockRing blocks_;
  AdminPort admin_;
  svp::EventPort events_;
  CardSide block_card_;
  CardSide admin_card_;
  CardSide event_card_;
  std::deque<Sink> sinks_;
  std::set<svp::CompletionSink*> waiting_;
  std::vector<std::unique_ptr<AdminPort::Ticket>> tickets_;
};

}  // namespace

void fuzz::run(Input input) { std::make_unique<Ports>(input)->run(); }
