// SPDX-License-Identifier: Apache-2.0
// A control block as it stands in a command buffer.
#pragma once

#include <cstdint>
#include <cstring>

#include "shared/command_buffer.hpp"
#include "shared/control_block.hpp"

namespace svp::test {

// 512 bytes: opcode, sticks, budget and payload of the block, and nothing of its address.
inline wire::ControlBlock buffer_entry(const wire::ControlBlock& block) {
  wire::ControlBlock entry{};
  const unsigned sticks = wire::required_sticks(block);
  std::memcpy(&entry, &block, sticks * wire::kStickBytes);
  entry.header = {};
  entry.header.magic = wire::kControlBlockMagic;
  entry.header.sticks = static_cast<std::uint8_t>(sticks);
  entry.header.opcode = block.header.opcode;
  entry.header.budget = block.header.budget;
  return entry;
}

}  // namespace svp::test
