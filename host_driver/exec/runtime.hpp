// SPDX-License-Identifier: Apache-2.0
// flex::Runtime: a device with everything that executes on it: pinned memory, allocator, scheduler, streams, and the
// correction slots at the start of segment 7. One per device; thread-safe except for destruction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "host_driver/device/device.hpp"
#include "host_driver/exec/flex_stream.hpp"
#include "host_driver/exec/launch_plan.hpp"
#include "host_driver/exec/scheduler.hpp"
#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/memory/host_memory.hpp"

namespace flex {

struct RuntimeOptions {
  FlexAllocatorOptions allocator{};
  StagingOptions staging{};
  // Transfers between host and card carry a CRC32C (wire::kDmaChecksum). Into the card it is compared there, and what
  // differs is moved again; out of it it is compared here. What does not match ends FAULT "checksum". Costs both sides a
  // pass over the bytes; off for that reason.
  bool checksums = false;
};

class Runtime {
 public:
  // Stream ids as users see them (facts of torch-spyre): 0 the default, then one pool per priority, handed out in turn.
  static constexpr unsigned kStreamsPerPool = 32;
  // One slot per stream of the card, so that a stream's slot is found from its number (RFC open question 10: the size
  // of the reservation is streams × largest correction tensor, 512 KiB).
  static constexpr std::uint64_t kCorrectionSlots = wire::kStreamsPerFunction;

  // Acquires the Program region and reserves the slots. Throws what the card or the allocator reports.
  explicit Runtime(std::unique_ptr<Device> device, RuntimeOptions options = {});
  // Ends everything (LOST or INDETERMINATE for what has not ended; nobody hears of it but observers).
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Device& device() { return *device_; }
  FlexAllocator& allocator() { return *allocator_; }
  // For what frees its memory by itself: it may outlive the runtime (the memory is gone by then, and freeing does
  // nothing).
  const std::shared_ptr<FlexAllocator>& shared_allocator() { return allocator_; }
  HostMemory& host_memory() { return host_memory_; }

  FlexStream& default_stream() { return stream(0); }
  // The pool's next stream: ids 1 … 32 for Low, 33 … 64 for High; the 33rd request gets the first again.
  FlexStream& next_stream(StreamPriority priority);
  // A stream by id (0 … 64), opened on the card when first asked for. Throws InvalidArgument, or Error from the card.
  FlexStream& stream(unsigned id);

  // For a launch on the card's stream `stream`.
  LaunchSite launch_site(std::uint32_t stream) const;

 private:
  void reserve_correction_slots();

  std::unique_ptr<Device> device_;
  HostMemory host_memory_;
  std::shared_ptr<FlexAllocator> allocator_;
  std::unique_ptr<Scheduler> scheduler_;
  AllocationIndex slots_ = AllocationIndex::Null;
  ResolvedAllocation slots_at_{};
  std::mutex streams_mutex_;
  std::array<std::unique_ptr<FlexStream>, 2 * kStreamsPerPool + 1> streams_;
  std::array<unsigned, 2> next_{};
};

}  // namespace flex
