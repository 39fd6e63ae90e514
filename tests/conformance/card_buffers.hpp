// SPDX-License-Identifier: Apache-2.0
// Command buffers by hand: made of blocks that the workbench writes, called by blocks of the ring.
#pragma once

#include <cstring>
#include <span>

#include "shared/command_buffer.hpp"
#include "tests/conformance/provider.hpp"

namespace svp::conformance {

using CardBufferName = decltype(wire::AdminReply::Values::buffer);

// From host memory at `offset` of the device.
inline wire::AdminReply create_buffer(Device& device, std::span<const wire::ControlBlock> blocks,
                                      std::uint64_t offset = 1 * wire::kMiB) {
  std::byte* at = device.host_memory().data() + offset;
  for (const wire::ControlBlock& block : blocks) {
    wire::ControlBlock entry{};
    const unsigned sticks = wire::required_sticks(block);
    std::memcpy(&entry, &block, sticks * wire::kStickBytes);
    entry.header = {};
    entry.header.magic = wire::kControlBlockMagic;
    entry.header.sticks = static_cast<std::uint8_t>(sticks);
    entry.header.opcode = block.header.opcode;
    entry.header.budget = block.header.budget;
    std::memcpy(at, &entry, sizeof entry);
    at += sizeof entry;
  }
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::BufferCreate;
  request.arguments.buffer_create = {device.host_memory_offset() + offset, static_cast<std::uint32_t>(blocks.size()),
                                     0};
  return value_or_throw(device.admin(request));
}

inline CardBufferName buffer_of(Device& device, std::span<const wire::ControlBlock> blocks) {
  const auto reply = create_buffer(device, blocks);
  EXPECT_EQ(reply.outcome, wire::Outcome::Ok) << wire::name(reply.status) << " " << wire::name(reply.field);
  return reply.values.buffer;
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

}  // namespace svp::conformance
