// SPDX-License-Identifier: Apache-2.0
// Control blocks as raw as the driver offers them: the measurements below FlexStream are made of these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "host_driver/device/device.hpp"
#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/job.hpp"
#include "tests/bench/card/measurement_error.hpp"
#include "tests/bounds.hpp"

namespace bench {

wire::ControlBlock nop_block();
// Between pinned memory and an allocation, from its start.
wire::ControlBlock to_device_block(const svp::PinnedBuffer& from, const svp::ResolvedAllocation& to,
                                   std::uint64_t bytes);
wire::ControlBlock from_device_block(const svp::ResolvedAllocation& from, const svp::PinnedBuffer& to,
                                     std::uint64_t bytes);
// A kernel without operands on core 0; the job is loaded.
wire::ControlBlock compute_block(const svp::Job& job, const svp::FlexAllocator& allocator);

// A stream of its own, used by one thread. Every call is bounded by kBound and throws MeasurementError when a block ends
// with anything but OK, svp::Error when the card is gone.
class BlockClient final : svp::CompletionSink {
 public:
  static constexpr std::chrono::seconds kBound = bench_bounds::kBlock;

  explicit BlockClient(svp::Device& device);
  ~BlockClient();
  BlockClient(const BlockClient&) = delete;
  BlockClient& operator=(const BlockClient&) = delete;

  // Submits one block and waits for it: a round trip.
  void run(const wire::ControlBlock& block);
  // The same block `count` times, as fast as the credits allow; returns when all have ended.
  void run_many(const wire::ControlBlock& block, std::size_t count);

  // Without waiting; how each one ends is counted, and judged by nobody.
  void submit(const wire::ControlBlock& block) { submit(std::span(&block, 1)); }
  void submit(std::span<const wire::ControlBlock> blocks);  // one publication; at most kMaxSubmit
  static constexpr std::size_t kMaxSubmit = 8;
  std::uint64_t submitted() const { return submitted_; }
  // Until as many have ended since the start.
  void wait_ended(std::uint64_t count);
  void wait_all();
  // Device times of the last block that ended, in ticks.
  std::uint64_t last_device_ticks() const { return last_ticks_.load(std::memory_order_relaxed); }
  std::uint64_t ended() const { return ended_.load(std::memory_order_acquire); }
  std::uint64_t not_ok() const { return not_ok_.load(std::memory_order_acquire); }
  void forgive() { not_ok_ = 0; }

  std::uint32_t stream() const { return stream_; }
  svp::Device& device() { return device_; }

 private:
  void on_completion(const wire::Completion& completion) noexcept override;

  svp::Device& device_;
  std::uint32_t stream_ = 0;
  std::uint64_t submitted_ = 0;
  std::atomic<std::uint64_t> ended_{0};
  std::atomic<std::uint64_t> not_ok_{0};
  std::atomic<std::uint64_t> last_ticks_{0};
  std::atomic<wire::Status> first_bad_{};
};

}  // namespace bench
