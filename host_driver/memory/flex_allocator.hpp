// SPDX-License-Identifier: Apache-2.0
// FlexAllocator: the device memory manager of flex (RFC "Spyre Stack", SpyreAllocator / FlexAllocator). It holds up to
// eight regions of device memory, obtained when first needed, and cuts 128-byte-aligned blocks from them.
//
// Sizes are bytes: 0 → a null handle that changes nothing, 1 → a block of 128, 129 → 256. A block lies in one region;
// an allocation is one block, or with Placement::Interleave several of them (chunks, flex_chunks.cpp).
// Thread-safe: every public call may come from any thread. No lock is held while the card is asked for a region or
// while a callback runs that did not ask for the lock. In a forked child every call throws Error, but deallocate(),
// which does nothing.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <spyre/allocator.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/process.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/memory/block_heap.hpp"
#include "host_driver/memory/memory_usage.hpp"
#include "host_driver/memory/owner_checked.hpp"
#include "host_driver/memory/region.hpp"
#include "host_driver/memory/resolved_chunks.hpp"
#include "host_driver/memory/use_clock.hpp"
#include "host_driver/memory/virtual_address.hpp"

namespace svp {

using spyre::AllocationIndex;
using spyre::InvalidAllocation;
using spyre::LockedMemoryPressureCallback;
using spyre::MemoryPressureCallback;

// Which of the regions that can serve a request does.
enum class RegionOrder : std::uint8_t { MostFree, LeastFree };

// What AllocationPolicy::regions means. A region is named by its ordinal, as statistics() and resolve() show it.
enum class Placement : std::uint8_t {
  Anywhere,  // nothing: `regions` is 0
  // only these: the request fails when no free block of theirs is large enough. Another region is acquired for it when
  // the card gives one of these ordinals next: it gives the lowest that is free
  Bind,
  Preferred,  // these first, then as Anywhere
  // Spread over these as several chunks, one per region, in the order of the ordinals; 0: all that are held. Parts are
  // whole sticks and differ by one at most, unless the largest free block of a region is smaller than its part: all of
  // it serves then, and the others share the rest. When the largest free blocks of these regions are too small
  // together, others are acquired for what is missing: any with 0, else as for Bind. RegionOrder means nothing.
  Interleave,
};

// How one allocation is placed.
struct AllocationPolicy {
  RegionType type = RegionType::Tensor;
  RegionOrder order = RegionOrder::MostFree;  // among the regions that the placement does not tell apart
  Fit fit = Fit::Best;
  Placement placement = Placement::Anywhere;
  std::uint32_t regions = 0;  // bit n: the region with ordinal n
};

struct ResolvedAllocation {
  VirtualAddress address;
  std::uint64_t bytes = 0;              // as asked for
  std::uint64_t block_bytes = 0;        // as reserved: a multiple of 128
  std::uint32_t region_generation = 0;  // goes beside the address on the wire
  std::uint32_t region_ordinal = 0;     // 0…7: the kernel's window
  RegionType type = RegionType::Tensor;
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
  // Sizes to ask for, tried in this order; entries smaller than the request are skipped. None is larger than what is
  // left of the share that the function is guaranteed, unless the request itself is. When all are refused, halves of
  // the last one, down to the size of the request (in 2 MiB granules, up to kMaxRegionBytes).
  // Empty: 12, 8 and 4 GiB, and before these a larger one where the regions that may still be held, of kMaxRegionBytes
  // each, could not hold the rest of the share: all of the share can be had.
  std::vector<std::uint64_t> region_bytes{};
  // Likewise of the one Program region, which has to hold every program of the function and its correction slots: none
  // is larger than a sixteenth of the share.
  std::vector<std::uint64_t> program_bytes{256 * wire::kMiB};
  // Tensor regions that are held at a time, 1 … 7.
  std::uint32_t max_regions = wire::kProgramRegion;
  // What set_memory_limit() sets, and set_memory_fraction(); not both. Empty: no limit.
  std::optional<std::uint64_t> limit_bytes{};
  std::optional<double> limit_fraction{};
  // Tensor regions that acquire_at_open() acquires: sizes, in the order of their ordinals.
  std::vector<std::uint64_t> acquire_at_open{};
  AllocationPolicy default_policy{};
  std::uint32_t max_generation = BlockNodes::kMaxGeneration;  // how often a handle slot is reused; smaller in tests
  // So long allocate() waits for memory that was released and is still used by work under way, before it says that
  // there is none.
  std::chrono::nanoseconds timeout = Timeouts{}.quiesce;
};

class FlexAllocator;

// Blocks that work under way uses. Whoever releases one meanwhile only gives up the handle: nobody else gets the memory
// before this lets go. Not thread-safe; no heap for as many blocks as a kernel has operands.
class AllocationUses {
 public:
  AllocationUses() = default;
  AllocationUses(AllocationUses&& other) noexcept { swap(other); }
  AllocationUses& operator=(AllocationUses&& other) noexcept {
    AllocationUses(std::move(other)).swap(*this);
    return *this;
  }
  ~AllocationUses() { let_go(); }

