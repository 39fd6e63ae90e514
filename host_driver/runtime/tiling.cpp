// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/tiling.hpp"

#include <algorithm>
#include <string>

namespace svp {
namespace {

using Reason = TilingError::Reason;

struct Place {  // one axis of one operand, for messages
  const KernelMetadata& kernel;
  std::uint32_t operand;
  std::uint32_t axis;

  std::uint32_t dimension() const { return kernel.operands[operand].shape[axis]; }
  bool is_stick() const { return axis + 1 == kernel.operands[operand].shape.size(); }
  std::string name() const {
    return "operand " + kernel.operands[operand].name + ", dimension " + kernel.dimensions[dimension()];
  }
};

[[noreturn]] void refuse_tiling(Reason reason, const Place& place, const std::string& what, std::string next_step) {
  throw TilingError(reason, place.name(), place.name() + " " + what, std::move(next_step));
}

std::string extents(std::int64_t actual, std::int64_t tile) {
  return std::to_string(actual) + " for a tile of " + std::to_string(tile);
}

class TilePlanner {
 public:
  TilePlanner(const KernelMetadata& kernel, std::span<const Shape> tiles, std::span<const Argument> arguments,
              std::span<const StickGeometry> geometry)
      : kernel_(kernel), tiles_(tiles), arguments_(arguments), geometry_(geometry) {
    whole_.resize(kernel.dimensions.size());
    tiling_.extent.resize(kernel.dimensions.size());
    tiling_.broadcast.resize(kernel.operands.size());
    tiling_.partial_bytes.resize(kernel.operands.size());
  }

  Tiling plan(bool allow_tiled_launch);

 private:
  // `visit(place)` for every axis of every operand.
  template <typename Visit>
  void for_each_axis(Visit visit) const {
    for (std::uint32_t i = 0; i < kernel_.operands.size(); ++i) {
      for (std::uint32_t axis = 0; axis < kernel_.operands[i].shape.size(); ++axis) visit(Place{kernel_, i, axis});
    }
  }
  std::int64_t actual(const Place& place) const { return arguments_[place.operand].shape[place.axis]; }
  std::int64_t compiled(const Place& place) const { return tiles_[place.operand][place.axis]; }
  std::int64_t whole(const Place& place) const { return whole_[place.dimension()]; }
  std::int64_t per_stick(const Place& place) const { return elements_per_stick(arguments_[place.operand].dtype); }
  bool takes_extent(std::uint32_t dimension) const;
  bool takes_stride(const Place& place) const;
  bool takes(wire::SymbolKind kind, std::uint32_t operand) const;
  bool lacks(const KernelOperand& operand, std::uint32_t dimension) const;
  bool is_reduced(std::uint32_t dimension) const;
  Shape kernel_shape(std::uint32_t operand) const;

  bool is_exact() const;
  void check_ranks() const;
  void require_exact() const;
  void measure();
  void check_agreement(const Place& place);
  void check_extent(const Place& place) const;
  void check_strides(std::uint32_t operand) const;
  void check_outputs(const Place& place) const;
  void add_dimension(std::uint32_t dimension, bool reduced);
  void keep_partials(std::uint32_t dimension);
  std::uint64_t step_along(const Place& place) const;

