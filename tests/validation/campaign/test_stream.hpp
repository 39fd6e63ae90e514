// SPDX-License-Identifier: Apache-2.0
// A stream in the hands of one thread, at the level of control blocks: submit, wait with a bound, see how everything ended.
// And the makers of good blocks on a function with one Tensor and one Program region.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host_driver/device/device.hpp"
#include "tests/validation/campaign/artifacts.hpp"

namespace svp::campaign {

// "OK, none", or that it did not end: what a claim has seen.
std::string ending(const std::optional<wire::Completion>& end);

class TestStream final : CompletionSink {
 public:
  // Opens a stream. The device outlives this. Throws svp::Error.
  explicit TestStream(Device& device, StreamPriority priority = StreamPriority::Low);
  // Resets or closes the stream; closes the device when it keeps a block in spite of that.
  ~TestStream();
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;

  // Of all of `blocks`: throws svp::Error when the device refuses; false when there was no room for all.
  bool submit(std::span<const wire::ControlBlock> blocks, bool verbatim = false);
  bool submit(const wire::ControlBlock& block) { return submit({&block, 1}); }
  // Until `count` have ended since the test stream was made. False: the bound passed, or the card is gone with some missing.
  bool wait_ended(std::size_t count, std::chrono::nanoseconds bound);
  bool wait_all(std::chrono::nanoseconds bound) { return wait_ended(submitted_, bound); }
  // One block, waited for. Nothing when it did not end in time.
  std::optional<wire::Completion> run(const wire::ControlBlock& block, std::chrono::nanoseconds bound);
  // Until the card has begun with the block of this number (from 1, within the incarnation).
  bool wait_started(std::uint64_t sequence, std::chrono::nanoseconds bound);
  Expected<void> reset();

  std::size_t submitted() const { return submitted_; }
  std::size_t ended() const { return count_.load(std::memory_order_acquire); }
  // Those from number `from` on (from 0).
  std::vector<wire::Completion> endings(std::size_t from = 0) const;
  // The first kTracedBlocks, in the order of submission.
  std::vector<TracedBlock> trace() const;
  std::size_t ended_with(wire::Outcome outcome) const;
  std::uint32_t stream() const { return stream_; }
  Device& device() { return device_; }

 private:
  void on_completion(const wire::Completion& completion) noexcept override;

  Device& device_;
  std::uint32_t stream_;
  std::size_t submitted_ = 0;
  mutable std::mutex mutex_;
  std::vector<wire::Completion> all_;
  std::vector<TracedBlock> trace_;
  std::atomic<std::size_t> count_{0};
};

// A block on its way needs nothing of this; it holds handles only.
class BlockBuilder {
 public:
  static constexpr std::uint64_t kRegionBytes = 4 * wire::kMiB;
  // Acquires the two regions. Throws svp::Error.
  explicit BlockBuilder(Device& device);

  Device& device() const { return device_; }
  const Region& tensor() const { return tensor_; }
  const Region& program() const { return program_; }
  wire::Endpoint host(std::uint64_t offset) const;  // in host memory
  static wire::Endpoint in(const Region& region, std::uint64_t offset);

  static wire::ControlBlock nop();
  static wire::ControlBlock dma(const wire::Endpoint& from, const wire::Endpoint& to, std::uint64_t bytes);
  static wire::ControlBlock fill(const wire::Endpoint& at, std::uint64_t bytes, std::uint64_t pattern);
  // Of an image at `offset` of the Program region.
  wire::ControlBlock compute(std::uint64_t offset, std::uint64_t bytes, std::uint64_t budget_slices = 0,
                             std::uint64_t core_mask = 1) const;
  // Puts an image there, by way of host memory at kStagingAt. Throws svp::Error.
  void load(TestStream& stream, std::uint64_t offset, std::span<const std::byte> image) const;
  static constexpr std::uint64_t kStagingAt = 24 * wire::kMiB;

  std::span<std::uint64_t> host_words(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  Device& device_;
  Region tensor_;
  Region program_;
};

}  // namespace svp::campaign
