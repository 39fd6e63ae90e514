// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/host_memory.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>

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
  std::map<std::uint64_t, std::uint64_t> live;  // buffers: offset in the block, bytes asked for
};

// In the order of their addresses; they do not overlap.
struct HostMemory::Registrations {
  mutable std::shared_mutex mutex;  // `by_address`
  std::map<std::uintptr_t, Registration> by_address;
  std::atomic<std::size_t> count{0};  // most programs have none, and look at nothing else
};

namespace {

// Larger buffers lie at the end of the window, smaller ones at its beginning: the smaller ones leave no holes between
// the larger ones. And the card moves faster: the translation cache of the emulator is indexed by the low bits of page
// numbers. Windows and regions begin at multiples of their sizes, so the first tensor and a buffer at the beginning of
// the window would contend for the same entries (docs/notes/2026-11-23-dma-translations.md).
constexpr std::uint64_t kFromTheEnd = wire::kMiB;

void require_page_alignment(const char* field, std::uint64_t address) {
  if (wire::is_aligned(address, HostMemory::kLargeBytes)) return;
  throw InvalidArgument(field, "host memory does not start on a page",
                        "map the window at a page and keep its blocks page-aligned");
}

[[noreturn]] void throw_refusal(const ExchangeRefusal& refusal) {
  const ErrorInfo& why = refusal.info;
  if (refusal.argument) throw InvalidArgument(why.source, why.message, why.next_step);
  throw Error(why);
}

}  // namespace

PinnedBuffer::~PinnedBuffer() {
  if (!state_) return;
  if (!state_->process.is_this()) {
    keep_for_ever(std::move(state_));
    return;
  }
  const std::scoped_lock lock(state_->mutex);
  state_->live.erase(window_offset_ - state_->window_offset);
  state_->heap.release(block_);
}

HostMemory::HostMemory(std::span<std::byte> block, std::uint64_t window_offset, std::shared_ptr<void> keep_alive)
    : registrations_(std::make_shared<Registrations>()) {
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

std::expected<PinnedBuffer, MemoryShortage> HostMemory::try_allocate(std::size_t bytes, BufferUse use) {
  require_own_process();
  PinnedBuffer buffer;
  if (bytes == 0) return buffer;
  const std::uint64_t alignment = bytes >= kLargeBytes ? kLargeBytes : kBlockUnit;
  auto kept = state();
  PinnedBuffer::State& state = *kept;
  const std::scoped_lock lock(state.mutex);
  const auto end = use == BufferUse::Transfer && bytes >= kFromTheEnd ? BlockEnd::High : BlockEnd::Low;
  const auto id = state.heap.allocate(bytes, alignment, Fit::Best, end);
  if (!id) {
    return std::unexpected(MemoryShortage{.requested = bytes,
                                          .free_bytes = state.heap.free_bytes(),
                                          .largest_block = state.heap.largest_free(),
                                          .total_bytes = state.heap.total_bytes()});
  }
  const std::uint64_t offset = state.nodes[*id].offset * kBlockUnit;
  try {
    state.live.emplace(offset, bytes);
  } catch (...) {
    state.heap.release(*id);
    throw;
  }
  state.peak_bytes = std::max(state.peak_bytes, state.heap.total_bytes() - state.heap.free_bytes());
  buffer.state_ = std::move(kept);
  buffer.block_ = *id;
  buffer.window_offset_ = state.window_offset + offset;
  buffer.bytes_ = state.block.subspan(offset, bytes);
  return buffer;
}

PinnedBuffer HostMemory::allocate(std::size_t bytes, BufferUse use) {
  auto buffer = try_allocate(bytes, use);
  if (buffer) return std::move(*buffer);
  throw OutOfMemory("pinned host memory", buffer.error(),
                    "release pinned buffers, use pageable memory, or boot with a larger window");
}

std::optional<std::uint64_t> HostMemory::window_offset_of(std::span<const std::byte> memory) const {
  const std::less<const std::byte*> before;
  const std::byte* const start = state_->block.data();
  if (before(memory.data(), start) || before(start + state_->block.size(), memory.data())) {
    return registered_offset_of(memory);
  }
  const auto offset = static_cast<std::uint64_t>(memory.data() - start);
  if (!wire::range_inside(offset, memory.size(), state_->block.size())) return std::nullopt;
  return state_->window_offset + offset;
}

bool HostMemory::is_pinned(std::span<const std::byte> memory) const {
  require_own_process();
  if (memory.empty()) return false;
  const auto kept = state();
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto block = reinterpret_cast<std::uintptr_t>(kept->block.data());
  if (begin < block || begin - block >= kept->block.size()) return registered_offset_of(memory).has_value();
  const std::uint64_t offset = begin - block;
  const std::scoped_lock lock(kept->mutex);
  const auto next = kept->live.upper_bound(offset);
  if (next == kept->live.begin()) return false;
  const auto& [start, bytes] = *std::prev(next);
  return wire::range_inside(offset - start, memory.size(), bytes);
}

HostMemory::Statistics HostMemory::statistics() const {
  require_own_process();
  const auto kept = state();
  std::uint64_t registrations = 0;
  std::uint64_t registered_bytes = 0;
  {
    const std::shared_lock registered(registrations_->mutex);
    for (const auto& [begin, registration] : registrations_->by_address) {
      ++registrations;
      registered_bytes += registration.pages.memory().size();
    }
  }
  const std::scoped_lock lock(kept->mutex);
  const BlockHeap& heap = kept->heap;
  return {.total_bytes = heap.total_bytes(),
          .used_bytes = heap.total_bytes() - heap.free_bytes(),
          .peak_bytes = kept->peak_bytes,
          .largest_free = heap.largest_free(),
          .buffers = heap.used_blocks(),
          .registered_bytes = registered_bytes,
          .registrations = registrations};
}

// ---- registered memory ----------------------------------------------------------------------------------------------

HostMemory::~HostMemory() {
  if (registrations_ == nullptr || !process_.is_this()) {
    abandon();
    return;
  }
  for (auto& [begin, registration] : registrations_->by_address) {
    // What can not go back stays a mapping of the window: memory all the same.
    (void)registration.pages.end();
  }
}

void HostMemory::abandon() noexcept {
  keep_for_ever(std::exchange(state_, nullptr));
  keep_for_ever(std::exchange(registrations_, nullptr));
}

// With the registrations' lock.
void HostMemory::require_free_pages(std::span<std::byte> memory) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  if (!wire::is_aligned(begin, kLargeBytes)) {
    throw InvalidArgument("memory", "the memory does not start on a page", "register whole pages of 4096 bytes");
  }
  if (memory.empty() || !wire::is_aligned(memory.size(), kLargeBytes)) {
    throw InvalidArgument("bytes", std::to_string(memory.size()) + " bytes are not whole pages",
                          "register whole pages of 4096 bytes");
  }
  const auto refuse = [](const char* what) {
    throw InvalidArgument("memory", std::string("the memory is ") + what + " already, or a part of it",
                          "register memory once, and unregister it as a whole");
  };
  const auto& others = registrations_->by_address;
  const auto next = others.lower_bound(begin);
  if (next != others.end() && next->first - begin < memory.size()) refuse("registered");
  if (next != others.begin()) {
    const auto& [other, registration] = *std::prev(next);
    if (begin - other < registration.pages.memory().size()) refuse("registered");
  }
}

