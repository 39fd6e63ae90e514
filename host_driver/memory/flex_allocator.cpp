// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/flex_allocator.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

namespace svp {
namespace {

// A handle: [mark 20][generation 20][slot 24], slot counted from 1 so that no live handle is Null. A mark is given out
// once in the lifetime of a process, so that no handle ever names a block of another allocator, or of another
// incarnation of its function.
constexpr unsigned kSlotBits = 24;
constexpr unsigned kGenerationBits = 20;
constexpr unsigned kMarkBits = 64 - kSlotBits - kGenerationBits;
static_assert(BlockNodes::kMaxNodes == 1U << kSlotBits);
static_assert(BlockNodes::kMaxGeneration == (1U << kGenerationBits) - 1);

constexpr AllocationIndex encode(std::uint64_t mark, std::uint32_t generation, BlockId id) {
  return AllocationIndex{mark << (kSlotBits + kGenerationBits) | std::uint64_t{generation} << kSlotBits |
                         (std::uint64_t{id} + 1)};
}

struct Decoded {
  std::uint64_t mark;
  std::uint32_t generation;
  BlockId id;  // kNoBlock when the slot field is 0
};

constexpr Decoded decode(AllocationIndex index) {
  const auto value = static_cast<std::uint64_t>(index);
  return {.mark = value >> (kSlotBits + kGenerationBits),
          .generation = static_cast<std::uint32_t>(value >> kSlotBits) & BlockNodes::kMaxGeneration,
          .id = static_cast<BlockId>(value & ((std::uint64_t{1} << kSlotBits) - 1)) - 1};
}

std::uint64_t next_mark() {
  // A handle is above every address of a process (2^47), so that none is taken for one.
  constexpr std::uint64_t kFirst = std::uint64_t{1} << (47 - kSlotBits - kGenerationBits);
  static std::atomic<std::uint64_t> counter{kFirst};
  constexpr std::uint64_t kMarks = (std::uint64_t{1} << kMarkBits) - 1;
  const std::uint64_t mark = counter.fetch_add(1, std::memory_order_relaxed);
  return mark <= kMarks ? mark : 0;
}

Error no_mark_left() {
  return Error({.layer = Layer::Driver,
                .source = "allocation index",
                .outcome = wire::Outcome::Rejected,
                .recoverable = false,
                .next_step = "start the program again",
                .message =
                    "this process has opened and reset functions a million times: no handle is left that could not "
                    "be taken for one of before"});
}

std::string memory_name(RegionType type) { return std::string(type_name(type)) + " memory"; }

ErrorInfo describe_invalid(InvalidAllocation::Reason reason, AllocationIndex index) {
  ErrorInfo info{.layer = Layer::Driver,
                 .source = "allocation index " + std::to_string(static_cast<std::uint64_t>(index)),
                 .outcome = wire::Outcome::Rejected,
                 .recoverable = true,
                 .next_step = {},
                 .message = {}};
  switch (reason) {
    case InvalidAllocation::Reason::Null:
      info.message = "a null allocation index has no address";
      info.next_step = "skip zero-byte tensors before resolving";
      break;
    case InvalidAllocation::Reason::Foreign:
      info.message = "allocation index was not given out by this allocator";
      info.next_step = "pass the index to the device that allocated it";
      break;
    case InvalidAllocation::Reason::Released:
      info.message = "allocation index was released before";
      info.next_step = "look for a double free or a tensor that outlived its storage";
      break;
    case InvalidAllocation::Reason::LostInReset:
      info.message = "allocation was lost when the function was reset";
      info.outcome = wire::Outcome::Lost;
      info.recoverable = false;
      info.next_step = "allocate the tensor again and copy its data anew";
      break;
    case InvalidAllocation::Reason::SeveralChunks:
      info.message = "allocation lies in several chunks and has no single address";
      info.next_step = "allocate it without interleaving, or work on its chunks";
      break;
  }
  return info;
}

constexpr std::uint64_t kDefaultRegionBytes[] = {12 * wire::kGiB, 8 * wire::kGiB, 4 * wire::kGiB};

void check_sizes(const char* option, const std::vector<std::uint64_t>& sizes) {
  for (const std::uint64_t bytes : sizes) {
    if (bytes == 0 || !wire::is_aligned(bytes, wire::kGranuleBytes) || bytes > kMaxRegionBytes) {
      throw InvalidArgument(option, "region size " + std::to_string(bytes) + " is not usable",
                            "give multiples of 2 MiB up to 16 GiB");
    }
  }
}

}  // namespace

FlexAllocator::FlexAllocator(RegionSource& source, FlexAllocatorOptions options)
    : source_(source), options_(std::move(options)), nodes_(options_.max_generation), mark_(next_mark()) {
  check_sizes("region_bytes", options_.region_bytes);
  check_sizes("program_bytes", options_.program_bytes);
  check_sizes("acquire_at_open", options_.acquire_at_open);
  check_limits();
  limit_ = options_.limit_bytes.value_or(kNoLimit);
  check_owner(mutex_);
}

FlexAllocator::~FlexAllocator() {
  if (!process_.is_this()) return;
  for (auto& held : regions_) {
    if (!held) continue;
    // The card takes back what is left when the function is closed.
    [[maybe_unused]] const Expected<void> released = source_.release(held->grant);
  }
}

void FlexAllocator::require_own_process() const {
  if (!process_.is_this()) throw Error(made_by_the_parent("device memory"));
}

FlexAllocator::Attempt FlexAllocator::allocate_or_grow(std::uint64_t bytes, const AllocationPolicy& policy,
                                                       Untouched untouched, std::unique_lock<std::mutex>& lock) {
  lock.lock();
  const auto may_grow = [&](const Attempt& attempt) {
    return !attempt && !attempt.error().beyond_budget && can_hold_another(policy);
  };
  Attempt attempt = allocate_held(bytes, policy, untouched);
  if (!may_grow(attempt)) return attempt;
  lock.unlock();
  const std::scoped_lock grow(grow_mutex_);
  lock.lock();
  attempt = allocate_held(bytes, policy, untouched);  // another thread may have grown or freed in between
  for (bool more = true; more && may_grow(attempt);) {
    const std::uint64_t needed = region_needed(policy, bytes);
    lock.unlock();
    Expected<Region> region = acquire_region(policy.type, needed);
    lock.lock();
    if (region) {
      add_region(*region);
    } else if (region.error().outcome != wire::Outcome::Rejected) {
      return std::unexpected(Failure{.shortage = {}, .error = std::move(region.error())});
    }
    attempt = allocate_held(bytes, policy, untouched);
    more = region && policy.placement == Placement::Interleave;  // which may need several
  }
  return attempt;
}

FlexAllocator::Attempt FlexAllocator::allocate_held(std::uint64_t bytes, const AllocationPolicy& policy,
                                                    Untouched untouched) {
  if (mark_ == 0) throw no_mark_left();
  if (policy.placement == Placement::Interleave) {
    if (const auto index = allocate_interleaved(bytes, policy)) return *index;
    return std::unexpected(none_can_serve(policy, bytes));
  }
  if (const auto index = reuse(bytes, policy)) return *index;
  std::uint32_t tried = 0;
  bool beyond_budget = false;
  while (HeldRegion* region = next_region(policy, tried)) {
    if (const auto index = allocate_in(*region, bytes, policy.fit, untouched, beyond_budget)) return *index;
    tried |= 1U << region->grant.ordinal;
  }
  Failure failure = none_can_serve(policy, bytes);
  failure.beyond_budget = beyond_budget;
  return std::unexpected(std::move(failure));
}

std::optional<AllocationIndex> FlexAllocator::allocate_in(HeldRegion& region, std::uint64_t bytes, Fit fit,
                                                          Untouched untouched, bool& beyond_budget) {
  const SplitBlocks before = SplitBlocks::of(region.heap);
  const auto id = region.heap.allocate(bytes, kBlockUnit, fit);
  if (!id) return std::nullopt;
  if (!touch(region, *id, untouched)) {
    beyond_budget = true;
    region.heap.release(*id);
    return std::nullopt;
  }
  usage_.block_allocated(nodes_[*id].size * kBlockUnit, nodes_[*id].slack);
  usage_.split_changed(before, SplitBlocks::of(region.heap));
  return handle_of(*id);
}

AllocationIndex FlexAllocator::handle_of(BlockId id) const { return encode(mark_, nodes_[id].generation, id); }

std::vector<std::uint64_t> FlexAllocator::region_sizes(RegionType type, std::uint64_t bytes) const {
  if (bytes > kMaxRegionBytes) return {};
  const bool program = type == RegionType::Program;
  const std::uint64_t needed = saturating_align_up(bytes, wire::kGranuleBytes);
  const std::uint64_t most = largest_region(type, needed);
  if (most < needed) return {};
  std::vector<std::uint64_t> sizes;
  const auto add = [&](std::uint64_t size) {
    if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  };
  std::span<const std::uint64_t> listed = program ? options_.program_bytes : options_.region_bytes;
  if (!program && listed.empty()) {
    listed = kDefaultRegionBytes;
    const std::uint64_t least = least_region();
    if (least > listed.front() && least >= needed) add(std::min(least, most));
  }
  for (const std::uint64_t size : listed) {
    if (size >= needed) add(std::min(size, most));
  }
  if (sizes.empty()) add(needed);
  while (sizes.back() > needed) add(std::max(needed, sizes.back() / 2 / wire::kGranuleBytes * wire::kGranuleBytes));
  return sizes;
}

Expected<Region> FlexAllocator::acquire_region(RegionType type, std::uint64_t bytes) {
  ErrorInfo refused{.layer = Layer::Memory,
                    .source = memory_name(type),
                    .outcome = wire::Outcome::Rejected,
                    .recoverable = true,
                    .next_step = "free memory",
                    .message = "no region can hold " + std::to_string(bytes) + " bytes"};
  for (const std::uint64_t size : region_sizes(type, bytes)) {
    Expected<Region> region = acquire_exactly(type, size);
    if (region) return region;
    refused = std::move(region.error());
    if (refused.outcome != wire::Outcome::Rejected) break;
  }
  return std::unexpected(std::move(refused));
}

Expected<Region> FlexAllocator::acquire_exactly(RegionType type, std::uint64_t bytes) {
  Expected<Region> region = source_.acquire(type, bytes);
  if (!region) return region;
  const std::scoped_lock lock(mutex_);
  ErrorInfo wrong = check_grant(*region, type, bytes);
  if (wrong.message.empty()) return region;
  return std::unexpected(std::move(wrong));
}

// The grant comes from outside the driver: a bad one must not corrupt the table of regions.
ErrorInfo FlexAllocator::check_grant(const Region& region, RegionType type, std::uint64_t bytes) const {
  std::string wrong;
  if (region.ordinal >= wire::kRegionsPerFunction) {
    wrong = "ordinal is out of range";
  } else if ((region.ordinal == wire::kProgramRegion) != (type == RegionType::Program)) {
    wrong = "ordinal does not fit the region type";
  } else if (regions_[region.ordinal]) {
    wrong = "ordinal is in use";
  } else if (region.type != type) {
    wrong = "type differs from the request";
  } else if (region.bytes != bytes) {
    wrong = "size differs from the request";
  } else if (region.base.offset != 0) {
    wrong = "base offset is not 0";
  }
  if (wrong.empty()) return {};
  return {.layer = Layer::Firmware,
          .source = "region with ordinal " + std::to_string(region.ordinal),  // its name may be an address
          .outcome = wire::Outcome::Fault,
          .recoverable = false,
          .next_step = "reset the function",
          .message = "the card granted an impossible region: " + wrong};
}

void FlexAllocator::add_region(const Region& region) {
  regions_[region.ordinal].emplace(
      HeldRegion{.grant = region, .heap = BlockHeap(nodes_, region.ordinal, region.bytes)});
  held_ |= 1U << region.ordinal;
  usage_.region_added(region.bytes);
}

std::expected<BlockId, FlexAllocator::Reason> FlexAllocator::find(AllocationIndex index) const {
  if (index == AllocationIndex::Null) return std::unexpected(Reason::Null);
  const Decoded handle = decode(index);
  if (handle.mark != mark_) {
    const bool ours = std::ranges::find(old_marks_, handle.mark) != old_marks_.end();
    return std::unexpected(ours ? Reason::LostInReset : Reason::Foreign);
  }
  if (!nodes_.contains(handle.id)) return std::unexpected(Reason::Foreign);
  const BlockNode& node = nodes_[handle.id];
  if (handle.generation > node.generation || node.follows) return std::unexpected(Reason::Foreign);
  if (!node.used || node.doomed || handle.generation < node.generation) return std::unexpected(Reason::Released);
  return handle.id;
}

InvalidAllocation FlexAllocator::invalid(Reason reason, AllocationIndex index) {
  return {reason, describe_invalid(reason, index)};
}

void FlexAllocator::deallocate(AllocationIndex index) {
  if (index == AllocationIndex::Null || !process_.is_this()) return;
  const LockUnlessMine lock(mutex_);
  const auto released = release(index);
  if (released || released.error() == Reason::LostInReset) return;
  throw invalid(released.error(), index);
}

bool FlexAllocator::try_deallocate(AllocationIndex index) noexcept {
  if (index == AllocationIndex::Null || !process_.is_this()) return false;
  const LockUnlessMine lock(mutex_);
  return release(index).has_value();
}

std::expected<void, FlexAllocator::Reason> FlexAllocator::release(AllocationIndex index) {
  const auto id = find(index);
  if (!id) return std::unexpected(id.error());
  BlockNode& node = nodes_[*id];
  if (node.chunked) {
    release_chunks(*id);
    return {};
  }
  usage_.handle_released(node.size * kBlockUnit, node.slack);
  if (node.uses == 0) {
    free_block(*id);
  } else {
    node.doomed = 1;
    doomed_bytes_ += node.size * kBlockUnit;
    note_doomed(*id);
  }
  return {};
}

void FlexAllocator::free_block(BlockId id) {
  BlockHeap& heap = regions_[nodes_[id].heap]->heap;
  const SplitBlocks before = SplitBlocks::of(heap);
  usage_.block_freed(nodes_[id].size * kBlockUnit);
  given_again_.erase(id);
  heap.release(id);
  usage_.split_changed(before, SplitBlocks::of(heap));
}

// ---- uses -----------------------------------------------------------------------------------------------------------

Expected<ResolvedAllocation> FlexAllocator::try_use(AllocationIndex index, AllocationUses& uses) {
  if (!process_.is_this()) return std::unexpected(made_by_the_parent("device memory"));
  const std::scoped_lock lock(mutex_);
  const auto id = find(index);
  if (!id || nodes_[*id].chunked) {
    return std::unexpected(describe_invalid(id ? Reason::SeveralChunks : id.error(), index));
  }
  if (uses.allocator_ == nullptr) uses.allocator_ = shared_from_this();
  note_use(*id, uses);
  uses.add(index);
  ++nodes_[*id].uses;
  return resolved(*id);
}

void FlexAllocator::end_uses(std::span<const AllocationIndex> indices) noexcept {
  if (!process_.is_this()) return;
  const LockUnlessMine lock(mutex_);
  for (const AllocationIndex index : indices) {
    const Decoded handle = decode(index);
    if (handle.mark != mark_) continue;  // its region went away with a reset
    BlockNode& node = nodes_[handle.id];
    if (--node.uses != 0 || !node.doomed) continue;
    ++freed_late_;
    if (node.chunked) {
      doomed_bytes_ -= free_chunks(handle.id);
    } else {
      forget_doomed(handle.id);
      doomed_bytes_ -= node.size * kBlockUnit;
      free_block(handle.id);
    }
    stuck_bytes_ = std::min(stuck_bytes_, doomed_bytes_);
    freed_.notify_all();
  }
}

void AllocationUses::add(AllocationIndex index) {
  if (count_ < kInline) {
    first_[count_] = index;
  } else {
    more_.push_back(index);
  }
  ++count_;
}

void AllocationUses::let_go() noexcept {
  if (std::exchange(open_, false)) clock_->open.fetch_sub(1, std::memory_order_release);
  awaited_.clear();
  if (count_ == 0) return;
  allocator_->end_uses({first_.data(), std::min(count_, kInline)});
  allocator_->end_uses(more_);
  more_.clear();
  count_ = 0;
  allocator_.reset();
}

void AllocationUses::swap(AllocationUses& other) noexcept {
  std::swap(clock_, other.clock_);
  std::swap(open_, other.open_);
  awaited_.swap(other.awaited_);
  std::swap(allocator_, other.allocator_);
  std::swap(count_, other.count_);
  std::swap(first_, other.first_);
  std::swap(more_, other.more_);
}

// ---- resolving ------------------------------------------------------------------------------------------------------

ResolvedAllocation FlexAllocator::resolve(AllocationIndex index) const {
  require_own_process();
  const std::scoped_lock lock(mutex_);
  const auto id = find(index);
  if (!id || nodes_[*id].chunked) throw invalid(id ? Reason::SeveralChunks : id.error(), index);
  return resolved(*id);
}

ResolvedAllocation FlexAllocator::resolved(BlockId id) const {
  const BlockNode& node = nodes_[id];
  const Region& region = regions_[node.heap]->grant;
  const std::uint64_t block_bytes = node.size * kBlockUnit;
  return {.address = advanced(region.base, node.offset * kBlockUnit),
          .bytes = block_bytes - node.slack,
          .block_bytes = block_bytes,
          .region_generation = region.generation,
          .region_ordinal = region.ordinal,
          .type = region.type};
}

Expected<ResolvedAllocation> FlexAllocator::try_resolve(AllocationIndex index) const try {
  return resolve(index);
} catch (const Error& error) {
  return std::unexpected(error.info());
}

void FlexAllocator::refuse(AllocationIndex index, const std::string& user, const std::string& what) const {
  const auto named = [&](ErrorInfo info) {
    info.source = user;
    info.message = user + what + info.message;
    return info;
  };
  try {
    (void)resolve_chunks(index);
  } catch (const InvalidAllocation& error) {
    throw InvalidAllocation(error.reason(), named(error.info()));
  }
  throw Error(named(refused_by_driver(user, "its memory could not be used", "launch it again")));
}

std::uint64_t FlexAllocator::release_unused_regions() {
  require_own_process();
  const std::scoped_lock grow(grow_mutex_);
  std::vector<Region> unused;
  {
    const std::scoped_lock lock(mutex_);
    for (auto& held : regions_) {
      if (!held || !held->heap.unused()) continue;
      unused.push_back(held->grant);
      usage_.region_removed(held->grant.bytes);
      held->heap.clear();
      held_ &= ~(1U << held->grant.ordinal);
      held.reset();
    }
  }
  std::uint64_t bytes = 0;
  std::optional<ErrorInfo> failed;
  for (const Region& region : unused) {
    const Expected<void> released = source_.release(region);
    if (!released && !failed) failed = released.error();
    bytes += region.bytes;
  }
  if (failed) throw Error(*failed);
  return bytes;
}

void FlexAllocator::forget_regions() {
  require_own_process();
  const std::scoped_lock grow(grow_mutex_);
  const std::scoped_lock lock(mutex_);
  for (auto& held : regions_) {
    if (!held) continue;
    usage_.region_removed(held->grant.bytes);
    held->heap.clear();
    held.reset();
  }
  held_ = 0;
  reusable_.clear();
  given_again_.clear();
  usage_.forget_blocks();
  doomed_bytes_ = 0;
  stuck_bytes_ = 0;
  chunked_.store(0, std::memory_order_relaxed);
  freed_.notify_all();
  old_marks_.push_back(mark_);
  mark_ = next_mark();
}

}  // namespace svp
