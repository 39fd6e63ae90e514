// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/firmware/core/test_card.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <new>

#include "firmware/hal/hart.hpp"

namespace fwtest {

namespace {
constexpr std::align_val_t kPage{4096};
}

void TestCard::Free::operator()(std::byte* memory) const { ::operator delete(memory, kPage); }

TestCard::TestCard(CardOptions options) : options_(std::move(options)) {
  native::BoardOptions board;
  const unsigned slots = options_.virtual_functions + 2 + options_.spare_slots;
  for (unsigned slot = 0; slot < slots; ++slot) {
    auto* memory = static_cast<std::byte*>(::operator new(options_.window_bytes, kPage));
    std::memset(memory, 0, options_.window_bytes);
    windows_.emplace_back(memory);
    board.windows.emplace_back(memory, options_.window_bytes);
  }
  board.harts = options_.harts;
  board.region_bytes = options_.region_bytes;
  board.boot_arguments = "vfs=" + std::to_string(options_.virtual_functions) + " " + options_.boot_arguments;
  board.ports = options_.ports;
  board.on_signal = [this](unsigned slot, std::uint32_t peer) {
    rings_[slot].fetch_add(1);
    last_peer_[slot] = peer;
    on_ring(slot);
  };
  board.on_unplug = [this](unsigned slot) { ++unplugged_[slot]; };
  board.on_note = [this](wire::RecordedEventKind kind, std::uint32_t a, std::uint64_t b) {
    if (kind != wire::RecordedEventKind::StateChanged) return;
    const auto change = wire::RecordedChange::unpack(a);
    changes.push_back({change.machine, change.from, change.to, b});
  };
  board.kernel = options_.kernel;
  board.clock = options_.clock;
  board.page_bytes = options_.page_bytes;
  board_ = std::make_unique<native::Board>(std::move(board));
  for (unsigned slot = 0; slot < slots; ++slot) {
    drivers_.push_back(std::make_unique<RawDriver>(window(slot), [this] { pump(); }));
  }
  boot();
}

RawDriver& TestCard::plug(unsigned slot) {
  auto* memory = static_cast<std::byte*>(::operator new(options_.window_bytes, kPage));
  std::memset(memory, 0, options_.window_bytes);
  plugged_.emplace_back(memory);
  const std::span window(memory, options_.window_bytes);
  board_->plug(slot, window);
  drivers_.push_back(std::make_unique<RawDriver>(window, [this] { pump(); }));
  return *drivers_.back();
}

TestCard::~TestCard() { stop_loop(); }

void TestCard::boot() {
  // As on the card: storage is not cleared, constructors alone make it valid.
  card_ = std::make_unique_for_overwrite<fw::Card>();
  const auto booted = fw::boot(*card_);
  if (!booted) throw std::runtime_error(std::string("boot failed: ") + std::string(booted.error()));
}

void TestCard::warm_reset() {
  stop_loop();
  boot();
}

void TestCard::run_until_idle() {
  // Quiet functions are looked at in turn: one round without anything is what rest means.
  constexpr unsigned kRound = fw::kIterationsPerQuietLook * fw::kMaxFunctions;
  unsigned quiet = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    quiet = fw::run_iteration(*card_) ? 0 : quiet + 1;
    if (quiet == kRound) return;
  }
  ADD_FAILURE() << "the card never comes to rest";
}

void TestCard::pump() {
  if (!harts_.empty()) {
    board_->doorbell();
    std::this_thread::yield();
    return;
  }
  do {
    run_until_idle();
  } while (card_->pool.scrub_step(wire::kGranuleBytes));
}

void TestCard::start_loop() {
  stop_ = false;
  card_->first_slices.allow(true);
  for (unsigned hart = 1; hart < options_.harts; ++hart) {
    harts_.emplace_back([this, hart] {
      native::become_hart(hart);
      while (!stop_) {
        if (!card_->launches.run_slice(hart, fw::kSliceTicks))
          hal::sleep_until(hal::now() + wire::kTicksPerSecond / 20);
      }
    });
  }
  harts_.emplace_back([this] {
    for (unsigned quiet = 0; !stop_;) fw::loop_step(*card_, quiet);
  });
}

void TestCard::stop_loop() {
  stop_ = true;
  for (unsigned hart = 0; hart < options_.harts; ++hart) hal::wake(hart);
  // bounded: they are told to stop and woken; a sleep is bounded by the native board
  for (auto& hart : harts_) hart.join();
  harts_.clear();
  card_->first_slices.allow(false);
}

}  // namespace fwtest
