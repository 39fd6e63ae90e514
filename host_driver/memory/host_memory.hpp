// SPDX-License-Identifier: Apache-2.0
// Pinned host memory: what the card's DMA can reach is the host-memory block of a function's window (protocol §2),
// and this class hands out pieces of it, or puts them where memory of the program is (register_memory()). A host
// address on the wire is an offset into the window.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/base/process.hpp"
#include "host_driver/memory/page_exchange.hpp"

namespace svp {

// A piece of pinned memory; released when destroyed. Movable, not copyable. It may outlive its HostMemory (the
// bookkeeping, and with it `keep_alive`, stays until the last buffer is gone). Empty when default-constructed, moved
// from, or allocated with size 0.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    PinnedBuffer(std::move(other)).swap(*this);
    return *this;
  }
  ~PinnedBuffer();

  std::span<std::byte> bytes() const { return bytes_; }  // exactly as many as asked for
  std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  std::uint64_t window_offset() const { return window_offset_; }  // of the first byte

  void swap(PinnedBuffer& other) noexcept {
    std::swap(state_, other.state_);
    std::swap(block_, other.block_);
    std::swap(window_offset_, other.window_offset_);
    std::swap(bytes_, other.bytes_);
  }

 private:
  friend class HostMemory;
  struct State;
  std::shared_ptr<State> state_;
  std::uint32_t block_ = 0;
  std::uint64_t window_offset_ = 0;
  std::span<std::byte> bytes_;
};

// What a buffer is for decides where in the window it lies.
enum class BufferUse : std::uint8_t {
  Transfer,  // large ones at the end of the window
  Staging,   // of the driver, for as long as the context: at the beginning
};

// Thread-safe. Buffers of less than 4 KiB are aligned to 128 bytes, larger ones to 4 KiB, both in the window and (as
// the window is mapped at a page) in this process. The bytes of a new buffer are unspecified, but they are only ever
// this function's own. In a forked child it throws Error: the memory is not mapped there.
class HostMemory {
 public:
  static constexpr std::size_t kLargeBytes = 4096;  // from here on a buffer starts on a page

  struct Statistics {
    std::uint64_t total_bytes;
    std::uint64_t used_bytes;  // rounded to 128
    std::uint64_t peak_bytes;
    std::uint64_t largest_free;
    std::uint64_t buffers;  // of allocate() and of register_memory()
    std::uint64_t registered_bytes;
    std::uint64_t registrations;
  };

  // `block` is the host-memory block as mapped here, `window_offset` where it starts in the window; both are page
  // aligned, bytes that do not fill a stick are left out. `keep_alive` (for instance the mapping) exists as long as
  // this object or any buffer. Throws InvalidArgument when an address is not aligned or the block is empty.
  HostMemory(std::span<std::byte> block, std::uint64_t window_offset, std::shared_ptr<void> keep_alive = {});

  // From now on this hands out pieces of another block. Buffers of the block before keep it alive and stay what they
  // were: memory, but no longer this function's. Not beside window_offset_of(). Throws as the constructor.
  void move_to(std::span<std::byte> block, std::uint64_t window_offset, std::shared_ptr<void> keep_alive);

  // Throws OutOfMemory. `bytes` 0 gives an empty buffer.
  PinnedBuffer allocate(std::size_t bytes, BufferUse use = BufferUse::Transfer);
  // The same without throwing, for callers that fall back to staging.
  std::expected<PinnedBuffer, MemoryShortage> try_allocate(std::size_t bytes, BufferUse use = BufferUse::Transfer);

  // From now on these pages of the program are pinned, at their addresses, with their content: the card reaches them
  // without staging. They are the program's private anonymous memory, whole pages, and become a mapping of the window;
  // copied once here, and back by unregister_memory(), or by the destructor.
  //
  //   Nobody touches the memory during either call (what another thread writes meanwhile may be lost), and no transfer
  //   of it is under way during unregister_memory(). It is not unmapped, remapped or freed while it is registered.
  //   A child forked meanwhile does not have it (an access there is SIGSEGV), as RDMA has it.
  //   mlock() and madvise() do not hold while it is registered, and hold again afterwards.
  //   After move_to() it is memory as before, of the old window, but not pinned; unregister_memory() works.
  //
  // Throws InvalidArgument ("memory", "bytes": not whole pages, not mapped, not private, of a file, a stack, registered
  // already, pinned already), OutOfMemory, Error (the kernel refuses). Nothing has changed then. O(log n) and one copy.
  void register_memory(std::span<std::byte> memory);
  // `memory`: where a registration begins. Throws InvalidArgument (it does not), Error (the kernel refuses: it stays
  // registered).
  void unregister_memory(const void* memory);

  // Whether all of it is pinned: of one buffer, as far as it was asked for, or of one registration. No bytes: false.
  // O(log n).
  bool is_pinned(std::span<const std::byte> memory) const;

  // The window offset of a span inside this block, or of one registration; nullopt when any byte of it lies outside
  // (pageable memory). O(log n) with registrations.
  std::optional<std::uint64_t> window_offset_of(std::span<const std::byte> memory) const;

  Statistics statistics() const;

  // Ends registrations, as far as the kernel lets it. In a forked child it touches nothing.
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // In a forked child, before the destructor: nothing of it is destroyed.
  void abandon() noexcept;

 private:
  struct Registration {
    PinnedBuffer window;
    PageExchange pages;
  };
  struct Registrations;

  void require_free_pages(std::span<std::byte> memory) const;
  std::optional<std::uint64_t> registered_offset_of(std::span<const std::byte> memory) const;
  void require_own_process() const;
  std::shared_ptr<PinnedBuffer::State> state() const {
    const std::lock_guard lock(*state_mutex_);
    return state_;
  }

  OwnerProcess process_;
  std::unique_ptr<std::mutex> state_mutex_ = std::make_unique<std::mutex>();  // which state, not what is in it
  std::shared_ptr<PinnedBuffer::State> state_;
  std::shared_ptr<Registrations> registrations_;
};

}  // namespace svp