  const KernelMetadata& kernel_;
  std::span<const Shape> tiles_;
  std::span<const Argument> arguments_;
  std::span<const StickGeometry> geometry_;
  PerDimension<std::int64_t> whole_;  // the extents of the launch, per dimension
  Tiling tiling_;
};

bool TilePlanner::takes_extent(std::uint32_t dimension) const {
  return std::ranges::any_of(kernel_.symbols, [&](const KernelSymbol& symbol) {
    return symbol.kind == wire::SymbolKind::Dimension && symbol.dimension == dimension;
  });
}

bool TilePlanner::takes_stride(const Place& place) const {
  return std::ranges::any_of(kernel_.symbols, [&](const KernelSymbol& symbol) {
    return symbol.kind == wire::SymbolKind::Stride && symbol.operand == place.operand && symbol.axis == place.axis;
  });
}

bool TilePlanner::takes(wire::SymbolKind kind, std::uint32_t operand) const {
  return std::ranges::any_of(
      kernel_.symbols, [&](const KernelSymbol& symbol) { return symbol.kind == kind && symbol.operand == operand; });
}

bool TilePlanner::lacks(const KernelOperand& operand, std::uint32_t dimension) const {
  return std::ranges::find(operand.shape, dimension) == operand.shape.end();
}

bool TilePlanner::is_reduced(std::uint32_t dimension) const {
  return std::ranges::any_of(kernel_.operands,
                             [&](const KernelOperand& o) { return o.writes() && lacks(o, dimension); });
}

// What the kernel takes the operand for.
Shape TilePlanner::kernel_shape(std::uint32_t operand) const {
  const auto& dimensions = kernel_.operands[operand].shape;
  Shape shape = tiles_[operand];
  for (std::uint32_t axis = 0; axis < shape.rank(); ++axis) shape[axis] = tiling_.extent[dimensions[axis]];
  return shape;
}

// The usual launch: nothing to plan.
bool TilePlanner::is_exact() const {
  for (std::size_t i = 0; i < tiles_.size(); ++i) {
    if (!(arguments_[i].shape == tiles_[i]) || arguments_[i].stride) return false;
  }
  return true;
}

void TilePlanner::check_ranks() const {
  for (std::size_t i = 0; i < kernel_.operands.size(); ++i) {
    const Shape& shape = arguments_[i].shape;
    if (shape.rank() == tiles_[i].rank()) continue;
    const std::string operand = "operand " + kernel_.operands[i].name;
    throw TilingError(Reason::RankDiffers, operand,
                      operand + " has shape " + to_string(shape) + ", compiled " + to_string(tiles_[i]),
                      "give a tensor of the compiled rank");
  }
}

// A strict launch: the compiled shapes, and elements where a tensor of the compiled shape has them.
void TilePlanner::require_exact() const {
  const auto refuse = [](const Place& place, const std::string& what) {
    throw TiledLaunchNotAllowed(place.name(), place.name() + ": " + what,
                                "give a tensor of the compiled shape (Context::contiguous() of a view), allow tiled "
                                "launch (SPYRE_ALLOW_TILED_LAUNCH=1) or compile for this shape");
  };
  for_each_axis([&](const Place& place) {
    if (actual(place) == compiled(place)) return;
    refuse(place, "the tensor has " + std::to_string(actual(place)) + ", the kernel is compiled for " +
                      std::to_string(compiled(place)) + ", and tiled launch is not allowed");
  });
  for_each_axis([&](const Place& place) {
    if (!arguments_[place.operand].stride) return;
    const StickGeometry dense = StickGeometry::of(tiles_[place.operand], per_stick(place));
    const bool steps = compiled(place) > (place.is_stick() ? per_stick(place) : 1);
    const std::uint64_t given = geometry_[place.operand].stride[place.axis];
    const std::uint64_t wanted = dense.stride[place.axis];
    if (!steps || given == wanted) return;
    refuse(place, "the tensor is a view in steps of " + std::to_string(given) + " bytes, the kernel is compiled for " +
                      std::to_string(wanted) + ", and tiled launch is not allowed");
  });
}

// The extents of the launch are the largest ones that an operand has.
void TilePlanner::measure() {
  for_each_axis([&](const Place& place) {
    const std::uint32_t d = place.dimension();
    whole_[d] = std::max(whole_[d], actual(place));
    tiling_.extent[d] = std::min(compiled(place), whole_[d]);
  });
}

// An input may be shorter than the others: as long as one tile it is reused, of one element it is repeated.
void TilePlanner::check_agreement(const Place& place) {
  const std::int64_t extent = actual(place);
  if (extent == whole(place)) return;
  const KernelOperand& operand = kernel_.operands[place.operand];
  const bool may_be_short = !operand.writes() && !is_reduced(place.dimension());
  if (may_be_short && extent == compiled(place)) return;
  if (!may_be_short || extent != 1) {
    refuse_tiling(Reason::Inconsistent, place,
                  "is " + std::to_string(extent) + ", another operand has " + std::to_string(whole(place)),
                  operand.writes() ? "give an output of the full size" : "give operands that agree on the dimension");
  }
  if (place.is_stick()) {
    refuse_tiling(Reason::StickBroadcast, place,
                  "has one element, which would be repeated " + std::to_string(whole(place)) + " times in a stick",
                  "expand it and launch with a copy");
  }
  if (!takes_stride(place)) {
    refuse_tiling(Reason::FixedStride, place,
                  "has one element for a tile of " + std::to_string(compiled(place)) +
                      ", and the kernel takes no stride to repeat it with",
                  "expand it and launch with a copy, or compile the kernel for a tile of 1");
  }
  tiling_.broadcast[place.operand] |= static_cast<std::uint8_t>(1U << place.axis);
}

// A tile that is not the compiled one needs a kernel that is told.
void TilePlanner::check_extent(const Place& place) const {
  const std::int64_t all = whole(place);
  const std::int64_t tile = compiled(place);
  if (all % tile == 0 || actual(place) != all || takes_extent(place.dimension())) return;
  if (all < tile) {
    refuse_tiling(Reason::SmallerThanTile, place, "is " + extents(all, tile) + ", and the kernel takes no extent",
                  "pad the tensor or compile the kernel for a smaller tile");
  }
  refuse_tiling(Reason::NotDivisible, place,
                "is " + extents(all, tile) + ", which leaves a remainder of " + std::to_string(all % tile) +
                    ", and the kernel takes no extent",
                "pad the tensor to a multiple of the tile or compile a kernel for the remainder");
}

// A kernel that takes no stride steps as in a tensor of the tile's size.
void TilePlanner::check_strides(std::uint32_t operand) const {
  const Shape tile = kernel_shape(operand);
  const std::int64_t stick = elements_per_stick(arguments_[operand].dtype);
  const StickGeometry dense = StickGeometry::of(tile, stick);
  for (std::uint32_t axis = 0; axis < tile.rank(); ++axis) {
    const Place place{kernel_, operand, axis};
    const std::int64_t elements_of_a_step = place.is_stick() ? stick : 1;
    const bool steps = tile[axis] > elements_of_a_step;
    const bool as_given = dense.stride[axis] == geometry_[operand].stride[axis] || takes_stride(place);
    if (!steps || as_given) continue;
    if (arguments_[operand].stride) {
      throw spyre::CopyNeeded(place.name(),
                              place.name() + " is of a view in steps of " +
                                  std::to_string(geometry_[operand].stride[axis]) +
                                  " bytes, and the kernel takes no stride for it",
                              "launch with a copy of it: Context::contiguous()");
    }
    refuse_tiling(Reason::FixedStride, place,
                  "lies in steps of " + std::to_string(geometry_[operand].stride[axis]) +
                      " bytes, and the kernel, which takes no stride, has " + std::to_string(dense.stride[axis]),
                  "launch with a copy (Context::contiguous()), or build the kernel with a stride symbol");
  }
}

// An output has to move with the tiles, or the kernel has to keep partial results: each tile would overwrite the
// results of the one before.
void TilePlanner::check_outputs(const Place& place) const {
  const std::string& dimension = kernel_.dimensions[place.dimension()];
  for (std::uint32_t i = 0; i < kernel_.operands.size(); ++i) {
    const KernelOperand& operand = kernel_.operands[i];
    if (!operand.writes()) continue;
    const bool has_passes = takes(wire::SymbolKind::Partials, i) && takes(wire::SymbolKind::Pass, i);
    // With several outputs all of them are summed up, or none.
    if (lacks(operand, place.dimension()) ? has_passes : !is_reduced(place.dimension())) continue;
    refuse_tiling(Reason::Reduction, place,
                  "is " + extents(whole(place), compiled(place)) + ": output " + operand.name +
                      " would need to be accumulated, and the kernel keeps no partial results",
                  "compile the kernel for the whole " + dimension + ", or add the partial results in a job of its own");
  }
}

std::uint64_t TilePlanner::step_along(const Place& place) const {
  if (actual(place) != whole(place)) return 0;
  std::int64_t steps = compiled(place);
  if (place.is_stick()) {
    if (steps % per_stick(place) != 0) {
      refuse_tiling(Reason::StickUnaligned, place,
                    "is the stick dimension: a tile of " + std::to_string(steps) + " is no multiple of " +
                        std::to_string(per_stick(place)),
                    "compile for a tile of whole sticks");
    }
    steps /= per_stick(place);
  }
  return static_cast<std::uint64_t>(steps) * geometry_[place.operand].stride[place.axis];
}

// Room for the largest tile; the first bytes of it serve the others.
void TilePlanner::keep_partials(std::uint32_t dimension) {
  constexpr std::uint64_t kPartialBytes = 4;
  for (std::uint32_t i = 0; i < kernel_.operands.size(); ++i) {
    if (!kernel_.operands[i].writes() || !lacks(kernel_.operands[i], dimension)) continue;
    const auto per_stick = elements_per_stick(arguments_[i].dtype);
    const std::uint64_t sticks = StickGeometry::of(kernel_shape(i), per_stick).bytes / wire::kStickBytes;
    tiling_.partial_bytes[i] = sticks * static_cast<std::uint64_t>(per_stick) * kPartialBytes;
  }
}

void TilePlanner::add_dimension(std::uint32_t dimension, bool reduced) {
  if (whole_[dimension] <= tiling_.extent[dimension] || is_reduced(dimension) != reduced) return;
  if (reduced) keep_partials(dimension);
  const std::int64_t tile = tiling_.extent[dimension];
  const std::int64_t count = (whole_[dimension] - 1) / tile + 1;
  const bool too_many = __builtin_mul_overflow(tiling_.tiles, count, &tiling_.tiles);
  TiledDimension& tiled = tiling_.nest.emplace_back();
  tiled.step.resize(kernel_.operands.size());
  tiled.dimension = dimension;
  tiled.reduced = reduced;
  tiled.count = static_cast<std::uint32_t>(count);
  tiled.edge = whole_[dimension] - (count - 1) * tile;
  for_each_axis([&](const Place& place) {
    if (place.dimension() != dimension) return;
    if (too_many) {
      refuse_tiling(Reason::TooManyTiles, place, "is " + extents(whole(place), tile) + ": too many tiles for a launch",
                    "compile the kernel for a larger tile");
    }
    if (tiled.step[place.operand] != 0) {
      refuse_tiling(Reason::Inconsistent, place, "is tiled, and the operand has it twice",
                    "compile the kernel for the full shape");
    }
    tiled.step[place.operand] = step_along(place);
  });
}

Tiling TilePlanner::plan(bool allow_tiled_launch) {
  check_ranks();
  if (!allow_tiled_launch) require_exact();
  measure();
  if (is_exact()) return tiling_;
  for_each_axis([&](const Place& place) { check_agreement(place); });
  for_each_axis([&](const Place& place) { check_extent(place); });
  for_each_axis([&](const Place& place) {
    if (whole(place) <= compiled(place) || actual(place) != whole(place)) return;
    check_outputs(place);
  });
  for (const bool reduced : {false, true}) {
    for (std::uint32_t d = 0; d < kernel_.dimensions.size(); ++d) add_dimension(d, reduced);
  }
  for (std::uint32_t i = 0; i < kernel_.operands.size(); ++i) check_strides(i);
  return tiling_;
}

}  // namespace

Tiling plan_tiling(const KernelMetadata& kernel, std::span<const Shape> tiles, std::span<const Argument> arguments,
                   std::span<const StickGeometry> geometry, bool allow_tiled_launch) {
  return TilePlanner(kernel, tiles, arguments, geometry).plan(allow_tiled_launch);
}

Tile tile_at(const Tiling& tiling, std::uint32_t number) {
  Tile tile{.number = number, .offset = {}, .extent = {}};
  for (const std::int64_t extent : tiling.extent) tile.extent.push_back(extent);
  tile.offset.resize(tiling.broadcast.size());
  for (std::size_t i = tiling.nest.size(); i-- > 0;) {
    const TiledDimension& tiled = tiling.nest[i];
    const std::uint32_t index = number % tiled.count;
    number /= tiled.count;
    if (index + 1 == tiled.count) tile.extent[tiled.dimension] = tiled.edge;
    if (tiled.reduced && index != 0) tile.pass &= ~wire::kPassFirst;
    if (tiled.reduced && index + 1 != tiled.count) tile.pass &= ~wire::kPassLast;
    for (std::size_t operand = 0; operand < tiled.step.size(); ++operand)
      tile.offset[operand] += index * tiled.step[operand];
  }
  return tile;
}

}  // namespace svp
