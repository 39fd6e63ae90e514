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

// The shapes of a launch can not be covered by walks of the compiled tile.
class TilingError : public InvalidArgument {
 public:
  enum class Reason : std::uint8_t {
    RankDiffers,        // an operand has another number of dimensions than compiled
    SmallerThanTile,    // a dimension is shorter than the tile (padding it is the compiler's work)
    NotDivisible,       // a remainder would be left (RFC, open question: fail)
    SeveralDimensions,  // more than one dimension is larger than the tile (open question 3: the compiler's work)
    Inconsistent,       // operands disagree on a dimension, or an output would be written by every tile
    Reduction,          // the tiled dimension is not one of an output: partial results (open question 2)
    StickUnaligned,     // a tile along the stick dimension that is no whole number of sticks
  };
  TilingError(Reason reason, std::string field, std::string message, std::string next_step)
      : InvalidArgument(std::move(field), std::move(message), std::move(next_step)), reason_(reason) {}
  Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

// Shapes exceed the compiled tile, and the caller asked for no tiled launch (RFC, Launch case 3).
class TiledLaunchNotAllowed : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

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
