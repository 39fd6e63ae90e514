// SPDX-License-Identifier: Apache-2.0
// svp::Runtime: a device with everything that executes on it: pinned memory, allocator, scheduler, streams, and the
// correction slots at the start of segment 7. One per function; thread-safe except for destruction.
//
// In a forked child every call that does something throws Error, and the destructor touches nothing (device.hpp).
//
// It outlives its device: recover() brings it back with another one. Streams, allocator and host memory are the same
// objects afterwards; docs/recovery.md says what is left in them after each reset level.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/engine_places.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/recovery_policy.hpp"
#include "host_driver/runtime/runtime_recovery.hpp"
#include "host_driver/runtime/scheduler.hpp"

namespace svp {

struct RuntimeOptions {
  FlexAllocatorOptions allocator{};
  StagingOptions staging{};
  RecoveryOptions recovery{};
  // Transfers between host and card carry a CRC32C (wire::kDmaChecksum). Into the card it is compared there, and what
  // differs is moved again; out of it it is compared here. What does not match ends FAULT "checksum". Costs both sides
  // a pass over the bytes; off for that reason.
  bool checksums = false;
  // A correction tensor whose bytes are in one of the stream's slots already is not sent again: the launch has no
  // correction DMA then, only its computation. The RFC's sequence is the default. What damages a slot unnoticed (see
  // `checksums`) is seen by each launch that uses it.
  bool elide_corrections = false;
};

class Runtime {
 public:
  static constexpr unsigned kStreamsPerPool = Scheduler::kStreamsPerPool;
  static constexpr std::uint64_t kCorrectionSlots = CurrentFunction::kCorrectionSlots;
  static constexpr std::uint64_t kCorrectionSlotBytes = CurrentFunction::kCorrectionSlotBytes;

  // Acquires the Program region and reserves the slots. Throws what the card or the allocator reports.
  // `source` opens the device again; without one recover() knows stream and queue resets only.
  explicit Runtime(std::unique_ptr<Device> device, RuntimeOptions options = {},
                   std::unique_ptr<DeviceSource> source = nullptr);
  // Ends everything (LOST or INDETERMINATE for what has not ended; nobody is told of it but observers).
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Until the next recovery.
  Device& device() { return *function_.device(); }
  FlexAllocator& allocator() { return *function_.allocator(); }
  // For what frees its memory by itself: it may outlive the runtime (the memory is gone by then, and freeing does
  // nothing).
  const std::shared_ptr<FlexAllocator>& shared_allocator() { return function_.allocator(); }
  HostMemory& host_memory() { return function_.host_memory(); }
  // Of all transfers since the beginning, also across recoveries.
  TransferCounters& transfer_counters() { return scheduler_->counters(); }

  FlexStream& default_stream() { return stream(0); }
  // The pool's next stream: ids 1 … 32 for Low, 33 … 64 for High; the 33rd request gets the first again.
  FlexStream& next_stream(StreamPriority priority);
  // The next of the streams for functions of the host (ids 65 …): TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS of them, 4
  // without the variable, which is read at each call. Throws InvalidArgument when it is no number from 1 to 8.
  FlexStream& next_host_stream();
  // A stream by id (0 … 72), opened on the card when first asked for. Throws InvalidArgument, or Error from the card.
  FlexStream& stream(unsigned id);

  // The driver's own, for the programs of Context::load(): it waits for no launch of the caller's. Not among the ids of
  // stream().
  FlexStream& loading_stream();

  // The stream that this thread has chosen, the default stream until it chooses one.
  FlexStream& current_stream();
  // Returns the one before. Throws InvalidArgument for a stream of another runtime.
  FlexStream& set_current_stream(FlexStream& stream);

  // FlexStream::Synchronize() of every stream that was ever asked for. All are waited for; throws the first error of
  // the one with the lowest id.
  void synchronize();
  // The same with a bound; TimeoutError leaves everything running.
  void synchronize(FlexStream::Clock::time_point deadline);
  // synchronize() of every runtime of this process, in the order in which they were opened. All are waited for; throws
  // the first error.
  static void synchronize_all();

  // Of device programs that were loaded.
  EnginePlaces& engines() { return engines_; }

  // For a launch on the card's stream `stream`.
  LaunchSite launch_site(std::uint32_t stream) const { return function_.launch_site(stream); }

  // ---- recovery (runtime_recovery.hpp)
  // Escalates from `from` (empty: the lowest reset level that can help, as the streams and the device say) until
  // everything works again: the card is up, every stream usable, and, from the function reset on, the allocator empty
  // (old handles: LostInReset), the correction slots reserved and every program to be loaded again. Launches that have
  // not ended end first, their waiters and observers are told. With nothing to repair it does nothing. Calls of other
  // threads meanwhile are refused, or wait. Throws Error when no reset level helped: everything fails with that error
  // until the next call.
  RecoveryReport recover(std::optional<ResetLevel> from = std::nullopt);
  std::uint64_t recoveries() const { return recovery_.recoveries(); }
  const RecoveryOptions& recovery_options() const { return recovery_.options(); }

 private:
  const OwnerProcess process_;
  std::unique_ptr<DeviceSource> source_;
  CurrentFunction function_;
  std::unique_ptr<Scheduler> scheduler_;
  RuntimeRecovery recovery_;
  EnginePlaces engines_;
  std::uint64_t number_ = 0;  // in OpenRuntimes
};

}  // namespace svp
