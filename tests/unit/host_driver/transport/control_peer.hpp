// SPDX-License-Identifier: Apache-2.0
// The card's end of a slot for tests of the control plane: a window, the doorbells, and a thread that answers messages
// as a test tells it. Tests write to the window directly when they want to lie.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "host_driver/transport/doorbells.hpp"
#include "host_driver/transport/slot_handle.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/memory_order.hpp"
#include "shared/message.hpp"
#include "shared/post_codes.hpp"
#include "shared/version.hpp"
#include "tests/bounds.hpp"

namespace svp::test {

class ControlPeer {
 public:
  // What to answer; nothing: stay silent.
  using Handler = std::function<std::optional<wire::Message>(const wire::Message&)>;
  static constexpr std::uint64_t kWindowBytes = wire::kMinWindowBytes;

  ControlPeer() {
    file_.reset(::memfd_create("window", MFD_CLOEXEC));
    if (::ftruncate(file_.get(), kWindowBytes) != 0) std::abort();
    make_pipe(to_card_);
    make_pipe(to_host_);
    make_pipe(exit_);
    window_ = Window::map(file_.get(), kWindowBytes).value();
    auto& header = window_->at<wire::WindowHeader>(0);
    header.abi_version = wire::kAbiVersion;
    header.kind = wire::FunctionKind::Physical;
    header.post_code = static_cast<std::uint32_t>(wire::PostCode::Ready);
    header.generation = 1;
    header.boot_epoch = 1;
    header.window_bytes = kWindowBytes;
    header.magic = wire::kWindowMagic;
  }
  ~ControlPeer() { stop(); }

  void serve(Handler handler) {
    thread_ = std::thread([this, handler = std::move(handler)] {
      while (!stopping_.load()) {  // bounded: stop() sets the flag; each iteration waits a millisecond at most
        if (const auto request = take()) {
          if (const auto answer = handler(*request)) send(*answer);
        } else {
          pollfd doorbell{to_card_[0].get(), POLLIN, 0};
          ::poll(&doorbell, 1, test_bounds::in_milliseconds(test_bounds::kLook));
          char rings[512];
          // bounded: the pipe does not block
          [[maybe_unused]] const auto got = ::read(to_card_[0].get(), rings, sizeof rings);
        }
      }
    });
  }
  void stop() {
    stopping_.store(true);
    if (thread_.joinable()) thread_.join();  // bounded: the flag is set; its poll is bounded
  }

  std::optional<wire::Message> take() {
    wire::Fifo& fifo = window_->fifo_to_card();
    if (wire::load_acquire(fifo.written) == read_) return std::nullopt;
    wire::Message message;
    wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&message),
                            reinterpret_cast<const std::uint64_t*>(&fifo.slots[read_ % wire::kFifoSlots]),
                            sizeof message / 8);
    wire::store_release(fifo.read, ++read_);
    return message;
  }
  void send(const wire::Message& message) {
    wire::Fifo& fifo = window_->fifo_to_host();
    wire::store_shared_words(reinterpret_cast<std::uint64_t*>(&fifo.slots[written_ % wire::kFifoSlots]),
                             reinterpret_cast<const std::uint64_t*>(&message), sizeof message / 8);
    wire::store_release(fifo.written, ++written_);
    ring();
  }
  void ring() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(to_host_[1].get(), &one, sizeof one);
  }
  void die() {
    if (::write(exit_[1].get(), "", 1) != 1) std::abort();
  }

  SlotHandle slot() const {
    return {1, kWindowBytes, file_.duplicate(), to_card_[1].duplicate(), to_host_[0].duplicate()};
  }
  int exit_fd() const { return exit_[0].get(); }
  const UniqueFd& exit_end() const { return exit_[0]; }
  std::shared_ptr<Window> window() const { return window_; }
  wire::WindowHeader& header() const { return window_->at<wire::WindowHeader>(0); }
  void show_post(wire::PostCode code) { wire::store_release(header().post_code, static_cast<std::uint32_t>(code)); }

  template <typename T>
  static wire::Message answer(const wire::Message& request, const T& payload) {
    return wire::make_message(request.header.type | wire::kMessageResponse, request.header.op, request.header.token,
                              payload);
  }
  static wire::Message refusal(const wire::Message& request) {
    return wire::make_bare_message(request.header.type | wire::kMessageResponse, request.header.op,
                                   request.header.token);
  }

 private:
  static void make_pipe(UniqueFd (&ends)[2]) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    ends[0].reset(fds[0]);
    ends[1].reset(fds[1]);
  }

  UniqueFd file_;
  UniqueFd to_card_[2];
  UniqueFd to_host_[2];
  UniqueFd exit_[2];
  std::shared_ptr<Window> window_;
  std::uint32_t read_ = 0;
  std::uint32_t written_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace svp::test
