// SPDX-License-Identifier: Apache-2.0
// The function as it is attached now: the device, its memory on both sides, and the facts of it that launches need. The
// device is replaced by a recovery; allocator and host memory are the same objects afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "host_driver/base/process.hpp"
#include "host_driver/device/device.hpp"
#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/current_regions.hpp"
#include "host_driver/runtime/launch_plan.hpp"
#include "host_driver/runtime/scratchpads.hpp"
#include "host_driver/runtime/shared_timelines.hpp"

namespace svp {

class CurrentFunction {
 public:
  // One slot per stream of the card, so that a stream's slot is found from its number: 512 KiB at the start of segment
  // 7 (RFC open question 10). A larger correction tensor goes into memory of its stream's that is sized by the metadata
  // (SlotMemory).
  static constexpr std::uint64_t kCorrectionSlots = wire::kStreamsPerFunction;
  static constexpr std::uint64_t kCorrectionSlotBytes = 4 * wire::kKiB;

  // Acquires the Program region, reserves the slots, and acquires FlexAllocatorOptions::acquire_at_open. Throws what
  // the card or the allocator reports.
  CurrentFunction(std::unique_ptr<Device> device, FlexAllocatorOptions options,
                  std::shared_ptr<TimelineSharing> sharing = nullptr);
  CurrentFunction(const CurrentFunction&) = delete;
  CurrentFunction& operator=(const CurrentFunction&) = delete;

  // Lets go of the device and of all regions.
  void close();
  // In a forked child: touches nothing, now and at the end.
  void abandon() noexcept;

  // Until the next recovery. Thread-safe.
  std::shared_ptr<Device> device() const;
  const std::shared_ptr<FlexAllocator>& allocator() const { return allocator_; }
  HostMemory& host_memory() { return host_memory_; }
  Scratchpads& scratchpads() const { return *scratchpads_; }
  SharedTimelines& shared_timelines() { return shared_timelines_; }
  // For a launch on the card's stream `stream`; during a reservation of its channel.
  LaunchSite launch_site(std::uint32_t stream) const;

  // Throws Error in a process that was forked from the one that made this.
  void require_own_process() const;

  // ---- recovery: one thread at a time, and no launch is being written
  // Nobody gets a region from now on, until replace() and open_regions(), or open_regions() alone when nothing was
  // done.
  void shut_regions();
  void open_regions();
  bool is_other_window(const Device& device) const { return device.window_identity() != window_; }
  void move_host_memory(Device& device);
  // The allocator is empty afterwards but for the correction slots; it holds the regions of acquire_at_open that the
  // card gave. Throws as the constructor.
  void replace(std::shared_ptr<Device> device);

 private:
  void take_facts();
  void reserve_correction_slots();
  void acquire_again();

  const OwnerProcess process_;
  mutable std::mutex device_mutex_;  // which device
  std::shared_ptr<Device> device_;
  std::shared_ptr<Device> device_before_;  // who has just asked for device() may still use it
  std::shared_ptr<CurrentRegions> regions_;
  HostMemory host_memory_;
  SharedTimelines shared_timelines_;
  std::shared_ptr<FlexAllocator> allocator_;
  const std::unique_ptr<Scratchpads> scratchpads_ = std::make_unique<Scratchpads>();
  AllocationIndex slots_ = AllocationIndex::Null;
  ResolvedAllocation slots_at_{};
  // Of the device, for launches: changed while no launch is being written.
  WindowIdentity window_{};
  wire::AddressMode mode_ = wire::AddressMode::Pf;
  std::uint64_t all_cores_ = 0;
};

}  // namespace svp
