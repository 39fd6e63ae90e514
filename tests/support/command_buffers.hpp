// SPDX-License-Identifier: Apache-2.0
// Command buffers of the card by hand: made of control blocks, called and patched by blocks of the ring. What tests say
// of them by admin commands throws svp::Error when there is no reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "host_driver/device/device.hpp"
#include "shared/command_buffer.hpp"
#include "shared/control_block.hpp"
#include "tests/support/buffer_entry.hpp"

namespace svp::test {

using CardBufferName = decltype(wire::AdminReply::Values::buffer);

// From host memory at `offset` of the device.
inline wire::AdminReply create_buffer(Device& device, std::span<const wire::ControlBlock> blocks,
                                      std::uint64_t offset = 1 * wire::kMiB) {
  std::byte* at = device.host_memory().data() + offset;
  for (const wire::ControlBlock& block : blocks) {
    const wire::ControlBlock entry = buffer_entry(block);
    std::memcpy(at, &entry, sizeof entry);
    at += sizeof entry;
  }
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::BufferCreate;
  request.arguments.buffer_create = {device.host_memory_offset() + offset, static_cast<std::uint32_t>(blocks.size()),
                                     0};
  return value_or_throw(device.admin(request));
}

inline wire::AdminReply destroy_buffer(Device& device, const CardBufferName& buffer) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::BufferDestroy;
  request.arguments.buffer_destroy = {buffer.buffer, 0, buffer.epoch};
  return value_or_throw(device.admin(request));
}

inline wire::ControlBlock call_of(const CardBufferName& buffer, wire::Opcode opcode = wire::Opcode::Call) {
  wire::ControlBlock block{};
  block.header.opcode = opcode;
  block.payload.call = {
      .buffer = buffer.buffer, .reserved0 = 0, .epoch = buffer.epoch, .signal_base = 0, .reserved = {}};
  return block;
}

// Replaces block `index` of the buffer by `with`, which is put at `offset` of host memory.
inline wire::ControlBlock patch_of(Device& device, const CardBufferName& buffer, std::uint32_t index,
                                   const wire::ControlBlock& with, std::uint64_t offset) {
  const wire::ControlBlock entry = buffer_entry(with);
  std::memcpy(device.host_memory().data() + offset, &entry, sizeof entry);
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Patch;
  block.payload.patch = {.buffer = buffer.buffer,
                         .block = index,
                         .epoch = buffer.epoch,
                         .offset = device.host_memory_offset() + offset,
                         .bytes = wire::kBufferBlockBytes,
                         .reserved = {}};
  return block;
}

}  // namespace svp::test
