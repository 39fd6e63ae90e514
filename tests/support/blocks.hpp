// SPDX-License-Identifier: Apache-2.0
// Good control blocks of each kind. Their number, checksum and stream are filled in by whoever submits them.
#pragma once

#include <cstdint>
#include <span>

#include "shared/control_block.hpp"

namespace svp::test {

struct Blocks {
  static wire::ControlBlock nop(std::uint64_t cookie = 0) {
    wire::ControlBlock block{};
    block.header.opcode = wire::Opcode::Nop;
    block.header.cookie = cookie;
    return block;
  }
  static wire::ControlBlock dma(const wire::Endpoint& from, const wire::Endpoint& to, std::uint64_t bytes) {
    wire::ControlBlock block{};
    block.header.opcode = wire::Opcode::Dma;
    block.payload.dma = {.source = from, .destination = to, .bytes = bytes, .checksum = 0, .flags = 0};
    return block;
  }
  // Elements by nested loops, innermost first; at most wire::kStridedLevels of them.
  static wire::ControlBlock strided(const wire::Endpoint& from, const wire::Endpoint& to, std::uint32_t element_bytes,
                                    std::span<const wire::StridedLevel> levels) {
    std::uint64_t bytes = element_bytes;
    for (const wire::StridedLevel& level : levels) bytes *= level.count;
    wire::ControlBlock block = dma(from, to, bytes);
    wire::StridedPayload& loops = block.payload.strided.loops;
    block.payload.dma.flags = wire::kDmaStrided;
    loops.depth = static_cast<std::uint32_t>(levels.size());
    loops.element_bytes = element_bytes;
    for (std::size_t i = 0; i < levels.size(); ++i) loops.levels[i] = levels[i];
    return block;
  }
  static wire::ControlBlock fill(const wire::Endpoint& at, std::uint64_t bytes, std::uint64_t pattern) {
    wire::ControlBlock block{};
    block.header.opcode = wire::Opcode::Fill;
    block.payload.fill = {.destination = at, .bytes = bytes, .pattern = pattern, .reserved = {}};
    return block;
  }
  static wire::ControlBlock event_signal(std::uint64_t value) {
    wire::ControlBlock block{};
    block.header.opcode = wire::Opcode::EventSignal;
    block.payload.event.value = value;
    return block;
  }
  // `budget`: device ticks, 0: none.
  static wire::ControlBlock event_wait(std::uint32_t stream, std::uint32_t incarnation, std::uint64_t value,
                                       std::uint64_t budget = 0) {
    wire::ControlBlock block{};
    block.header.opcode = wire::Opcode::EventWait;
    block.header.budget = budget;
    block.payload.event.value = value;
    block.payload.event.stream = stream;
    block.payload.event.incarnation = incarnation;
    return block;
  }
  // For the timeline of another function that M has granted.
  static wire::ControlBlock granted_wait(std::uint32_t grant, std::uint64_t epoch, std::uint32_t incarnation,
                                         std::uint64_t value, std::uint64_t budget = 0) {
    wire::ControlBlock block = event_wait(0, incarnation, value, budget);
    block.payload.event.flags = wire::kEventGranted;
    block.payload.event.grant = grant;
    block.payload.event.epoch = epoch;
    return block;
  }
  // A kernel without operands. `budget`: slices, 0: the card's default.
  static wire::ControlBlock launch(const wire::Endpoint& image, std::uint64_t image_bytes, std::uint64_t core_mask = 1,
                                   std::uint64_t budget = 0) {
    wire::ControlBlock block{};
    block.header.opcode = wire::Opcode::Compute;
    block.header.budget = budget;
    block.payload.compute.image = image;
    block.payload.compute.image_bytes = image_bytes;
    block.payload.compute.core_mask = core_mask;
    return block;
  }
};

}  // namespace svp::test