  // Before the first use: they are of a launch of this stream. Others keep memory until they end, in no order.
  void order_by(UseClock& stream) { clock_ = &stream; }
  UseClock* stream() const { return clock_; }
  // The launch has its place in the stream.
  void place_taken() noexcept;
  // What has to end before the launch begins: memory that it uses was given to it while others still used it.
  std::vector<AwaitedUse>& awaited() { return awaited_; }

  void let_go() noexcept;
  bool empty() const { return count_ == 0; }
  void swap(AllocationUses& other) noexcept;

 private:
  friend class FlexAllocator;
  static constexpr std::size_t kInline = 16;
  void add(AllocationIndex index);
  bool names(AllocationIndex index) const;

  UseClock* clock_ = nullptr;
  bool open_ = false;  // counted in clock_->open
  std::vector<AwaitedUse> awaited_;
  std::shared_ptr<FlexAllocator> allocator_;
  std::size_t count_ = 0;
  std::array<AllocationIndex, kInline> first_{};
  std::vector<AllocationIndex> more_;
};

class FlexAllocator : public std::enable_shared_from_this<FlexAllocator> {
 public:
  // `source` outlives the allocator. Asks the card for nothing. Throws InvalidArgument when a region size is zero, not
  // a multiple of 2 MiB or above kMaxRegionBytes, and when a limit is impossible.
  explicit FlexAllocator(RegionSource& source, FlexAllocatorOptions options = {});
  ~FlexAllocator();  // gives every region back; handles that still live are void
  FlexAllocator(const FlexAllocator&) = delete;
  FlexAllocator& operator=(const FlexAllocator&) = delete;

  // Order: a region that is held; else a new region; else what was released and is used by work under way, when that
  // has ended (before memory that nobody has touched, when that would exceed the card's budget of populated memory);
  // else regions without a block go back to the card, when that makes room below the memory limit; else the
  // memory-pressure callbacks once, and all of it again.
  // Throws OutOfMemory (requested is rounded; the figures count the regions that may serve the request), Error as
  // reported by the region source when the card did not answer, InvalidArgument for a placement that names no region,
  // one that does not exist or one of the other type, and Error when none of the regions of a Bind is held and the card
  // gives another one next.
  AllocationIndex allocate(std::uint64_t bytes);
  AllocationIndex allocate(std::uint64_t bytes, const AllocationPolicy& policy);
  // For a launch whose uses these are, and which uses it first: memory that was freed behind earlier launches of its
  // stream comes first.
  AllocationIndex allocate(std::uint64_t bytes, const AllocationPolicy& policy, const AllocationUses& uses);
  // The same, but a failure is returned, also that of a callback. Throws nothing but std::bad_alloc.
  Expected<AllocationIndex> try_allocate(std::uint64_t bytes);
  Expected<AllocationIndex> try_allocate(std::uint64_t bytes, const AllocationPolicy& policy);

