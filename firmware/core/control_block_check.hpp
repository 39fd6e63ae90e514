// SPDX-License-Identifier: Apache-2.0
// Whether a control block is well formed, judged on the card's private copy. Pure: no memory but the arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "firmware/core/stream.hpp"
#include "shared/control_block.hpp"

namespace fw {

// Magic and size: without these the block is not a control block and names no stream.
Verdict check_frame(const wire::ControlBlockHeader& header, std::uint32_t readable_bytes);

// Everything else that depends on the block alone: opcode, flags, reserved bytes, CRC, payload form.
enum class BlockPlace : std::uint8_t { Ring, Buffer };
Verdict check_form(const wire::ControlBlock& block, bool crc_negotiated, std::uint64_t existing_cores,
                   BlockPlace place = BlockPlace::Ring);

// All of it for a block of a command buffer with `data_bytes` of data.
Verdict check_buffer_block(const wire::ControlBlock& block, std::uint64_t data_bytes, std::uint64_t existing_cores);

// Rows of `segments` up to the last one that says anything of access: those behind it are unused. Most launches use few
// of them, and every row is looked at several times.
[[gnu::always_inline]] inline unsigned segment_rows(const wire::ComputePayload& compute) {
  const auto access_and_reserved = [&](unsigned i) {
    std::uint64_t word;
    static_assert(offsetof(wire::Segment, access) == offsetof(wire::Segment, generation) + 4);
    static_assert(offsetof(wire::Segment, generation) + sizeof word == sizeof(wire::Segment));
    std::memcpy(&word, &compute.segments[i].generation, sizeof word);
    return word >> 32;
  };
  std::uint64_t any = 0;
  for (unsigned i = 0; i < wire::kSegments; ++i) any |= access_and_reserved(i);
  if (any == 0) return 0;
  unsigned rows = wire::kSegments;
  while (access_and_reserved(rows - 1) == 0) --rows;
  return rows;
}

}  // namespace fw
