// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/tiling.hpp"

#include <string>

namespace svp {
namespace {

using Reason = TilingError::Reason;

struct Place {  // one axis of one operand, for messages
  const KernelMetadata& kernel;
  std::uint32_t operand;
  std::uint32_t axis;

  std::uint32_t dimension() const { return kernel.operands[operand].shape[axis]; }
  std::string name() const {
    return "operand " + kernel.operands[operand].name + ", dimension " + kernel.dimensions[dimension()];
  }
};

std::string extents(std::int64_t actual, std::int64_t tile) {
  return std::to_string(actual) + " for a tile of " + std::to_string(tile);
}

// How many tiles fit along the axis; 1: exact.
std::int64_t tiles_along(const Place& place, std::int64_t actual, std::int64_t tile) {
  if (actual < tile) {
    throw TilingError(Reason::SmallerThanTile, place.name(),
                      place.name() + ": " + extents(actual, tile) + " is too small",
                      "pad the tensor or compile the kernel for a smaller tile");
  }
  if (actual % tile != 0) {
    throw TilingError(
        Reason::NotDivisible, place.name(),
        place.name() + ": " + extents(actual, tile) + " leaves a remainder of " + std::to_string(actual % tile),
        "pad the tensor to a multiple of the tile or compile a kernel for the remainder");
  }
  return actual / tile;
}

void note_axis(Tiling& tiling, const Place& place, std::int64_t count) {
  if (!tiling.dimension) {
    tiling.dimension = place.dimension();
    tiling.iterations = static_cast<std::uint32_t>(count);
    return;
  }
  if (*tiling.dimension != place.dimension()) {
    throw TilingError(Reason::SeveralDimensions, place.name(),
                      "dimensions " + place.kernel.dimensions[*tiling.dimension] + " and " +
                          place.kernel.dimensions[place.dimension()] + " are both larger than the tile",
                      "launch along one dimension at a time, or compile for a larger tile");
  }
  if (tiling.iterations != count) {
    throw TilingError(Reason::Inconsistent, place.name(),
                      place.name() + " has " + std::to_string(count) + " tiles, another operand has " +
                          std::to_string(tiling.iterations),
                      "give operands that agree on the dimension");
  }
}

std::uint64_t step_along(const Place& place, const Shape& tile, const StickGeometry& geometry, std::int64_t per_stick) {
  const bool is_stick = place.axis + 1 == tile.rank();
  std::int64_t steps = tile[place.axis];
  if (is_stick) {
    if (steps % per_stick != 0) {
      throw TilingError(Reason::StickUnaligned, place.name(),
                        place.name() + " is the stick dimension: a tile of " + std::to_string(steps) +
                            " is no multiple of " + std::to_string(per_stick),
                        "compile for a tile of whole sticks");
    }
    steps /= per_stick;
  }
  return static_cast<std::uint64_t>(steps) * geometry.stride[place.axis];
}

// Every output has to move with the tiles; otherwise each tile would overwrite the last one's results.
void check_outputs(const KernelMetadata& kernel, const Tiling& tiling) {
  for (std::uint32_t i = 0; i < kernel.operands.size(); ++i) {
    const KernelOperand& operand = kernel.operands[i];
    if (!operand.writes() || tiling.step[i] != 0) continue;
    bool has_dimension = false;
    for (const std::uint32_t d : operand.shape) has_dimension |= d == *tiling.dimension;
    const std::string& dimension = kernel.dimensions[*tiling.dimension];
    if (has_dimension) {
      throw TilingError(Reason::Inconsistent, "operand " + operand.name + ", dimension " + dimension,
                        "output " + operand.name + " has the size of one tile along " + dimension +
                            ", other operands " + std::to_string(tiling.iterations) + " tiles",
                        "give an output of the full size");
    }
    throw TilingError(
        Reason::Reduction, "operand " + operand.name + ", dimension " + dimension,
        "tiling along " + dimension + " would need output " + operand.name + " to be accumulated",
        "compile the kernel for the whole " + dimension + ", or add the partial results in a job of its own");
  }
}

}  // namespace

Tiling plan_tiling(const KernelMetadata& kernel, std::span<const Shape> tiles, std::span<const Argument> arguments,
                   std::span<const StickGeometry> geometry, bool allow_tiled_launch) {
  Tiling tiling;
  for (std::uint32_t i = 0; i < kernel.operands.size(); ++i) {
    const Shape& tile = tiles[i];
    const Shape& actual = arguments[i].shape;
    if (actual.rank() != tile.rank()) {
      throw TilingError(
          Reason::RankDiffers, "operand " + kernel.operands[i].name,
          "operand " + kernel.operands[i].name + " has shape " + to_string(actual) + ", compiled " + to_string(tile),
          "give a tensor of the compiled rank");
    }
    if (actual == tile) continue;
    for (std::uint32_t axis = 0; axis < tile.rank(); ++axis) {
      const Place place{kernel, i, axis};
      const std::int64_t count = tiles_along(place, actual[axis], tile[axis]);
      if (count == 1) continue;
      if (!allow_tiled_launch) {
        throw TiledLaunchNotAllowed(place.name(),
                                    place.name() + ": " + extents(actual[axis], tile[axis]) +
                                        " exceeds the compiled tile, and tiled launch is not allowed",
                                    "allow tiled launch (SPYRE_ALLOW_TILED_LAUNCH=1) or compile for the full shape");
      }
      note_axis(tiling, place, count);
      tiling.step[i] = step_along(place, tile, geometry[i], elements_per_stick(arguments[i].dtype));
    }
  }
  if (tiling.dimension) check_outputs(kernel, tiling);
  return tiling;
}

}  // namespace svp
