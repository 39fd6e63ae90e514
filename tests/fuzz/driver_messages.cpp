// SPDX-License-Identifier: Apache-2.0
// The driver's end of the control FIFOs against a card that writes any index and any message: taken in, counted or
// refused as out of range, never followed.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_driver/transport/control_channel.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using fuzz::require;

std::shared_ptr<svp::Window> make_window(svp::UniqueFd& file) {
  file.reset(::memfd_create("window", MFD_CLOEXEC));
  require(::ftruncate(file.get(), wire::kMinWindowBytes) == 0, "a window has a file");
  auto window = svp::Window::map(file.get(), wire::kMinWindowBytes);
  require(window.has_value(), "a window can be mapped");
  return *std::move(window);
}

svp::SlotHandle make_slot(const svp::UniqueFd& file) {
  int to_card[2];
  int to_host[2];
  require(::pipe2(to_card, O_CLOEXEC | O_NONBLOCK) == 0 && ::pipe2(to_host, O_CLOEXEC | O_NONBLOCK) == 0,
          "doorbells exist");
  ::close(to_card[0]);
  ::close(to_host[1]);
  return {0, wire::kMinWindowBytes, file.duplicate(), svp::UniqueFd(to_card[1]), svp::UniqueFd(to_host[0])};
}

// Nobody answers here (the targets `device` and `control_messages` have a card): a request ends at once.
svp::Timeouts impatient() {
  svp::Timeouts timeouts;
  // reached: nobody answers here
  timeouts.post_progress = timeouts.function_reset = timeouts.header_check = svp::Timeouts::Duration(0);
  return timeouts;
}

}  // namespace

void fuzz::run(Input input) {
  svp::UniqueFd file;
  const auto window = make_window(file);
  svp::Doorbells doorbells(make_slot(file), svp::FaultHooks{});
  wire::store_relaxed(window->fifo_to_host().written, input.take<std::uint32_t>());
  svp::ControlChannel channel(window, doorbells, -1, impatient());
  std::uint32_t written = wire::load_relaxed(window->fifo_to_host().written);
  while (!input.empty()) {
    switch (input.below(4)) {
      case 0:
      case 1: {  // a message, mostly announced by the next index
        const auto message = input.take<wire::Message>();
        wire::store_shared_words(
            reinterpret_cast<std::uint64_t*>(&window->fifo_to_host().slots[written % wire::kFifoSlots]),
            reinterpret_cast<const std::uint64_t*>(&message), sizeof message / 8);
        written = input.below(8) == 0 ? input.take<std::uint32_t>() : written + 1;
        wire::store_release(window->fifo_to_host().written, written);
        break;
      }
      case 2: wire::store_release(window->fifo_to_card().read, input.take<std::uint32_t>()); break;
      default: {
        const auto& counted = channel.statistics();
        const auto before = counted.stale_responses + counted.malformed;
        const auto polled = channel.poll();
        require(polled || polled.error().layer == svp::Layer::Transport, "an index out of range is the transport's");
        require(counted.stale_responses + counted.malformed - before <= wire::kFifoSlots, "one FIFO at a time");
        break;
      }
    }
  }
  const auto answer = channel.ping();
  require(answer || !answer.error().next_step.empty(), "an unanswered request says what to do");
}
