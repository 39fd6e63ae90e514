// SPDX-License-Identifier: Apache-2.0
// The real firmware core, running natively on one thread, behind real windows and real pipes: what a Device attaches to
// when there is no emulator. It can be paused, and it can die at any moment.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "firmware/core/card.hpp"
#include "firmware/platform/host/native_board.hpp"
#include "host_driver/base/unique_fd.hpp"
#include "host_driver/device/device.hpp"
#include "host_driver/transport/slot_handle.hpp"
#include "tests/bounds.hpp"

namespace svp::test {

struct NativeCardOptions {
  unsigned virtual_functions = 1;
  std::uint64_t window_bytes = 4 * 1024 * 1024;
  std::string boot_arguments{};                           // besides vfs=
  std::uint64_t region_bytes = std::uint64_t{256} << 20;  // the card's memory
  native::KernelPlayer kernel{};  // plays COMPUTE blocks on hart 0; without one they are refused
  // Called by the card's thread before each iteration of its loop: count decides when a simulated death happens.
  std::function<void(fw::Card&)> before_iteration{};
};

class NativeCard {
 public:
  explicit NativeCard(NativeCardOptions options = {});
  ~NativeCard();
  NativeCard(const NativeCard&) = delete;
  NativeCard& operator=(const NativeCard&) = delete;

  SlotHandle slot(unsigned index) const;
  // With this card's exit descriptor and a text for it; everything else as given.
  DeviceOptions device_options(DeviceOptions options = {}) const;
  std::unique_ptr<Device> attach(unsigned slot_index = 1, DeviceOptions options = {}) const;

  // The card does nothing between the two, as a stopped emulator.
  void pause();
  void resume();
  // Stops for ever, then shows it: the window keeps its content. A paused card does not run once more.
  void die();
  // For looking at the card's own state: call with the card paused.
  fw::Card& core() { return *card_; }
  const native::Board& board() const { return *board_; }  // for the player: to translate addresses
  std::byte* window(unsigned index) const { return windows_[index].data(); }

 private:
  struct Pipe {
    UniqueFd read_end;
    UniqueFd write_end;
  };
  static Pipe make_pipe();
  void run();
  void listen();

  NativeCardOptions options_;
  std::vector<UniqueFd> files_;
  std::vector<std::span<std::byte>> windows_;
  std::vector<Pipe> to_card_;
  std::vector<Pipe> to_host_;
  Pipe exit_;
  UniqueFd stop_listening_;
  std::unique_ptr<native::Board> board_;
  std::unique_ptr<fw::Card> card_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> paused_{false};
  std::atomic<bool> at_rest_{false};
  std::thread hart_;
  std::thread listener_;
};

// Only a hang makes a test wait so long.
inline Device::TimePoint work_limit() { return Device::Clock::now() + test_bounds::kWork; }

}  // namespace svp::test