  // Null and handles lost in a reset are accepted and ignored (there is nothing left to free).
  // Throws InvalidAllocation for a released or foreign handle; nothing changed then.
  // Memory that work under way uses (try_use()) can be had again when that has ended.
  void deallocate(AllocationIndex index);
  // The same for destructors. False: the handle names nothing that could be freed.
  bool try_deallocate(AllocationIndex index) noexcept;

  // Throws InvalidAllocation. The address is good until deallocate() or forget_regions().
  ResolvedAllocation resolve(AllocationIndex index) const;
  // The same without throwing, for the launch path.
  Expected<ResolvedAllocation> try_resolve(AllocationIndex index) const;
  // The same, and the block stays where it is, with its bytes, until `uses` lets go or the function is reset. This
  // object is owned by a shared_ptr; all of `uses` are of one allocator.
  Expected<ResolvedAllocation> try_use(AllocationIndex index, AllocationUses& uses);
  // The same for an allocation of one or several chunks; those above refuse several (InvalidAllocation, SeveralChunks).
  // Uses hold all of them.
  ResolvedChunks resolve_chunks(AllocationIndex index) const;
  Expected<ResolvedChunks> try_resolve_chunks(AllocationIndex index) const;
  Expected<ResolvedChunks> try_use_chunks(AllocationIndex index, AllocationUses& uses);
  // Of a handle that try_use() or try_use_chunks() refused: throws InvalidAllocation with the reason. info().source is
  // `user`, which the message begins with. Chunks are no reason here; without one: Error.
  [[noreturn]] void refuse(AllocationIndex index, const std::string& user, const std::string& what) const;
  // False: no allocation has several chunks. Takes no lock: true for whoever was given the handle of one.
  bool has_chunked() const { return chunked_.load(std::memory_order_relaxed) != 0; }

  // Called just before an allocation fails (spyre/allocator.hpp says how); the one with the lock first. When it returns
  // with the lock, nobody else gets what it freed. Each replaces the one before it; an empty one removes it.
  void set_memory_pressure_callback(MemoryPressureCallback callback);
  void set_locked_memory_pressure_callback(LockedMemoryPressureCallback callback);

  // Gives regions without a single block back to the card and returns their bytes. Throws what the source reports,
  // after trying all; a region whose release failed is not held any more either.
  std::uint64_t release_unused_regions();

  // ---- limits (flex_limits.cpp)
  // From now on no region is acquired that would make all regions, also that of programs, more than this. Empty: no
  // limit. What is held already stays.
  void set_memory_limit(std::optional<std::uint64_t> bytes);
  // The same as a part of memory_info().total_bytes, as it is now. Throws InvalidArgument (not within 0 … 1) and what
  // memory_info() throws.
  void set_memory_fraction(double fraction);
  std::optional<std::uint64_t> memory_limit() const;
  // What the options say of it. Throws what set_memory_fraction() throws.
  void apply_limit_fraction();
  // The tensor regions that the options name and that are not held. Throws Error naming the region that the card
  // refused; those before it are held.
  void acquire_at_open();

  // The function was reset: its regions are gone. Drops them without asking the card; handles become LostInReset.
  void forget_regions();

  AllocatorStatistics statistics() const;
  MemoryStats memory_stats() const;
  void reset_peak_statistics();         // of both
  void reset_accumulated_statistics();  // of both
  // What the card has for this function, as far as the limit and the number of regions let it be had. Throws what the
  // source reports; Error (Outcome::Fault) when that is impossible.
  MemoryInfo memory_info();

