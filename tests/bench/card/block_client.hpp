// SPDX-License-Identifier: Apache-2.0
// Control blocks as raw as the driver offers them: the measurements below FlexStream are made of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "host_driver/device/device.hpp"
#include "host_driver/frontend/context.hpp"
#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/job.hpp"
#include "tests/bench/card/measurement_error.hpp"
#include "tests/bounds.hpp"
#include "tests/support/block_stream.hpp"

namespace bench {

// What transfers go between: pinned memory for the way there and the way back, and memory of the card, of one size.
struct TransferMemory {
  TransferMemory(svp::Context& card, std::uint64_t bytes)
      : out(card.host_memory().allocate(bytes)),
        back(card.host_memory().allocate(bytes)),
        storage(card.allocator().allocate(bytes)),
        place(card.runtime().allocator().resolve(storage->allocation_index())) {}

  svp::PinnedBuffer out;
  svp::PinnedBuffer back;
  std::shared_ptr<const svp::DeviceStorage> storage;
  svp::ResolvedAllocation place;
};

// Between pinned memory and an allocation, from its start.
wire::ControlBlock to_device_block(const svp::PinnedBuffer& from, const svp::ResolvedAllocation& to,
                                   std::uint64_t bytes);
wire::ControlBlock from_device_block(const svp::ResolvedAllocation& from, const svp::PinnedBuffer& to,
                                     std::uint64_t bytes);
// A kernel without operands, on a core of the card's choice; the job is loaded.
wire::ControlBlock compute_block(const svp::Job& job, const svp::FlexAllocator& allocator);
// The empty kernel, ready to be launched.
svp::Job load_empty_kernel(svp::Context& card);

// `compute` so many times in a command buffer of the card, and the block that runs it: PREPARED for one, else CALL. The
// buffer stays until the function is reset. Throws MeasurementError when the card refuses it.
wire::ControlBlock call_block(svp::Context& card, const wire::ControlBlock& compute, std::uint32_t times);

// A stream of its own, used by one thread. Every call is bounded by kBound and throws MeasurementError when a block
// ends with anything but OK, svp::Error when the card is gone.
class BlockClient {
 public:
  static constexpr std::chrono::seconds kBound = bench_bounds::kBlock;

  explicit BlockClient(svp::Device& device) : stream_(device) {}

  // Submits one block and waits for it: a round trip.
  void run(const wire::ControlBlock& block);
  // The same block `count` times, as fast as the credits allow; returns when all have ended.
  void run_many(const wire::ControlBlock& block, std::size_t count);

  // Without waiting; how each one ends is counted, and judged by nobody.
  void submit(const wire::ControlBlock& block) { submit(std::span(&block, 1)); }
  void submit(std::span<const wire::ControlBlock> blocks);  // one publication; at most kMaxSubmit
  static constexpr std::size_t kMaxSubmit = 8;
  std::uint64_t submitted() const { return stream_.submitted(); }
  // Until as many have ended since the start.
  void wait_ended(std::uint64_t count);
  void wait_all() { wait_ended(submitted()); }
  // Device times of the last block that ended, in ticks.
  std::uint64_t last_device_ticks() const { return stream_.sink().last_ticks(); }
  std::uint64_t ended() const { return stream_.ended(); }
  std::uint64_t not_ok() const { return stream_.sink().not_ok(); }
  void forgive() { stream_.sink().forgive(); }

  std::uint32_t stream() const { return stream_.stream(); }
  svp::Device& device() { return stream_.device(); }

 private:
  void require_all_ok() const;

  svp::test::CountedStream stream_;
};

}  // namespace bench
