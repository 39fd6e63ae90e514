// SPDX-License-Identifier: Apache-2.0
// FlexAllocator: the device memory manager of flex (RFC "Spyre Stack", SpyreAllocator / FlexAllocator). It holds up to
// eight regions of device memory, obtained when first needed, and cuts 128-byte-aligned blocks from them.
//
// Sizes are bytes: 0 → a null handle that changes nothing, 1 → a block of 128, 129 → 256. A block lies in one region.
// Thread-safe: every public call may come from any thread. No lock is held while the card is asked for a region or
// while the memory-pressure callback runs. In a forked child every call throws Error, but deallocate(), which does nothing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "host_driver/base/process.hpp"
#include "host_driver/error.hpp"
#include "host_driver/memory/block_heap.hpp"
#include "host_driver/memory/region.hpp"
#include "host_driver/memory/virtual_address.hpp"

namespace flex {

// What the frontend keeps instead of an address: opaque, comparable, hashable. It holds no address (RFC: the handle
// that a user sees must not tell where the data lie), only a slot, that slot's generation and the allocator's mark, so
// that a handle used after its release, or with another allocator, is recognised.
enum class AllocationIndex : std::uint64_t { Null = 0 };

// Which of the regions that can serve a request does.
enum class RegionOrder : std::uint8_t { MostFree, LeastFree };

// How one allocation is placed. Aggregate: later members (placement over regions: Bind, Preferred, Interleave) get
// defaults that mean today's behaviour.
struct AllocationPolicy {
  RegionType type = RegionType::Tensor;
  RegionOrder order = RegionOrder::MostFree;
  Fit fit = Fit::Best;
};

struct ResolvedAllocation {
  VirtualAddress address;
  std::uint64_t bytes = 0;              // as asked for
  std::uint64_t block_bytes = 0;        // as reserved: a multiple of 128
  std::uint32_t region_generation = 0;  // goes beside the address on the wire
  std::uint32_t region_ordinal = 0;     // 0…7: the kernel's window
  RegionType type = RegionType::Tensor;
};

// A handle that names no live allocation of this allocator.
class InvalidAllocation : public Error {
 public:
  enum class Reason : std::uint8_t {
    Null,         // a zero-byte allocation has no address
    Foreign,      // given out by another allocator, or never
    Released,     // released before: double free or use after free
    LostInReset,  // its region went away with a reset of the function
  };
  InvalidAllocation(Reason reason, ErrorInfo info) : Error(std::move(info)), reason_(reason) {}
  Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

struct Counter {
  std::uint64_t current = 0;
  std::uint64_t peak = 0;         // highest `current` since reset_peak_statistics()
  std::uint64_t accumulated = 0;  // total ever added
  std::uint64_t allocated = 0;    // added since reset_accumulated_statistics()
  std::uint64_t freed = 0;        // removed since reset_accumulated_statistics()
  friend bool operator==(const Counter&, const Counter&) = default;
};

// Without the region's name: on the PF that is its physical base, which stays inside flex (virtual_address.hpp).
struct RegionStatistics {
  std::uint32_t ordinal = 0;
  RegionType type = RegionType::Tensor;
  std::uint64_t bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t largest_free = 0;
  std::uint64_t used_blocks = 0;
  std::uint64_t free_blocks = 0;
};

struct AllocatorStatistics {
  Counter bytes;                    // in blocks: rounded to 128
  Counter count;                    // blocks
  Counter reserved_bytes;           // in regions
  std::uint64_t out_of_memory = 0;  // requests that failed for good
  // 0: all that is free in each region is one block; towards 1: the largest free blocks are a small part of what is
  // free. 1 − Σ largest / Σ free over the regions; 0 when nothing is free.
  double fragmentation = 0;
  std::vector<RegionStatistics> regions;  // in ordinal order

  std::uint64_t free_bytes() const { return reserved_bytes.current - bytes.current; }
};

struct FlexAllocatorOptions {
  // Sizes to ask for, tried in this order; entries smaller than the request are skipped. None is larger than what is left
  // of the share that the function is guaranteed, unless the request itself is. When all are refused, halves of the last
  // one, down to the size of the request (in 2 MiB granules, up to kMaxRegionBytes).
  std::vector<std::uint64_t> region_bytes{12 * wire::kGiB, 8 * wire::kGiB, 4 * wire::kGiB};
  // Likewise of the one Program region, which has to hold every program of the function and its correction slots: none is
  // larger than a sixteenth of the share.
  std::vector<std::uint64_t> program_bytes{256 * wire::kMiB};
  AllocationPolicy default_policy{};
  std::uint32_t max_generation = BlockNodes::kMaxGeneration;  // how often a handle slot is reused; smaller in tests
};

class FlexAllocator {
 public:
  // Told what is short just before an allocation fails. It may release memory of this allocator, from any thread.
  using MemoryPressureCallback = std::function<void(const MemoryShortage&)>;

