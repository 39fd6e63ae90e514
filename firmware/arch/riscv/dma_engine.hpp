// SPDX-License-Identifier: Apache-2.0
// The DMA engine of the compute array (shared/array_moves.hpp), on hart 0 of a card that has one. Elsewhere, and of
// what the engine refuses, nothing is moved: the caller moves the rest by its own instructions. Bytes and bounds are
// the same either way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "firmware/arch/riscv/hart_local.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/memory_map.h"
#include "shared/array_moves.hpp"

extern "C" wire::array::Move riscv_array_move;

namespace riscv::dma_engine {

inline bool is_there() { return local().hart == 0 && hal::array_version() != 0; }

// What stands in riscv_array_move. True: it has been done.
inline bool carry_out(wire::array::MoveKind kind) {
  static_assert(wire::array::kMoveHint == 0x5A302013);
  riscv_array_move.kind = kind;
  riscv_array_move.outcome = wire::array::MoveOutcome::None;
  asm volatile(".word 0x5A302013" ::: "memory");
  return riscv_array_move.outcome == wire::array::MoveOutcome::Done;
}

// The engine writes nothing in front of the regions, where code lies.
inline bool may_write(const std::byte* to) { return reinterpret_cast<std::uint64_t>(to) >= REGIONS_BASE; }

// In parts of what one move may have: `describe(done)` writes down what the part is that
// begins behind `done` bytes.
template <typename Describe>
std::uint64_t in_parts(wire::array::MoveKind kind, std::uint64_t bytes, Describe describe) {
  std::uint64_t done = 0;
  while (done < bytes) {
    riscv_array_move.bytes = std::min(bytes - done, wire::array::kMaxMoveBytes);
    describe(done);
    if (!carry_out(kind)) break;
    done += riscv_array_move.bytes;
  }
  return done;
}

// These return how many bytes were moved, from the first one on.

inline std::uint64_t copy(std::byte* to, const std::byte* from, std::uint64_t bytes, hal::Reuse reuse) {
  if (!may_write(to)) return 0;
  riscv_array_move.streamed = reuse == hal::Reuse::Late ? 1 : 0;
  return in_parts(wire::array::MoveKind::Copy, bytes, [=](std::uint64_t done) {
    riscv_array_move.to = reinterpret_cast<std::uint64_t>(to + done);
    riscv_array_move.from = reinterpret_cast<std::uint64_t>(from + done);
  });
}

inline std::uint64_t fill(std::byte* to, std::uint64_t pattern, std::uint64_t bytes) {
  static_assert(wire::array::kMaxMoveBytes % sizeof pattern == 0);  // each part begins with the pattern's first byte
  if (!may_write(to)) return 0;
  riscv_array_move.pattern = pattern;
  return in_parts(wire::array::MoveKind::Fill, bytes,
                  [=](std::uint64_t done) { riscv_array_move.to = reinterpret_cast<std::uint64_t>(to + done); });
}

// `crc` is continued; each part goes on where the one before has come to.
inline std::uint64_t checksum(std::uint32_t& crc, const std::byte* data, std::uint64_t bytes) {
  riscv_array_move.pattern = crc;
  const std::uint64_t summed = in_parts(wire::array::MoveKind::Checksum, bytes, [=](std::uint64_t done) {
    riscv_array_move.from = reinterpret_cast<std::uint64_t>(data + done);
  });
  crc = static_cast<std::uint32_t>(riscv_array_move.pattern);
  return summed;
}

// Returns how many rows were moved.
std::uint64_t copy_rows(hal::ElementRows to, hal::ElementRows from, std::uint64_t elements, std::uint64_t rows,
                        unsigned element_bytes);

// A window that has been mapped: without this the engine does not reach it. In front of its unmapping it is hidden.
void show(std::byte* window, std::uint64_t bytes);
void hide(const std::byte* window);

}  // namespace riscv::dma_engine