 private:
  friend class AllocationUses;
  struct HeldRegion {
    Region grant;
    BlockHeap heap;
    std::uint64_t touched = 0;  // bytes at the front, of which each was in a block once
  };
  struct Failure {  // `error` set: the source failed; otherwise memory is short
    MemoryShortage shortage;
    std::optional<ErrorInfo> error;
    bool beyond_budget = false;  // there is memory that nobody has touched
  };
  // Whether memory that nobody has touched may be given beyond the card's budget.
  enum class Untouched : std::uint8_t { Any, WithinBudget };
  using Attempt = std::expected<AllocationIndex, Failure>;
  using Reason = InvalidAllocation::Reason;

  AllocationIndex allocate_or_throw(std::uint64_t bytes, const AllocationPolicy& policy, Untouched untouched);
  Attempt attempt_everything(std::uint64_t bytes, const AllocationPolicy& policy, Untouched untouched);
  Attempt allocate_or_wait(std::uint64_t bytes, const AllocationPolicy& policy, Untouched untouched);
  // Nothing: there is no callback that could help.
  std::optional<Attempt> allocate_after_callbacks(std::uint64_t bytes, const AllocationPolicy& policy,
                                                  const MemoryShortage& missing);
  Attempt allocate_held(std::uint64_t bytes, const AllocationPolicy& policy, Untouched untouched = Untouched::Any);
  // Returns with `lock` (of mutex_) held, so that nothing is freed between a failure and the wait for more.
  Attempt allocate_or_grow(std::uint64_t bytes, const AllocationPolicy& policy, Untouched untouched,
                           std::unique_lock<std::mutex>& lock);
  Expected<Region> acquire_region(RegionType type, std::uint64_t bytes);
  Expected<Region> acquire_exactly(RegionType type, std::uint64_t bytes);
  Expected<Region> acquire_within_limit(std::uint64_t bytes);
  bool is_held(std::size_t ordinal) const;
  std::vector<std::uint64_t> region_sizes(RegionType type, std::uint64_t bytes) const;
  // The most that may be asked for when `needed` (granules) have to be in it; less than that: the limit forbids it.
  std::uint64_t largest_region(RegionType type, std::uint64_t needed) const;
  std::uint64_t least_region() const;  // what the next one has to hold, so that the rest of the share can be had
  std::uint32_t regions_left() const;  // tensor regions that may still be held
  const char* advice(const MemoryShortage& missing, const AllocationPolicy& policy) const;
  std::uint64_t room_in_limit() const;  // bytes, in granules
  void check_limits() const;
  // The limit, when it is why no region is acquired for the request; else 0.
  std::uint64_t limiting(const AllocationPolicy& policy, std::uint64_t bytes) const;
  // Whether regions without a block, once they are given back, make room for another one.
  bool make_room_in_limit(const MemoryShortage& missing);
  ErrorInfo check_grant(const Region& region, RegionType type, std::uint64_t bytes) const;
  void add_region(const Region& region);
  AllocationIndex handle_of(BlockId id) const;
  std::optional<AllocationIndex> allocate_in(HeldRegion& region, std::uint64_t bytes, Fit fit, Untouched untouched,
                                             bool& beyond_budget);
  HeldRegion* next_region(const AllocationPolicy& policy, std::uint32_t tried);
  static void check_placement(const AllocationPolicy& policy);
  static std::uint32_t eligible(const AllocationPolicy& policy);  // bit n: region n may serve it, when it is held
  std::optional<unsigned> next_ordinal(RegionType type) const;    // of the region that the card gives next; empty: none
  bool can_hold_another(const AllocationPolicy& policy) const;
  Failure none_can_serve(const AllocationPolicy& policy, std::uint64_t bytes) const;
  MemoryShortage shortage(const AllocationPolicy& policy, std::uint64_t bytes) const;
  std::expected<BlockId, Reason> find(AllocationIndex index) const;
  static InvalidAllocation invalid(Reason reason, AllocationIndex index);
  ResolvedAllocation resolved(BlockId id) const;
  std::expected<void, Reason> release(AllocationIndex index);
  void free_block(BlockId id);
  // ---- the budget of populated memory (flex_budget.cpp)
  // Blocks in front of `end` have been given. False: that would exceed the budget, and was not noted.
  bool touch(HeldRegion& region, BlockId id, Untouched untouched);
  std::uint64_t touched_bytes() const;
  bool something_comes_back() const;
  // False: not in time.
  bool await_any_freed(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point deadline);
  // ---- reuse in the order of a stream (flex_reuse.cpp)
  std::optional<AllocationIndex> reuse(std::uint64_t bytes, const AllocationPolicy& policy);
  std::optional<AllocationIndex> reuse_behind(const UseClock& stream, std::uint64_t bytes,
                                              const AllocationPolicy& policy, const AllocationUses* own);
  AllocationIndex give_again(BlockId id, std::uint64_t bytes, const UseClock& stream);
  void note_use(BlockId id, AllocationUses& uses);
  void note_doomed(BlockId id) noexcept;
  void forget_doomed(BlockId id) noexcept;
  // ---- chunks (flex_chunks.cpp); `id` is the first one
  std::optional<AllocationIndex> allocate_interleaved(std::uint64_t bytes, const AllocationPolicy& policy);
  std::uint64_t free_in_chunks(const AllocationPolicy& policy) const;  // the most that could be interleaved now
  // Bytes that another region must have, to serve the request or to bring it nearer.
  std::uint64_t region_needed(const AllocationPolicy& policy, std::uint64_t bytes) const;
  void link_chunks(std::span<const BlockId> blocks);
  void release_chunks(BlockId id);
  std::uint64_t free_chunks(BlockId id);  // their bytes
  ResolvedChunks chunks_at(BlockId id) const;
  void end_uses(std::span<const AllocationIndex> indices) noexcept;
  // False: nothing that would help is about to be freed, or it was not in time. `lock` is held, and has been since the
  // attempt that found the shortage.
  bool await_freed(std::unique_lock<std::mutex>& lock, const MemoryShortage& shortage,
                   std::chrono::steady_clock::time_point deadline);
  void call_with_lock(const LockedMemoryPressureCallback& callback, std::unique_lock<std::mutex>& lock);
  double fragmentation() const;

