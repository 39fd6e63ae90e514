// SPDX-License-Identifier: Apache-2.0
// Tiled execution (RFC "Program Execution Pipeline", Tiled Execution): a kernel compiled for a tile runs over tensors
// that are larger, once per tile, with moved addresses and the tile's own extents. Pure arithmetic; docs/tiling.md has
// the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "host_driver/base/bounded_list.hpp"
#include "host_driver/runtime/argument.hpp"
#include "host_driver/runtime/kernel.hpp"

namespace svp {

using spyre::TiledLaunchNotAllowed;
using spyre::TilingError;

template <typename T>
using PerOperand = BoundedList<T, kMaxOperands>;
template <typename T>
using PerDimension = BoundedList<T, kMaxDimensions>;

// One dimension of which there are several tiles.
struct TiledDimension {
  std::uint32_t dimension = 0;  // index into KernelMetadata::dimensions
  std::uint32_t count = 1;      // tiles
  std::int64_t edge = 0;        // extent of the last one; the others have Tiling::extent
  bool reduced = false;         // outputs lack it: its tiles are passes that add to the same output
  // Bytes from one tile to the next, per operand; 0: the operand is reused.
  std::vector<std::uint64_t> step;
};

// How the tiles of a launch lie in its operands. Lists of the heap: a form is made once, and room for every operand
// that a launch may have is kilobytes in each plan.
struct Tiling {
  std::vector<TiledDimension> nest;  // outermost first; reduced dimensions are the innermost. Empty: one tile
  std::uint32_t tiles = 1;
  // Of a tile that is no edge: the compiled extents, or shorter ones where the tensors are.
  std::vector<std::int64_t> extent;
  // Bit `axis`: the operand has one element there, the tile more. The kernel is given stride 0.
  std::vector<std::uint8_t> broadcast;
  // Memory for partial results, per operand: bytes, 0 for none.
  std::vector<std::uint64_t> partial_bytes;
};

// One of them.
struct Tile {
  std::uint32_t number = 0;
  PerOperand<std::uint64_t> offset;   // bytes from the operand's start
  PerDimension<std::int64_t> extent;  // elements
  std::uint64_t pass = wire::kPassFirst | wire::kPassLast;
};

// `arguments` and `geometry` have one entry per operand of the kernel, `tiles` the compiled shapes; all extents are
// positive. Throws TilingError and TiledLaunchNotAllowed.
Tiling plan_tiling(const KernelMetadata& kernel, std::span<const Shape> tiles, std::span<const Argument> arguments,
                   std::span<const StickGeometry> geometry, bool allow_tiled_launch);

// The innermost dimension of the nest moves first. `number` is below tiling.tiles.
Tile tile_at(const Tiling& tiling, std::uint32_t number);

}  // namespace svp
