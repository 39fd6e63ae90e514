// SPDX-License-Identifier: Apache-2.0
// The command buffers of one function (shared/command_buffer.hpp): control blocks in firmware memory that is charged to
// the function's share. Nobody but hart 0 ever writes there, so that what was judged once stays as it was judged. Only
// what its addresses mean can change: with the region table, whose version each block remembers. Hart 0 only.
//
// A buffer that calls under way use is neither patched nor freed; its id is not given to another one before it is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "firmware/core/stream.hpp"
#include "firmware/hal/memory.hpp"
#include "shared/command_buffer.hpp"

namespace fw {

class AddressSpaces;

struct BufferEntry {
  wire::ControlBlock cb;
  std::uint64_t capacity;     // of the correction tensor that it was made with, whole sticks …
  std::uint64_t data_offset;  // … and where in the buffer's data it lies
  // Of the correction tensor, for contexts that have a copy of it: no two are the same, and a patch changes it.
  std::uint64_t tensor;
  // RegionTable::names_version() for which its addresses are known to be in order; 0: none.
  std::uint64_t judged;
};

enum class BufferState : std::uint32_t {
  Making,  // BUFFER_CREATE judges its blocks: no call finds it yet
  Ready,
  Destroyed,  // no call finds it any more; it goes with its last user
};

// In pages of its own; the entries and the data stand behind it.
struct CommandBuffer {
  std::uint64_t page_bytes;
  std::uint64_t epoch;
  std::uint64_t last_signal;  // the largest value of its EVENT_SIGNALs; 0: it has none
  std::uint32_t blocks;
  std::uint32_t data_bytes;
  std::uint64_t judged;  // as every entry's; 0: look at the entries
  std::uint32_t users;   // calls under way
  BufferState state;

  BufferEntry& entry(std::uint32_t block) { return reinterpret_cast<BufferEntry*>(this + 1)[block]; }
  std::byte* data() { return reinterpret_cast<std::byte*>(&entry(blocks)); }
  static constexpr std::uint64_t bytes_of(std::uint32_t blocks, std::uint32_t data_bytes);
  // Anew over all entries.
  void find_last_signal();
};

// Where a PATCH is judged before it replaces anything.
struct PatchRoom {
  wire::ControlBlock cb;
  std::array<std::byte, wire::kMaxCorrectionBytes> tensor;
};
static_assert(offsetof(PatchRoom, tensor) == wire::kBufferBlockBytes);

class CommandBuffers {
 public:
  // No epoch below `first_epoch` was used in an earlier boot.
  void init(std::uint64_t first_epoch) { epoch_ = first_epoch; }

  // A free id, and its buffer with nothing in it, which is being made until it is set ready. Refused:
  // OutOfCommandBuffers, with what is used up as the field.
  struct Made {
    CommandBuffer* buffer = nullptr;
    std::uint32_t id = 0;
    Verdict why;
  };
  Made make(AddressSpaces& spaces, std::uint32_t function, std::uint32_t blocks, std::uint32_t data_bytes);
  // One that nobody uses, or from now on will.
  void destroy(AddressSpaces& spaces, std::uint32_t function, std::uint32_t id);
  // Those that are being made: the commands that did so are forgotten.
  void destroy_unfinished(AddressSpaces& spaces, std::uint32_t function);
  // One that is being made.
  CommandBuffer& unfinished(std::uint32_t id) { return *buffers_[id]; }
  // Some of all, whoever uses them: the function's blocks are dropped as well. True when none is left.
  bool destroy_some(AddressSpaces& spaces, std::uint32_t function);

  // nullptr: `why`.
  CommandBuffer* find(std::uint32_t id, std::uint64_t epoch, Verdict& why) const {
    CommandBuffer* const buffer = id < buffers_.size() ? buffers_[id] : nullptr;
    if (buffer != nullptr && buffer->epoch == epoch && buffer->state == BufferState::Ready) [[likely]]
      return buffer;
    why = missing(buffer);
    return nullptr;
  }
  // A call that used it has ended. A destroyed one is freed by free_unused(), later.
  void leave(CommandBuffer& buffer) {
    if (--buffer.users == 0 && buffer.state == BufferState::Destroyed) [[unlikely]]
      any_unused_ = true;
  }
  bool any_unused() const { return any_unused_; }
  void free_unused(AddressSpaces& spaces, std::uint32_t function);

  std::uint64_t next_tensor() { return ++tensors_; }
  std::uint32_t count() const { return count_; }

 private:
  [[gnu::cold, gnu::noinline]] static Verdict missing(const CommandBuffer* buffer);
  void free_at(AddressSpaces& spaces, std::uint32_t function, std::uint32_t id);

  std::uint64_t epoch_ = 0;
  std::uint64_t tensors_ = 0;
  std::uint32_t count_ = 0;
  bool any_unused_ = false;
  std::array<CommandBuffer*, wire::kCommandBuffers> buffers_{};
};

constexpr std::uint64_t CommandBuffer::bytes_of(std::uint32_t blocks, std::uint32_t data_bytes) {
  return sizeof(CommandBuffer) + blocks * sizeof(BufferEntry) + data_bytes;
}

// The COMPUTE that a block stands for: its own, or the one of a command buffer that a call has come to.
inline BufferEntry* entry_of(const Block& block) {
  return block.call.buffer != nullptr ? &block.call.buffer->entry(block.call.index) : nullptr;
}
inline const wire::ComputePayload& compute_of(const Block& block) {
  return block.call.buffer != nullptr ? entry_of(block)->cb.payload.compute : block.cb.payload.compute;
}

}  // namespace fw