  // `source` outlives the allocator. Throws InvalidArgument when a region size is zero, not a multiple of 2 MiB or
  // above kMaxRegionBytes.
  explicit FlexAllocator(RegionSource& source, FlexAllocatorOptions options = {});
  ~FlexAllocator();  // gives every region back; handles that still live are void
  FlexAllocator(const FlexAllocator&) = delete;
  FlexAllocator& operator=(const FlexAllocator&) = delete;

  // Order: a region that is held; else a new region; else the memory-pressure callback once, and both again.
  // Throws OutOfMemory (requested is rounded; the figures count regions of the requested type), or Error as reported
  // by the region source when the card did not answer.
  AllocationIndex allocate(std::uint64_t bytes);
  AllocationIndex allocate(std::uint64_t bytes, const AllocationPolicy& policy);

  // Null and handles lost in a reset are accepted and ignored (there is nothing left to free).
  // Throws InvalidAllocation for a released or foreign handle; nothing changed then.
  void deallocate(AllocationIndex index);

  // Throws InvalidAllocation. The address is good until deallocate() or forget_regions().
  ResolvedAllocation resolve(AllocationIndex index) const;
  // The same without throwing, for the launch path.
  Expected<ResolvedAllocation> try_resolve(AllocationIndex index) const;

  void set_memory_pressure_callback(MemoryPressureCallback callback);

  // Gives regions without a single block back to the card and returns their bytes. Throws what the source reports,
  // after trying all; a region whose release failed is not held any more either.
  std::uint64_t release_unused_regions();

  // The function was reset: its regions are gone. Drops them without asking the card; handles become LostInReset.
  void forget_regions();

  AllocatorStatistics statistics() const;
  void reset_peak_statistics();
  void reset_accumulated_statistics();

 private:
  struct HeldRegion {
    Region grant;
    BlockHeap heap;
  };
  struct Failure {  // `error` set: the source failed; otherwise memory is short
    MemoryShortage shortage;
    std::optional<ErrorInfo> error;
  };
  using Attempt = std::expected<AllocationIndex, Failure>;
  using Reason = InvalidAllocation::Reason;

  Attempt allocate_held(std::uint64_t bytes, const AllocationPolicy& policy);
  Attempt allocate_or_grow(std::uint64_t bytes, const AllocationPolicy& policy);
  Expected<Region> acquire_region(RegionType type, std::uint64_t bytes);
  std::vector<std::uint64_t> region_sizes(RegionType type, std::uint64_t bytes) const;
  ErrorInfo check_grant(const Region& region, RegionType type, std::uint64_t bytes) const;
  void add_region(const Region& region);
  std::optional<AllocationIndex> allocate_in(HeldRegion& region, std::uint64_t bytes, Fit fit);
  HeldRegion* next_region(const AllocationPolicy& policy, std::uint32_t tried);
  bool can_hold_another(RegionType type) const;
  MemoryShortage shortage(RegionType type, std::uint64_t bytes) const;
  std::expected<BlockId, Reason> find(AllocationIndex index) const;
  void run_memory_pressure_callback(const MemoryShortage& shortage);

  void require_own_process() const;

  RegionSource& source_;
  const FlexAllocatorOptions options_;
  const OwnerProcess process_;

  std::mutex grow_mutex_;     // one region is being acquired or released; taken before mutex_
  mutable std::mutex mutex_;  // everything below
  BlockNodes nodes_;
  std::array<std::optional<HeldRegion>, wire::kRegionsPerFunction> regions_;
  std::uint64_t mark_;                    // this allocator, in the top bits of its handles
  std::vector<std::uint64_t> old_marks_;  // before resets
  MemoryPressureCallback on_memory_pressure_;
  Counter bytes_;
  Counter count_;
  Counter reserved_;
  std::uint64_t out_of_memory_ = 0;
};

}  // namespace flex
