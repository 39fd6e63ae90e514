// SPDX-License-Identifier: Apache-2.0
// Tiled execution (RFC "Program Execution Pipeline", Tiled Execution): a kernel compiled for a tile runs over a tensor
// that is larger along one dimension, once per tile, with moved addresses. Pure arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "host_driver/runtime/argument.hpp"
#include "host_driver/runtime/kernel.hpp"

namespace svp {

using spyre::TiledLaunchNotAllowed;
using spyre::TilingError;

struct Tiling {
  std::uint32_t iterations = 1;
  std::optional<std::uint32_t> dimension;  // index into KernelMetadata::dimensions; empty: exact shapes
  // Bytes from one tile to the next, per operand; 0: the operand is reused.
  std::array<std::uint64_t, kMaxOperands> step{};
};

// `arguments` and `geometry` have one entry per operand of the kernel; extents are positive. Throws the errors above;
// "exact or one larger dimension" is all that remains.
Tiling plan_tiling(const KernelMetadata& kernel, std::span<const Shape> tiles, std::span<const Argument> arguments,
                   std::span<const StickGeometry> geometry, bool allow_tiled_launch);

}  // namespace svp
