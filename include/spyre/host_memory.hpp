// SPDX-License-Identifier: Apache-2.0
// Pinned host memory: what the card reaches by itself. It is a part of the function's window
// (CardOptions::window_bytes), so there is little of it. Copies take host memory of any kind and any size: what is not
// pinned is staged through chunks of the window, each byte copied (or converted) once on the way (docs/memory.md).
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <spyre/error.hpp>

namespace spyre::inline v0 {

struct Inside;  // of the library

// A piece of pinned memory; it goes back when this is destroyed. Movable. It may outlive its context: it is ordinary
// memory then. Empty when default-constructed, moved from, or of 0 bytes.
class SPYRE_API PinnedMemory {
 public:
  PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  std::span<std::byte> bytes() const;  // as many as asked for
  std::byte* data() const { return bytes().data(); }
  std::size_t size() const { return bytes().size(); }

 private:
  friend struct Inside;
  struct Impl;
  explicit PinnedMemory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct HostMemoryStatistics {
  // Of the window. Staging has up to a quarter of it, and copies of tensors use it for a while.
  std::uint64_t total_bytes = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t largest_free = 0;
  std::uint64_t registered_bytes = 0;
  std::uint64_t registrations = 0;
  // Of transfers between host and card, since the context was opened.
  std::uint64_t direct_bytes = 0;  // between the card and the memory that the transfer named
  std::uint64_t staged_bytes = 0;  // between the card and a staging chunk
  std::uint64_t copied_bytes = 0;  // copied or converted on the host on the way; a conversion counts the card's bytes
};

// A context's pinned memory (Context::host_memory()), as long as the context. Thread-safe. In a process that was forked
// from the one that opened the context every call throws Error.
class SPYRE_API HostMemory {
 public:
  // Uninitialised; of 4096 bytes and more: at a page. Throws OutOfMemory: a copy is staged when there is none left, but
  // nobody else gives memory that was asked for.
  PinnedMemory allocate(std::size_t bytes);

  // From now on this memory of the program is pinned, at its addresses and with its content, until unregister_memory()
  // or the end of the context. It has to be whole pages (of 4096 bytes), private, anonymous, readable and writable:
  // mmap(MAP_PRIVATE | MAP_ANONYMOUS), aligned_alloc(4096, …). The pages become a mapping of the window: that costs as
  // much of the window, and one copy here and one in unregister_memory(). Memory that is transferred a few
  // times only is moved faster without.
  //
  //   During either call no thread touches the memory: what it writes may be lost. During unregister_memory() no
  //   transfer of it is under way.
  //   While it is registered it is not freed, unmapped or remapped.
  //   A child forked meanwhile does not have it: an access there is SIGSEGV (as with RDMA). After unregister_memory()
  //   children have it as ever.
  //   mlock() and madvise() of it do not hold while it is registered, and hold again afterwards.
  //   When recovery moves the context to another window (docs/recovery.md) the memory keeps its addresses, but is not
  //   pinned any more: unregister it, and register it again. A card's broker that takes the function away empties the
  //   old window, registered memory with it: do not register what exists nowhere else.
  //
  // Throws InvalidArgument ("memory", "bytes": as above, or registered already), OutOfMemory (the window is too small),
  // Error (the kernel refuses; Linux before 5.7). Nothing has changed then.
  void register_memory(void* memory, std::size_t bytes);
  // `memory`: where a registration begins. Throws InvalidArgument when none does, Error when the kernel refuses: it
  // stays registered.
  void unregister_memory(void* memory);

  // Whether the card reaches all of these bytes without staging: they lie in one PinnedMemory or in one registration.
  // 0 bytes: false. O(log n).
  bool is_pinned(const void* memory, std::size_t bytes = 1) const;

  HostMemoryStatistics statistics() const;

  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

 private:
  friend struct Inside;
  struct Impl;
  explicit HostMemory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace spyre::inline v0