void HostMemory::register_memory(std::span<std::byte> memory) {
  require_own_process();
  const std::unique_lock lock(registrations_->mutex);
  require_free_pages(memory);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  // First: after the exchange nothing may fail.
  const auto entry = registrations_->by_address.emplace(begin, Registration{allocate(memory.size()), {}}).first;
  try {
    auto pages = PageExchange::begin(memory, entry->second.window.bytes());
    if (!pages) throw_refusal(pages.error());
    entry->second.pages = *std::move(pages);
  } catch (...) {
    registrations_->by_address.erase(entry);
    throw;
  }
  ++registrations_->count;
}

void HostMemory::unregister_memory(const void* memory) {
  require_own_process();
  const std::unique_lock lock(registrations_->mutex);
  const auto found = registrations_->by_address.find(reinterpret_cast<std::uintptr_t>(memory));
  if (found == registrations_->by_address.end()) {
    throw InvalidArgument("memory", "no registered memory starts there", "give the address that was registered");
  }
  value_or_throw(found->second.pages.end());
  registrations_->by_address.erase(found);
  --registrations_->count;
}

// Only what lies in the window of now.
std::optional<std::uint64_t> HostMemory::registered_offset_of(std::span<const std::byte> memory) const {
  if (registrations_->count.load(std::memory_order_acquire) == 0) return std::nullopt;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::shared_lock lock(registrations_->mutex);
  const auto next = registrations_->by_address.upper_bound(begin);
  if (next == registrations_->by_address.begin()) return std::nullopt;
  const auto& [start, registration] = *std::prev(next);
  if (!wire::range_inside(begin - start, memory.size(), registration.pages.memory().size())) return std::nullopt;
  if (registration.window.state_ != state()) return std::nullopt;
  return registration.window.window_offset() + (begin - start);
}

}  // namespace svp
