// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/host_driver/device/native_card.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "firmware/core/boot.hpp"
#include "firmware/core/main_loop.hpp"

namespace svp::test {

namespace {

void require(bool fine, const char* what) {
  if (fine) return;
  std::perror(what);
  std::abort();
}

}  // namespace

NativeCard::Pipe NativeCard::make_pipe() {
  int ends[2];
  require(::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "pipe2");
  return {UniqueFd{ends[0]}, UniqueFd{ends[1]}};
}

NativeCard::NativeCard(NativeCardOptions options) : options_(std::move(options)), exit_(make_pipe()) {
  const unsigned slots = options_.virtual_functions + 2;
  for (unsigned i = 0; i < slots; ++i) {
    files_.emplace_back(::memfd_create("window", MFD_CLOEXEC));
    require(::ftruncate(files_[i].get(), static_cast<off_t>(options_.window_bytes)) == 0, "ftruncate");
    void* at = ::mmap(nullptr, options_.window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, files_[i].get(), 0);
    require(at != MAP_FAILED, "mmap");
    windows_.emplace_back(static_cast<std::byte*>(at), options_.window_bytes);
    to_card_.push_back(make_pipe());
    to_host_.push_back(make_pipe());
  }
  stop_listening_.reset(::eventfd(0, EFD_CLOEXEC));
  native::BoardOptions board;
  board.windows = windows_;
  board.region_bytes = options_.region_bytes;
  board.boot_arguments = "vfs=" + std::to_string(options_.virtual_functions) + " " + options_.boot_arguments;
  board.on_signal = [this](unsigned slot, std::uint32_t) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(to_host_[slot].write_end.get(), &one, sizeof one);
  };
  board.kernel = options_.kernel;
  board_ = std::make_unique<native::Board>(std::move(board));
  card_ = std::make_unique<fw::Card>();
  hart_ = std::thread([this] { run(); });
  listener_ = std::thread([this] { listen(); });
}

NativeCard::~NativeCard() {
  die();
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_listening_.get(), &one, sizeof one);
  listener_.join();  // bounded: the eventfd above ends its loop
  board_.reset();
  for (const auto window : windows_) ::munmap(window.data(), window.size());
}

void NativeCard::run() {
  native::become_hart(0);
  const auto booted = fw::boot(*card_);
  require(booted.has_value(), "boot");
  for (unsigned quiet_iterations = 0; !stopping_.load(std::memory_order_acquire);) {
    if (paused_.load(std::memory_order_acquire)) {
      at_rest_.store(true, std::memory_order_release);
      at_rest_.notify_all();
      paused_.wait(true, std::memory_order_acquire);  // bounded: the test resumes the card, and the destructor does
      at_rest_.store(false, std::memory_order_release);
      continue;
    }
    if (options_.before_iteration) options_.before_iteration(*card_);
    fw::loop_step(*card_, quiet_iterations);
  }
}

// The emulator's main loop: a doorbell that was signalled on the pipe wakes hart 0.
void NativeCard::listen() {
  std::vector<pollfd> fds{{stop_listening_.get(), POLLIN, 0}};
  for (const auto& pipe : to_card_) fds.push_back({pipe.read_end.get(), POLLIN, 0});
  for (;;) {                                                  // bounded: the eventfd of the destructor ends it
    require(::poll(fds.data(), fds.size(), -1) > 0, "poll");  // bounded: the eventfd of the destructor ends it
    if (fds[0].revents != 0) return;
    char rings[512];
    for (std::size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      // bounded: poll() said that there is something
      [[maybe_unused]] const auto got = ::read(fds[i].fd, rings, sizeof rings);
    }
    board_->doorbell();
  }
}

void NativeCard::pause() {
  paused_.store(true, std::memory_order_release);
  board_->doorbell();
  // bounded: the doorbell wakes the hart; its sleeps are bounded by the native board
  at_rest_.wait(false, std::memory_order_acquire);
}

void NativeCard::resume() {
  paused_.store(false, std::memory_order_release);
  paused_.notify_all();
}

void NativeCard::die() {
  if (!hart_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  resume();
  board_->doorbell();
  hart_.join();  // bounded: it is told to stop and woken; its sleeps are bounded by the native board
  const char last = 0;
  require(::write(exit_.write_end.get(), &last, 1) == 1, "write");
}

SlotHandle NativeCard::slot(unsigned index) const {
  return {index, options_.window_bytes, files_[index].duplicate(), to_card_[index].write_end.duplicate(),
          to_host_[index].read_end.duplicate()};
}

DeviceOptions NativeCard::device_options(DeviceOptions options) const {
  options.exit_fd = exit_.read_end.duplicate();
  options.how_card_ended = [] { return std::string("the test ended it"); };
  return options;
}

std::unique_ptr<Device> NativeCard::attach(unsigned slot_index, DeviceOptions options) const {
  auto device = Device::attach(slot(slot_index), device_options(std::move(options)));
  if (device) return *std::move(device);
  ADD_FAILURE() << describe(device.error());
  return nullptr;
}

}  // namespace svp::test
#include "firmware/core/boot.hpp"
#include "firmware/core/main_loop.hpp"
