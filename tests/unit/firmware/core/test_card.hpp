// SPDX-License-Identifier: Apache-2.0
// A booted card in this process: fw::Card on the native board, with one window per slot. Single-stepped by the test
// (pump), or running its own loop on threads (start_loop), never both at once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "firmware/core/boot.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/main_loop.hpp"
#include "firmware/platform/host/native_board.hpp"
#include "tests/unit/firmware/core/raw_driver.hpp"

namespace fwtest {

// Boot words of a card whose VF 1 has all its memory: for tests in which one function is enough.
inline constexpr const char* kAllForTheFirst = "sole=2";

struct CardOptions {
  unsigned virtual_functions = 1;
  unsigned spare_slots = 0;
  unsigned ports = 0;  // renewable slots behind those, empty at first
  unsigned harts = 1;
  std::uint64_t window_bytes = 4 * wire::kMiB;
  std::uint64_t region_bytes = 64 * wire::kMiB;
  std::string boot_arguments{};  // besides vfs=
  native::KernelPlayer kernel{};
  std::optional<native::WorkClock> clock{};
  std::uint64_t page_bytes = 256 * wire::kMiB;
};

class TestCard {
 public:
  explicit TestCard(CardOptions options = {});
  ~TestCard();
  TestCard(const TestCard&) = delete;
  TestCard& operator=(const TestCard&) = delete;

  fw::Card& card() { return *card_; }
  native::Board& board() { return *board_; }
  std::span<std::byte> window(unsigned slot) { return {windows_[slot].get(), options_.window_bytes}; }
  // By its place in the card's table: 0 M, 1 PF, 2 VF 1, … which is also its first slot.
  fw::Function& function(unsigned id) { return card_->functions[id]; }
  // The raw driver of slot 0 (M), 1 (PF), 2 (VF 1), …, then spares.
  RawDriver& driver(unsigned slot) { return *drivers_[slot]; }
  std::uint64_t rings(unsigned slot) const { return rings_[slot].load(); }
  std::uint32_t last_peer(unsigned slot) const { return last_peer_[slot].load(); }
  // Renewable slots: plugs a fresh window, and gives the raw driver of whoever holds it.
  RawDriver& plug(unsigned slot);
  unsigned unplugged(unsigned slot) const { return unplugged_[slot]; }
  // Also called for every doorbell of the card, on its hart's thread. Set while no loop runs.
  std::function<void(unsigned slot)> on_ring = [](unsigned) {};

  // Changes of states that the card has logged, in order. Read while no loop runs.
  struct Change {
    fw::Machine machine;
    unsigned from;
    unsigned to;
    std::uint64_t subject;
  };
  std::vector<Change> changes;

  // Lets the card work until it finds nothing more to do (scrubbing included), or for an iteration when a loop runs.
  void pump();
  // As pump(), but without scrubbing: quarantined memory stays so.
  void run_until_idle();

  void start_loop();
  void stop_loop();

  // A warm reset: memory, windows and persistent state stay, everything else is new.
  void warm_reset();

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  void boot();

  CardOptions options_;
  std::vector<std::unique_ptr<std::byte, Free>> windows_;
  std::vector<std::unique_ptr<std::byte, Free>> plugged_;
  std::array<std::atomic<std::uint64_t>, 20> rings_{};
  std::array<std::atomic<std::uint32_t>, 20> last_peer_{};
  std::array<unsigned, 20> unplugged_{};
  std::unique_ptr<native::Board> board_;
  std::unique_ptr<fw::Card> card_;
  std::vector<std::unique_ptr<RawDriver>> drivers_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> harts_;
};

}  // namespace fwtest
