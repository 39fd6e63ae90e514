// SPDX-License-Identifier: Apache-2.0
// A stream of its own in the hands of one thread, at the level of control blocks: what was submitted, and how it ended.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "host_driver/device/device.hpp"
#include "shared/memory_order.hpp"
#include "shared/window.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/completion_sinks.hpp"

namespace svp::test {

// The number of the block that the card has begun with last, within the stream's incarnation. 0: with none.
inline std::uint64_t started_sequence(const Device& device, std::uint32_t stream) {
  const std::byte* window = device.host_memory().data() - device.host_memory_offset();
  return wire::load_acquire(reinterpret_cast<const std::uint64_t*>(window + wire::kStartedSequences.offset)[stream]);
}

// As many empty blocks as the stream takes, at most `count`, numbered by their cookies.
inline Expected<std::size_t> submit_nops(Device& device, std::uint32_t stream, CompletionSink& sink, std::size_t count,
                                         std::uint64_t first_cookie = 0) {
  std::vector<wire::ControlBlock> blocks(count);
  std::vector<ControlBlockRequest> requests;
  for (std::size_t i = 0; i < count; ++i) {
    blocks[i] = Blocks::nop(first_cookie + i);
    requests.push_back({&blocks[i], &sink});
  }
  return device.submit(stream, requests);
}

template <typename Sink>
class BlockStream {
 public:
  // Opens a stream. The device outlives this. Throws svp::Error.
  explicit BlockStream(Device& device, StreamPriority priority = StreamPriority::Low)
      : device_(device), stream_(value_or_throw(device.open_stream(priority))) {}
  // Resets the stream when a block of it is under way, and closes it; closes the device when it keeps a block in spite
  // of that: it would call a sink that is gone.
  ~BlockStream() {
    if (!all_ended() && (device_.failure() || !device_.reset_stream(stream_) || !all_ended())) {
      device_.close();
    } else if (!device_.failure()) {
      const auto closed = device_.close_stream(stream_);  // a card that is gone has closed it
      (void)closed;
    }
  }
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;

  // The block is read when it is submitted; its end is told to this stream's sink.
  ControlBlockRequest request(const wire::ControlBlock& block) { return {&block, &sink_}; }
  // How many were taken: fewer than asked for when there was no room. Throws svp::Error when the device refuses.
  std::size_t submit(std::span<const ControlBlockRequest> requests) {
    return count_taken(device_.submit(stream_, requests));
  }
  std::size_t submit_verbatim(std::span<const ControlBlockRequest> requests) {
    return count_taken(device_.submit_verbatim(stream_, requests));
  }
  std::size_t submit(std::span<const wire::ControlBlock> blocks) { return submit(requests_of(blocks)); }
  std::size_t submit(const wire::ControlBlock& block) { return submit({&block, 1}); }

  // Until `count` have ended since the stream was opened. False: the bound passed, or the card is gone with some
  // missing.
  bool wait_ended(std::size_t count, std::chrono::nanoseconds bound) {
    return wait([&] { return ended() >= count; }, bound);
  }
  bool wait_all(std::chrono::nanoseconds bound) { return wait_ended(submitted_, bound); }
  // Until the card has begun with the block of this number (from 1, within the incarnation).
  bool wait_started(std::uint64_t sequence, std::chrono::nanoseconds bound) {
    return wait([&] { return started_sequence(device_, stream_) >= sequence; }, bound);
  }
  Expected<void> reset() { return device_.reset_stream(stream_); }

  std::size_t submitted() const { return submitted_; }
  std::size_t ended() const { return sink_.ended(); }
  bool all_ended() const { return ended() == submitted_; }
  Sink& sink() { return sink_; }
  const Sink& sink() const { return sink_; }
  std::uint32_t stream() const { return stream_; }
  Device& device() const { return device_; }

 protected:
  std::vector<ControlBlockRequest> requests_of(std::span<const wire::ControlBlock> blocks) {
    std::vector<ControlBlockRequest> requests;
    for (const auto& block : blocks) requests.push_back(request(block));
    return requests;
  }

 private:
  template <typename Condition>
  bool wait(Condition condition, std::chrono::nanoseconds bound) {
    return device_.wait_until(condition, Device::Clock::now() + bound) == WaitStatus::Done;
  }
  std::size_t count_taken(Expected<std::size_t> result) {
    const std::size_t taken = value_or_throw(std::move(result));
    submitted_ += taken;
    return taken;
  }

  Device& device_;
  std::uint32_t stream_;
  std::size_t submitted_ = 0;
  Sink sink_;
};

using CountedStream = BlockStream<CompletionCounter>;
using RecordedStream = BlockStream<CompletionRecorder>;

}  // namespace svp::test
