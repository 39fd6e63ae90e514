// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/command_buffers.hpp"

#include <algorithm>

#include "firmware/core/address_spaces.hpp"
#include "firmware/core/image.hpp"

namespace fw {

using wire::Field;
using wire::Status;

void CommandBuffer::find_last_signal() {
  last_signal = 0;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const wire::ControlBlock& cb = entry(i).cb;
    if (cb.header.opcode == wire::Opcode::EventSignal) last_signal = std::max(last_signal, cb.payload.event.value);
  }
}

Verdict CommandBuffers::missing(const CommandBuffer* buffer) {
  if (buffer == nullptr || buffer->state != BufferState::Ready)
    return {Status::UnknownCommandBuffer, Field::CallBuffer};
  return {Status::StaleCommandBuffer, Field::CallEpoch};
}

CommandBuffers::Made CommandBuffers::make(AddressSpaces& spaces, std::uint32_t function, std::uint32_t blocks,
                                          std::uint32_t data_bytes) {
  const auto* const place = std::find(buffers_.begin(), buffers_.end(), nullptr);
  if (place == buffers_.end()) return {.why = {Status::OutOfCommandBuffers, Field::AdminBuffer}};
  const std::uint64_t bytes = wire::align_up(CommandBuffer::bytes_of(blocks, data_bytes), kPageBytes);
  hal::PhysicalAddress pages = spaces.hold_pages(function, bytes);
  // What earlier launches left in the caches of the function makes room.
  if (pages == 0 && spaces.drop_idle(function)) pages = spaces.hold_pages(function, bytes);
  if (pages == 0) return {.why = {Status::OutOfCommandBuffers, Field::AdminBytes}};
  auto* const buffer = reinterpret_cast<CommandBuffer*>(hal::pointer(pages));  // zeroed: every member's start value
  buffer->page_bytes = bytes;
  buffer->epoch = ++epoch_;
  buffer->blocks = blocks;
  buffer->data_bytes = data_bytes;
  const auto id = static_cast<std::uint32_t>(place - buffers_.begin());
  buffers_[id] = buffer;
  ++count_;
  return {.buffer = buffer, .id = id, .why = {}};
}

void CommandBuffers::free_at(AddressSpaces& spaces, std::uint32_t function, std::uint32_t id) {
  CommandBuffer* const buffer = buffers_[id];
  const std::uint64_t bytes = buffer->page_bytes;
  spaces.give_pages(function, hal::address_of(reinterpret_cast<std::byte*>(buffer)), bytes);
  buffers_[id] = nullptr;
  --count_;
}

void CommandBuffers::destroy(AddressSpaces& spaces, std::uint32_t function, std::uint32_t id) {
  buffers_[id]->state = BufferState::Destroyed;
  if (buffers_[id]->users == 0) free_at(spaces, function, id);
}

void CommandBuffers::destroy_unfinished(AddressSpaces& spaces, std::uint32_t function) {
  for (std::uint32_t id = 0; id < buffers_.size(); ++id) {
    if (buffers_[id] != nullptr && buffers_[id]->state == BufferState::Making) free_at(spaces, function, id);
  }
}

bool CommandBuffers::destroy_some(AddressSpaces& spaces, std::uint32_t function) {
  constexpr std::uint32_t kAtOnce = 128;  // a quarter of a quantum
  const std::uint32_t left = count_ - std::min(count_, kAtOnce);
  for (std::uint32_t id = 0; id < buffers_.size() && count_ != left; ++id) {
    if (buffers_[id] != nullptr) free_at(spaces, function, id);
  }
  any_unused_ = false;
  return count_ == 0;
}

void CommandBuffers::free_unused(AddressSpaces& spaces, std::uint32_t function) {
  any_unused_ = false;
  for (std::uint32_t id = 0; id < buffers_.size(); ++id) {
    const CommandBuffer* const buffer = buffers_[id];
    if (buffer != nullptr && buffer->state == BufferState::Destroyed && buffer->users == 0)
      free_at(spaces, function, id);
  }
}

}  // namespace fw
