// SPDX-License-Identifier: Apache-2.0
// FlexAllocator: memory that was freed while work uses it, given again at once. A stream runs its launches in order, so
// what is launched on it later may have the memory of what is launched on it now. Which stream uses an allocation first
// is not known when it is made: that on which the thread launched last is a guess. When another one does, its launch
// begins when those have ended that used the memory before (AllocationUses::awaited()).
#include <algorithm>

#include "host_driver/memory/flex_allocator.hpp"

namespace svp {
namespace {

const UseClock several;

// The stream on which this thread has launched last. Compared only: it may have ended.
thread_local const UseClock* last_stream = nullptr;

// What is left of a block when it is given for a smaller one is lost to others: at most an eighth.
constexpr std::uint32_t most_units(std::uint64_t units) { return static_cast<std::uint32_t>(units + units / 8); }

}  // namespace

void AllocationUses::place_taken() noexcept {
  if (clock_ != nullptr) last_stream = clock_;
  if (std::exchange(open_, false)) clock_->open.fetch_sub(1, std::memory_order_release);
}

bool AllocationUses::names(AllocationIndex index) const {
  const auto first = first_.begin();
  return std::find(first, first + std::min(count_, kInline), index) != first + std::min(count_, kInline) ||
         std::ranges::find(more_, index) != more_.end();
}

AllocationIndex FlexAllocator::allocate(std::uint64_t bytes, const AllocationPolicy& policy,
                                        const AllocationUses& uses) {
  require_own_process();
  if (uses.stream() != nullptr && bytes != 0) {
    const std::scoped_lock lock(mutex_);
    if (const auto index = reuse_behind(*uses.stream(), bytes, policy, &uses)) return *index;
  }
  return allocate_or_throw(bytes, policy, Untouched::Any);  // within a launch, behind which others may wait
}

// With mutex_ held.
std::optional<AllocationIndex> FlexAllocator::reuse(std::uint64_t bytes, const AllocationPolicy& policy) {
  if (reusable_.empty() || last_stream == nullptr) return std::nullopt;
  return reuse_behind(*last_stream, bytes, policy, nullptr);
}

// A launch that is being written, and has no place in its stream yet, may use the block as well: not while there are
// any, besides the caller's own.
std::optional<AllocationIndex> FlexAllocator::reuse_behind(const UseClock& stream, std::uint64_t bytes,
                                                           const AllocationPolicy& policy, const AllocationUses* own) {
  if (policy.type != RegionType::Tensor || policy.placement != Placement::Anywhere || bytes > kMaxRegionBytes) {
    return std::nullopt;
  }
  const std::uint64_t units = saturating_align_up(bytes, kBlockUnit) / kBlockUnit;
  for (auto it = reusable_.lower_bound({&stream, static_cast<std::uint32_t>(units)});
       it != reusable_.end() && it->first.first == &stream && it->first.second <= most_units(units); ++it) {
    const BlockId id = it->second;
    if ((eligible(policy) >> nodes_[id].heap & 1U) == 0) continue;
    if (own != nullptr && own->names(handle_of(id))) continue;
    const std::uint32_t open_of_own = own != nullptr && own->open_ ? 1 : 0;
    if (stream.open.load(std::memory_order_acquire) != open_of_own) return std::nullopt;
    reusable_.erase(it);
    return give_again(id, bytes, stream);
  }
  return std::nullopt;
}

// As if it had been freed and allocated; its uses go on being counted.
AllocationIndex FlexAllocator::give_again(BlockId id, std::uint64_t bytes, const UseClock& stream) {
  given_again_.insert_or_assign(id, AwaitedUse{&stream, stream.launched.load(std::memory_order_acquire)});
  BlockNode& node = nodes_[id];
  const std::uint64_t block_bytes = node.size * kBlockUnit;
  usage_.block_freed(block_bytes);
  doomed_bytes_ -= block_bytes;
  node.doomed = 0;
  ++node.generation;
  node.slack = static_cast<std::uint32_t>(block_bytes - bytes);
  usage_.block_allocated(block_bytes, node.slack);
  return handle_of(id);
}

// Before the use is counted. May throw std::bad_alloc; nothing has changed then.
void FlexAllocator::note_use(BlockId id, AllocationUses& uses) {
  if (user_.size() <= id) user_.resize(std::size_t{id} + 1);
  const UseClock* const stream = uses.clock_ != nullptr ? uses.clock_ : &several;
  if (const auto given = given_again_.empty() ? given_again_.end() : given_again_.find(id);
      given != given_again_.end()) {
    if (given->second.ended()) {
      given_again_.erase(given);
    } else if (given->second.stream != stream) {
      uses.awaited_.push_back(given->second);
    }
  }
  user_[id] = nodes_[id].uses == 0 || user_[id] == stream ? stream : &several;
  if (uses.clock_ != nullptr && !std::exchange(uses.open_, true)) uses.clock_->open.fetch_add(1);
}

void FlexAllocator::note_doomed(BlockId id) noexcept try {
  if (nodes_[id].chunked || !nodes_.has_generation_left(id) || user_[id] == &several) return;
  reusable_.insert({{user_[id], nodes_[id].size}, id});
} catch (const std::bad_alloc&) {
  user_[id] = &several;  // it comes back when its uses have ended
}

void FlexAllocator::forget_doomed(BlockId id) noexcept {
  const auto [first, last] = reusable_.equal_range({user_[id], nodes_[id].size});
  const auto it = std::find_if(first, last, [&](const auto& entry) { return entry.second == id; });
  if (it != last) reusable_.erase(it);
}

}  // namespace svp
