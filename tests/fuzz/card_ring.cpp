// SPDX-License-Identifier: Apache-2.0
// The card's side of a packed ring against a driver that writes what it likes, between any two looks of the card. The
// card never reads or writes outside of the rings, takes at most a lap per chain, and what it calls well-formed is.
#include <cstring>
#include <vector>

#include "firmware/core/packed_queue.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using fuzz::Input;
using fuzz::require;

constexpr std::uint64_t kWindowBytes = wire::kMinWindowBytes;
constexpr std::uint64_t kLowBytes = 80 * wire::kKiB;
constexpr std::uint64_t kTables = wire::kHostMemoryOffset;  // indirect tables: the first page of host memory

class CardRing {
 public:
  explicit CardRing(Input input) : input_(input) {
    // One window for all inputs, cleaned where an input can have written.
    std::memset(window_.data(), 0, kLowBytes);
    std::memset(window_.data() + kTables, 0, 256 * sizeof(wire::Descriptor));
  }

  void run() {
    // Mostly small rings, so that laps are reached; now and then geometry that is not legal.
    const bool wild = input_.below(8) == 0;
    const std::uint32_t size = wild ? input_.take<std::uint32_t>() : 1 + input_.below(16);
    const std::uint64_t descriptors =
        wild ? input_.take<std::uint64_t>() % (2 * kWindowBytes) : wire::kQueueBlock.offset + input_.below(4) * 16;
    const std::uint64_t driver = wild ? input_.take<std::uint64_t>() % kWindowBytes : wire::kQueueBlock.offset + 2048;
    const bool set = queue_.set(window_, size, descriptors, driver, wire::kQueueBlock.offset + 4096);
    require(set == queue_.active(), "a refused ring is off");
    if (!set) return;
    require(size <= wire::kMaxQueueSize && wire::kQueueBlock.contains(descriptors, size * sizeof(wire::Descriptor)),
            "a ring lies in the queue block");
    queue_.set_features(input_.below(2) != 0, input_.below(2) != 0);
    while (!input_.empty()) step();
  }

 private:
  void step() {
    switch (input_.below(8)) {
      case 0: return write_descriptor(queue_.descriptors(), queue_.size());
      case 1: return write_descriptor(kTables, 256);
      case 2: return write(queue_.driver_area(), input_.take<std::uint32_t>());
      case 3:
      case 4: return pop();
      case 5: return push();
      case 6: (void)queue_.take_notification(); return;
      default: return arm();
    }
  }

  template <typename T>
  void write(std::uint64_t at, T value) {
    std::memcpy(window_.data() + at, &value, sizeof value);
  }
  void write_descriptor(std::uint64_t ring, unsigned count) {
    const std::uint64_t at = ring + input_.below(count) * sizeof(wire::Descriptor);
    const auto form = input_.below(4);
    wire::Descriptor d = input_.take<wire::Descriptor>();
    if (form != 0) {  // of the present lap or the next, so that it is taken
      constexpr std::uint16_t kForm = wire::kDescNext | wire::kDescWrite | wire::kDescIndirect;
      d.flags = static_cast<std::uint16_t>((d.flags & kForm) | wire::avail_flags(form != 1));
    }
    if (form == 3) {  // an indirect table that may be good
      d.address = kTables + d.address % 16 * 16;
      d.length = d.length % 80 * 16;
    }
    write(at, d);
  }

  void pop() {
    const bool ready = queue_.ready();
    fw::Chain chain{};
    require(queue_.pop(chain) == ready, "what is ready is taken, and nothing else");
    if (!ready) return;
    require(chain.slots >= 1 && chain.slots <= queue_.size(), "a chain has at least one slot and at most a lap");
    if (chain.well_formed) {
      require(chain.readable.bytes != 0 || chain.writable.bytes != 0, "a well-formed chain has a buffer");
    }
    taken_.push_back(chain);
  }

  void push() {
    if (taken_.empty()) return;
    const std::size_t at = input_.below(256) % taken_.size();
    const fw::Chain chain = taken_[at];
    taken_.erase(taken_.begin() + static_cast<std::ptrdiff_t>(at));
    const std::vector<std::byte> before = low_part();
    queue_.push_used(chain.id, chain.slots, input_.take<std::uint32_t>());
    expect_only_ring_changed(before);
  }

  void arm() {
    const std::vector<std::byte> before = low_part();
    queue_.arm();
    queue_.disarm();
    expect_only_ring_changed(before);
  }

  // Header, FIFOs, rings and what lies behind them.
  std::vector<std::byte> low_part() const { return {window_.begin(), window_.begin() + kLowBytes}; }

  // The card writes used elements and its own event word.
  void expect_only_ring_changed(const std::vector<std::byte>& before) {
    const std::uint64_t ring_end = queue_.descriptors() + queue_.size() * sizeof(wire::Descriptor);
    const auto same = [&](std::uint64_t from, std::uint64_t to) {
      return std::memcmp(before.data() + from, window_.data() + from, to - from) == 0;
    };
    const std::uint64_t area = queue_.device_area();
    const std::uint64_t low = std::min(queue_.descriptors(), area), high = std::max(ring_end, area + 4);
    require(same(0, low) && same(high, kLowBytes), "the card writes its rings only");
    if (ring_end < area) require(same(ring_end, area), "the card writes nothing between ring and event word");
  }

  Input input_;
  static inline std::vector<std::byte> window_ = std::vector<std::byte>(kWindowBytes);
  fw::PackedQueue queue_;
  std::vector<fw::Chain> taken_;
};

}  // namespace

void fuzz::run(Input input) { CardRing(input).run(); }
