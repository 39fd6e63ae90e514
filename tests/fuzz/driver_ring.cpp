// SPDX-License-Identifier: Apache-2.0
// The driver's side of a packed ring against a card that writes what it likes into ring and event area. Every chain
// comes back at most once, with the id it was given; slots and ids add up at every moment; a card that breaks the
// protocol is told from one that works, and for good.
#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "host_driver/transport/packed_queue.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using fuzz::Input;
using fuzz::require;
using svp::PackedQueue;

constexpr std::uint64_t kTables = wire::kHostMemoryOffset;

class DriverRing {
 public:
  explicit DriverRing(Input input)
      : input_(input),
        layout_{static_cast<std::uint16_t>(1 + input_.below(16)), wire::kQueueBlock.offset,
                wire::kQueueBlock.offset + 2048, wire::kQueueBlock.offset + 4096},
        chains_(static_cast<std::uint16_t>(1 + input_.below(16))),
        queue_(clean(), layout_, chains_, input_.below(2) != 0) {}

  void run() {
    while (!input_.empty()) {
      step();
      require(queue_.in_flight() == flying_.size(), "what was added and has not come back is in flight");
      require(queue_.free_slots() + slots_ == queue_.size(), "no ring slot is lost or won");
    }
    const auto left = queue_.chains_in_flight();
    require(std::set<std::uint16_t>(left.begin(), left.end()) == ids(), "what is left is what was not given back");
  }

 private:
  // One window for all inputs, cleaned where an input can have written.
  static std::span<std::byte> clean() {
    std::memset(window_.data() + wire::kQueueBlock.offset, 0, wire::kQueueBlock.bytes);
    return window_;
  }

  void step() {
    switch (input_.below(8)) {
      case 0: return add();
      case 1: return queue_.publish();
      case 2: (void)queue_.kick_needed(); return;
      case 3: return give_back();
      case 4: return scribble();
      case 5: return write(layout_.device_area, input_.take<std::uint32_t>());
      case 6: return (void)(input_.below(2) != 0 ? queue_.arm() : (queue_.disarm(), false));
      default: return poll();
    }
  }

  void add() {
    std::array<svp::RingBuffer, 4> buffers{};
    const unsigned count = 1 + input_.below(4);
    const unsigned readable = input_.below(count + 1);
    for (unsigned i = 0; i < count; ++i) {
      buffers[i] = {input_.take<std::uint16_t>(), 1 + std::uint32_t{input_.take<std::uint16_t>()}, i >= readable};
    }
    const std::span<const svp::RingBuffer> chain = std::span(buffers).first(count);
    const bool indirect = input_.below(4) == 0;
    const bool room = queue_.can_add(indirect ? 1 : count);
    const auto id = indirect ? queue_.add_indirect(kTables, chain) : queue_.add(chain);
    require(id.has_value() == room, "a chain is taken when there is room");
    if (!id) return;
    require(*id < chains_ && !ids().contains(*id), "an id names one chain at a time");
    const unsigned slots = indirect ? 1 : count;
    flying_.push_back({*id, static_cast<std::uint16_t>(slots)});
    slots_ += slots;
  }

  // A used element, mostly of a chain that is in flight, mostly of the present lap.
  void give_back() {
    const unsigned how = input_.below(8);
    std::uint16_t id = input_.take<std::uint16_t>();
    if (how != 0 && !flying_.empty()) id = flying_[id % flying_.size()].id;
    const bool wrap = how == 1 ? !wrap_ : wrap_;
    const auto flags =
        static_cast<std::uint16_t>(wire::used_flags(wrap) | (input_.below(2) != 0 ? wire::kDescWrite : 0));
    const std::uint64_t at = layout_.descriptors + (how == 2 ? input_.below(layout_.size) : next_) * 16;
    write(at + 8, wire::pack_tail({input_.take<std::uint32_t>(), id, flags}));
  }
  void scribble() {
    write(layout_.descriptors + input_.below(layout_.size) * 16 + input_.below(16), input_.take<std::uint8_t>());
  }
  template <typename T>
  void write(std::uint64_t at, T value) {
    std::memcpy(window_.data() + at, &value, sizeof value);
  }

  void poll() {
    const bool was_broken = queue_.broken();
    const bool had = queue_.has_used();
    PackedQueue::Used used;
    switch (queue_.poll(used)) {
      case PackedQueue::PollResult::Empty: require(!had, "what is there is taken"); return;
      case PackedQueue::PollResult::Broken:
        require(queue_.broken() && !queue_.violation().empty(), "a broken queue says why");
        return;
      case PackedQueue::PollResult::Used: break;
    }
    require(!was_broken, "a broken queue gives nothing back");
    const auto found = std::find_if(flying_.begin(), flying_.end(), [&](const Flying& f) { return f.id == used.id; });
    require(found != flying_.end(), "a chain comes back once, and only when it was sent");
    slots_ -= found->slots;
    next_ = static_cast<std::uint16_t>(next_ + found->slots);
    if (next_ >= layout_.size) next_ = static_cast<std::uint16_t>(next_ - layout_.size), wrap_ = !wrap_;
    flying_.erase(found);
  }

  std::set<std::uint16_t> ids() const {
    std::set<std::uint16_t> all;
    for (const Flying& f : flying_) all.insert(f.id);
    return all;
  }

  struct Flying {
    std::uint16_t id;
    std::uint16_t slots;
  };

  Input input_;
  static inline std::vector<std::byte> window_ = std::vector<std::byte>(wire::kMinWindowBytes);
  wire::QueueLayout layout_;
  std::uint16_t chains_;
  PackedQueue queue_;
  std::vector<Flying> flying_;
  unsigned slots_ = 0;  // of what is in flight
  // Where the driver will look next, as a card knows it.
  std::uint16_t next_ = 0;
  bool wrap_ = true;
};

}  // namespace

void fuzz::run(Input input) { DriverRing(input).run(); }
