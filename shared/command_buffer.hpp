// SPDX-License-Identifier: Apache-2.0
// Command buffers (protocol §5): control blocks that the card keeps in memory of its own. It judges them when the
// buffer is made, and again when regions have changed since; a block of one stick (CALL, PREPARED) then runs them.
#pragma once

#include <cstdint>

#include "shared/control_block.hpp"
#include "shared/units.hpp"

namespace wire {

// In host memory a buffer is its blocks, each in its largest form, then data: bytes of correction tensors. Of a block's
// header only magic, sticks, opcode and budget say something; the rest is zero.
inline constexpr std::uint64_t kBufferBlockBytes = sizeof(ControlBlock);
inline constexpr std::uint32_t kMaxBufferBlocks = 64;
inline constexpr std::uint32_t kMaxBufferDataBytes = 64 * 1024;
// Of one function at a time.
inline constexpr std::uint32_t kCommandBuffers = 1024;

// What may stand in a command buffer.
constexpr bool is_bufferable(Opcode opcode) {
  switch (opcode) {
    case Opcode::Nop:
    case Opcode::Dma:
    case Opcode::Fill:
    case Opcode::Compute:
    case Opcode::EventSignal:
    case Opcode::EventWait: return true;
    default: return false;
  }
}

}  // namespace wire
