// SPDX-License-Identifier: Apache-2.0
// svp::Runtime: a device with everything that executes on it: pinned memory, allocator, scheduler, streams, and the
// correction slots at the start of segment 7. One per function; thread-safe except for destruction.
//
// In a forked child every call that does something throws Error, and the destructor touches nothing (device.hpp).
//
// It outlives its device: recover() brings it back with another one. Streams, allocator and host memory are the same
// objects afterwards; docs/recovery.md says what is left in them after each reset level.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "host_driver/device/device.hpp"
#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/current_regions.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/launch_plan.hpp"
#include "host_driver/runtime/recovery_policy.hpp"
#include "host_driver/runtime/scheduler.hpp"

namespace svp {

struct RuntimeOptions {
  FlexAllocatorOptions allocator{};
  StagingOptions staging{};
  RecoveryOptions recovery{};
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
  // `source` opens the device again; without one recover() knows stream and queue resets only.
  explicit Runtime(std::unique_ptr<Device> device, RuntimeOptions options = {},
                   std::unique_ptr<DeviceSource> source = nullptr);
  // Ends everything (LOST or INDETERMINATE for what has not ended; nobody hears of it but observers).
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Until the next recovery.
  Device& device() { return *current_device(); }
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

  // For a launch on the card's stream `stream`; during a reservation of its channel.
  LaunchSite launch_site(std::uint32_t stream) const;

  // ---- recovery (runtime_recovery.cpp)
  // Escalates from `from` (empty: the lowest reset level that can help, as the streams and the device say) until
  // everything works again: the card is up, every stream usable, and, from the function reset on, the allocator empty (old
  // handles: LostInReset), the correction slots reserved and every program to be loaded again. Launches that have not
  // ended end first, their waiters and observers are told. With nothing to repair it does nothing. Calls of other threads
  // meanwhile are refused, or wait. Throws Error when no reset level helped: everything fails with that error until the next call.
  RecoveryReport recover(std::optional<ResetLevel> from = std::nullopt);
  std::uint64_t recoveries() const { return recoveries_.load(std::memory_order_relaxed); }
  const RecoveryOptions& recovery_options() const { return recovery_; }
  // RecoveryPolicy::Recover: recovers when the stream needs it. True: it did. Throws as recover().
  bool recover_if_needed(StreamChannel& channel) { return channel.needs_recovery() && recover_now(channel); }

  // Throws Error in a process that was forked from the one that made this.
  void require_own_process() const;

 private:
  void abandon() noexcept;
  void reserve_correction_slots();
  std::shared_ptr<Device> current_device() const;
  void take_facts();

  // With recover_mutex_ and streams_mutex_ held.
  RecoveryReport escalate_from(ResetLevel from, bool wanted);
  Device::TimePoint quiesce_deadline() const;  // of waiting for other threads to let go of a stream
  ResetLevel lowest_level();
  bool recover_now(StreamChannel& channel);
  Expected<void> run_level(ResetLevel level, bool wanted, RecoveryReport& report);
  Expected<void> reset_poisoned_streams();
  Expected<void> reset_queues(RecoveryReport& report);
  Expected<void> replace_device(ResetLevel level, bool wanted, RecoveryReport& report);
  Expected<void> quiesce();
  void move_memory(Device& device);
  Expected<void> end_everything(RecoveryReport& report);
  Expected<void> adopt(std::shared_ptr<Device> device);
  Expected<std::uint32_t> open_on_card(Device& device, unsigned id) const;

  const RecoveryOptions recovery_;
  const OwnerProcess process_;
  std::unique_ptr<DeviceSource> source_;
  FirstFailure first_failure_;
  mutable std::mutex device_mutex_;  // which device
  std::shared_ptr<Device> device_;
  std::shared_ptr<Device> device_before_;  // who has just asked for device() may still use it
  std::shared_ptr<CurrentRegions> regions_;
  HostMemory host_memory_;
  std::shared_ptr<FlexAllocator> allocator_;
  std::unique_ptr<Scheduler> scheduler_;
  AllocationIndex slots_ = AllocationIndex::Null;
  ResolvedAllocation slots_at_{};
  // Of the device, for launches: changed while no launch is being written.
  WindowIdentity window_{};
  wire::AddressMode mode_ = wire::AddressMode::Pf;
  std::uint64_t all_cores_ = 0;

  std::mutex recover_mutex_;  // one recovery at a time; before streams_mutex_
  std::atomic<std::uint64_t> recoveries_{0};
  std::mutex streams_mutex_;
  std::array<std::unique_ptr<FlexStream>, 2 * kStreamsPerPool + 1> streams_;
  std::array<std::atomic<FlexStream*>, 2 * kStreamsPerPool + 1> ready_{};  // of streams_: found without the lock
  std::array<StreamChannel*, 2 * kStreamsPerPool + 1> channels_{};
  std::array<std::atomic<unsigned>, 2> next_{};
};

}  // namespace svp