  void require_own_process() const;

  RegionSource& source_;
  const FlexAllocatorOptions options_;
  const OwnerProcess process_;

  std::mutex grow_mutex_;  // one region is being acquired or released; taken before mutex_
  // Everything below. The callback gets it: check_owner().
  mutable std::mutex mutex_;
  BlockNodes nodes_;
  std::array<std::optional<HeldRegion>, wire::kRegionsPerFunction> regions_;
  std::uint32_t held_ = 0;                // bit n: regions_[n] has a value
  std::uint64_t mark_;                    // this allocator, in the top bits of its handles; 0: none was left
  std::vector<std::uint64_t> old_marks_;  // before resets
  std::uint64_t doomed_bytes_ = 0;        // released, and used by work under way
  std::uint64_t freed_late_ = 0;          // blocks of that kind that were freed, ever
  std::uint64_t stuck_bytes_ = 0;         // of doomed_bytes_: a wait for the budget's sake ended in vain
  std::vector<const UseClock*> user_;     // of a used block whose uses are of one stream: which; else null or several
  // Released blocks that only launches of one stream use: by stream and units, the oldest first.
  std::multimap<std::pair<const UseClock*, std::uint32_t>, BlockId> reusable_;
  std::unordered_map<BlockId, AwaitedUse> given_again_;  // blocks that were given while what was launched used them
  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
  std::uint64_t limit_ = kNoLimit;  // bytes in regions
  std::condition_variable freed_;
  MemoryPressureCallback on_memory_pressure_;
  LockedMemoryPressureCallback on_memory_pressure_locked_;
  MemoryUsage usage_;
  std::atomic<std::uint32_t> chunked_{0};  // allocations of several chunks; changed with mutex_ held
};

}  // namespace svp
