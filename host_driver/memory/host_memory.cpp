// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/host_memory.hpp"

#include <algorithm>
#include <functional>
#include <mutex>

#include "host_driver/memory/block_heap.hpp"

namespace svp {

struct PinnedBuffer::State {
  State(std::span<std::byte> memory, std::uint64_t offset, std::shared_ptr<void> owner)
      : block(memory),
        window_offset(offset),
        keep_alive(std::move(owner)),
        heap(nodes, 0, memory.size() / kBlockUnit * kBlockUnit) {}

  const std::span<std::byte> block;
  const std::uint64_t window_offset;
  const std::shared_ptr<void> keep_alive;
  const OwnerProcess process;

  std::mutex mutex;  // everything below
  BlockNodes nodes;
  BlockHeap heap;
  std::uint64_t peak_bytes = 0;
};

namespace {

void require_page_alignment(const char* field, std::uint64_t address) {
  if (wire::is_aligned(address, HostMemory::kLargeBytes)) return;
  throw InvalidArgument(field, "host memory does not start on a page",
                        "map the window at a page and keep its blocks page-aligned");
}

}  // namespace

PinnedBuffer::~PinnedBuffer() {
  if (!state_) return;
  if (!state_->process.is_this()) {
    keep_for_ever(std::move(state_));
    return;
  }
  const std::scoped_lock lock(state_->mutex);
  state_->heap.release(block_);
}

HostMemory::HostMemory(std::span<std::byte> block, std::uint64_t window_offset, std::shared_ptr<void> keep_alive) {
  move_to(block, window_offset, std::move(keep_alive));
}

void HostMemory::move_to(std::span<std::byte> block, std::uint64_t window_offset, std::shared_ptr<void> keep_alive) {
  require_page_alignment("block", reinterpret_cast<std::uintptr_t>(block.data()));
  require_page_alignment("window_offset", window_offset);
  if (block.size() < kBlockUnit) {
    throw InvalidArgument("block", "the host-memory block is empty", "check the window's table of blocks");
  }
  auto next = std::make_shared<PinnedBuffer::State>(block, window_offset, std::move(keep_alive));
  const std::lock_guard lock(*state_mutex_);
  std::swap(state_, next);
}

void HostMemory::require_own_process() const {
  if (!process_.is_this()) throw Error(made_by_the_parent("pinned host memory"));
}

std::expected<PinnedBuffer, MemoryShortage> HostMemory::try_allocate(std::size_t bytes) {
  require_own_process();
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  const std::uint64_t alignment = bytes >= kLargeBytes ? kLargeBytes : kBlockUnit;
  auto kept = state();
  PinnedBuffer::State& state = *kept;
  const std::scoped_lock lock(state.mutex);
  const auto id = state.heap.allocate(bytes, alignment);
  if (!id) {
    return std::unexpected(MemoryShortage{.requested = bytes,
                                          .free_bytes = state.heap.free_bytes(),
                                          .largest_block = state.heap.largest_free(),
                                          .total_bytes = state.heap.total_bytes()});
  }
  const std::uint64_t offset = state.nodes[*id].offset * kBlockUnit;
  state.peak_bytes = std::max(state.peak_bytes, state.heap.total_bytes() - state.heap.free_bytes());
  buffer.state_ = std::move(kept);
  buffer.block_ = *id;
  buffer.window_offset_ = state.window_offset + offset;
  buffer.bytes_ = state.block.subspan(offset, bytes);
  return buffer;
}

PinnedBuffer HostMemory::allocate(std::size_t bytes) {
  auto buffer = try_allocate(bytes);
  if (buffer) return std::move(*buffer);
  throw OutOfMemory("pinned host memory", buffer.error(),
                    "release pinned buffers, use pageable memory, or boot with a larger window");
}

std::optional<std::uint64_t> HostMemory::window_offset_of(std::span<const std::byte> memory) const {
  const std::less<const std::byte*> before;
  const std::byte* const start = state_->block.data();
  if (before(memory.data(), start) || before(start + state_->block.size(), memory.data())) return std::nullopt;
  const auto offset = static_cast<std::uint64_t>(memory.data() - start);
  if (!wire::range_inside(offset, memory.size(), state_->block.size())) return std::nullopt;
  return state_->window_offset + offset;
}

HostMemory::Statistics HostMemory::statistics() const {
  require_own_process();
  const auto kept = state();
  const std::scoped_lock lock(kept->mutex);
  const BlockHeap& heap = kept->heap;
  return {.total_bytes = heap.total_bytes(),
          .used_bytes = heap.total_bytes() - heap.free_bytes(),
          .peak_bytes = kept->peak_bytes,
          .largest_free = heap.largest_free(),
          .buffers = heap.used_blocks()};
}

}  // namespace svp
