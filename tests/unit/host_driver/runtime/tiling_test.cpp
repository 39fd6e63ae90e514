// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/tiling.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/unit/host_driver/runtime/played_sum.hpp"

namespace svp {
namespace {

using Reason = TilingError::Reason;

struct Plan {
  std::shared_ptr<const Kernel> kernel = test::matmul_kernel();
  CompiledKernel compiled{kernel, {{"M", 1024}, {"K", 512}, {"N", 256}}};

  Tiling operator()(const std::vector<Shape>& shapes, bool allow = true) const {
    std::vector<Argument> arguments;
    std::vector<StickGeometry> geometry;
    arguments.reserve(shapes.size());
    geometry.reserve(shapes.size());
    for (const Shape& shape : shapes) {
      arguments.push_back({.shape = shape});
      geometry.push_back(StickGeometry::of(shape, 64));
    }
    return plan_tiling(kernel->metadata(), compiled.operand_shapes(), arguments, geometry, allow);
  }
  std::optional<Reason> reason(const std::vector<Shape>& shapes) const {
    try {
      (*this)(shapes);
    } catch (const TilingError& error) {
      return error.reason();
    }
    return std::nullopt;
  }
};

TEST(Tiling, ExactShapesAreOneTile) {
  const Tiling tiling = Plan{}({{1024, 512}, {512, 256}, {1024, 256}}, false);
  EXPECT_EQ(tiling.tiles, 1u);
  EXPECT_EQ(tiling.nest.size(), 0u);
  EXPECT_EQ(tile_at(tiling, 0).extent[1], 512);
}

TEST(Tiling, RowTilesMoveByTheTilesRowsWithinEachStickColumn) {
  const Tiling tiling = Plan{}({{4096, 512}, {512, 256}, {4096, 256}});
  EXPECT_EQ(tiling.tiles, 4u);
  ASSERT_EQ(tiling.nest.size(), 1u);
  EXPECT_EQ(tiling.nest[0].step[0], 1024u * 128);
  EXPECT_EQ(tiling.nest[0].step[1], 0u) << "an operand without the dimension is reused";
  EXPECT_EQ(tiling.nest[0].step[2], 1024u * 128);
}

TEST(Tiling, StickTilesMoveByWholeStickColumns) {
  const Tiling tiling = Plan{}({{1024, 512}, {512, 1024}, {1024, 1024}});
  EXPECT_EQ(tiling.tiles, 4u);
  EXPECT_EQ(tiling.nest[0].step[0], 0u);
  EXPECT_EQ(tiling.nest[0].step[1], 256u / 64 * 512 * 128);
  EXPECT_EQ(tiling.nest[0].step[2], 256u / 64 * 1024 * 128);
}

TEST(Tiling, DimensionsNestInTheKernelsOrderAndTheLastMovesFirst) {
  const Tiling tiling = Plan{}({{2048, 512}, {512, 512}, {2048, 512}});
  EXPECT_EQ(tiling.tiles, 4u);
  ASSERT_EQ(tiling.nest.size(), 2u);
  EXPECT_EQ(tiling.nest[0].dimension, 0u);
  EXPECT_EQ(tiling.nest[1].dimension, 2u);
  constexpr std::uint64_t kRows = 1024 * 128, kSticks = 256 / 64 * 2048 * 128;
  EXPECT_EQ(tile_at(tiling, 1).offset[2], kSticks);
  EXPECT_EQ(tile_at(tiling, 2).offset[2], kRows);
  EXPECT_EQ(tile_at(tiling, 3).offset[2], kRows + kSticks);
  EXPECT_EQ(tile_at(tiling, 3).offset[0], kRows);
}

TEST(Tiling, TheEdgeTileHasTheRemainder) {
  const Tiling tiling = Plan{}({{4000, 512}, {512, 300}, {4000, 300}});
  EXPECT_EQ(tiling.tiles, 8u);
  EXPECT_EQ(tile_at(tiling, 0).extent[0], 1024);
  EXPECT_EQ(tile_at(tiling, 0).extent[2], 256);
  EXPECT_EQ(tile_at(tiling, 7).extent[0], 928);
  EXPECT_EQ(tile_at(tiling, 7).extent[1], 512);
  EXPECT_EQ(tile_at(tiling, 7).extent[2], 44);
}

TEST(Tiling, ShorterTensorsThanTheTileAreOneTile) {
  const Tiling tiling = Plan{}({{1000, 100}, {100, 7}, {1000, 7}});
  EXPECT_EQ(tiling.tiles, 1u);
  EXPECT_EQ(tile_at(tiling, 0).extent[0], 1000);
  EXPECT_EQ(tile_at(tiling, 0).extent[1], 100);
  EXPECT_EQ(tile_at(tiling, 0).extent[2], 7);
}

TEST(Tiling, AnInputOfOneElementIsRepeatedWhereTheKernelTakesAStride) {
  Plan sum{.kernel = test::sum_kernel(), .compiled = CompiledKernel(test::sum_kernel(), {{"M", 16}, {"N", 64}})};
  const Tiling tiling = sum({{40, 64}, {1, 64}, {40, 64}});
  EXPECT_EQ(tiling.broadcast[1], 1u);
  EXPECT_EQ(tiling.broadcast[0] | tiling.broadcast[2], 0u);
  EXPECT_EQ(tiling.nest[0].step[1], 0u);
  EXPECT_EQ(sum.reason({{1, 64}, {40, 64}, {40, 64}}), Reason::FixedStride);
  EXPECT_EQ(sum.reason({{40, 64}, {40, 1}, {40, 64}}), Reason::StickBroadcast);
  EXPECT_EQ(sum.reason({{40, 64}, {40, 64}, {1, 64}}), Reason::Inconsistent) << "an output";
  Plan row{.kernel = test::sum_kernel(), .compiled = CompiledKernel(test::sum_kernel(), {{"M", 1}, {"N", 64}})};
  EXPECT_EQ(row({{1, 64}, {40, 64}, {40, 64}}).nest[0].step[0], 0u) << "a tile of 1 needs no stride";
}

TEST(Tiling, AReducedDimensionIsTheInnermostAndItsTilesArePasses) {
  Plan plan;
  plan.kernel = test::matmul_in_passes();
  plan.compiled = CompiledKernel(plan.kernel, {{"M", 64}, {"K", 128}, {"N", 64}});
  const Tiling tiling = plan({{64, 300}, {300, 200}, {64, 200}});
  ASSERT_EQ(tiling.nest.size(), 2u);
  EXPECT_EQ(tiling.nest[0].dimension, 2u);
  EXPECT_EQ(tiling.nest[1].dimension, 1u);
  EXPECT_TRUE(tiling.nest[1].reduced);
  EXPECT_EQ(tiling.tiles, 12u);
  EXPECT_EQ(tiling.partial_bytes[2], 64u * 64 * 4);
  EXPECT_EQ(tiling.partial_bytes[0], 0u);
  EXPECT_EQ(tile_at(tiling, 3).pass, wire::kPassFirst);
  EXPECT_EQ(tile_at(tiling, 4).pass, 0u);
  EXPECT_EQ(tile_at(tiling, 5).pass, wire::kPassLast);
  EXPECT_EQ(tile_at(tiling, 5).extent[1], 44);
  EXPECT_EQ(tile_at(tiling, 3).offset[2], tile_at(tiling, 5).offset[2]);
  EXPECT_EQ(tile_at(tiling, 5).offset[1], 2u * 128 * 128 + 300 * 128);
  EXPECT_EQ(plan({{64, 128}, {128, 200}, {64, 200}}).partial_bytes[2], 0u) << "one pass";
  EXPECT_EQ(tile_at(plan({{64, 100}, {100, 64}, {64, 64}}), 0).pass, wire::kPassFirst | wire::kPassLast);
}

TEST(Tiling, WhatCanNotBeTiledIsRefusedWithItsReason) {
  const Plan plan;
  EXPECT_EQ(plan.reason({{1024, 512, 1}, {512, 256}, {1024, 256}}), Reason::RankDiffers);
  EXPECT_EQ(plan.reason({{4096, 512}, {512, 256}, {2048, 256}}), Reason::Inconsistent);
  EXPECT_EQ(plan.reason({{4096, 512}, {512, 256}, {1024, 256}}), Reason::Inconsistent) << "an output of one tile";
  EXPECT_EQ(plan.reason({{1024, 1024}, {512, 256}, {1024, 256}}), Reason::Inconsistent) << "a reduced dimension";
  EXPECT_EQ(plan.reason({{1024, 1024}, {1024, 256}, {1024, 256}}), Reason::Reduction);
  EXPECT_EQ(plan.reason({{std::int64_t{1} << 43, 512}, {512, 256}, {std::int64_t{1} << 43, 256}}),
            Reason::TooManyTiles);
  Plan odd;
  odd.compiled = CompiledKernel(odd.kernel, {{"M", 64}, {"K", 64}, {"N", 96}});
  EXPECT_EQ(odd.reason({{64, 64}, {64, 192}, {64, 192}}), Reason::StickUnaligned);
}

TEST(Tiling, AKernelThatTakesNoExtentsOrStridesGetsWholeTilesOnly) {
  Plan fixed;
  fixed.kernel = test::kernel_without_symbols();
  fixed.compiled = CompiledKernel(fixed.kernel, {{"M", 64}, {"N", 64}});
  EXPECT_EQ(fixed({{64, 256}}).tiles, 4u);
  EXPECT_EQ(fixed.reason({{63, 64}}), Reason::SmallerThanTile);
  EXPECT_EQ(fixed.reason({{64, 100}}), Reason::NotDivisible);
  EXPECT_EQ(fixed.reason({{128, 64}}), std::nullopt) << "one stick column";
  fixed.compiled = CompiledKernel(fixed.kernel, {{"M", 64}, {"N", 128}});
  EXPECT_EQ(fixed.reason({{128, 128}}), Reason::FixedStride);
}

struct StrictCase {
  std::vector<Shape> shapes;
  const char* field;
  const char* values;
};

TEST(Tiling, StrictLaunchTakesTheCompiledShapesOnlyAndNamesOperandDimensionAndBothValues) {
  const StrictCase cases[] = {
      {{{4096, 512}, {512, 256}, {4096, 256}}, "operand a, dimension M", "has 4096, the kernel is compiled for 1024"},
      {{{1000, 512}, {512, 256}, {1000, 256}}, "operand a, dimension M", "has 1000, the kernel is compiled for 1024"},
      {{{1024, 100}, {100, 256}, {1024, 256}}, "operand a, dimension K", "has 100, the kernel is compiled for 512"},
      {{{1024, 512}, {512, 7}, {1024, 7}}, "operand b, dimension N", "has 7, the kernel is compiled for 256"},
      {{{1024, 512}, {512, 300}, {1024, 300}}, "operand b, dimension N", "has 300, the kernel is compiled for 256"},
      {{{1024, 512}, {512, 256}, {1024, 255}}, "operand c, dimension N", "has 255, the kernel is compiled for 256"},
  };
  for (const StrictCase& each : cases) {
    try {
      Plan{}(each.shapes, false);
      ADD_FAILURE() << "accepted: " << each.values;
    } catch (const TiledLaunchNotAllowed& error) {
      EXPECT_EQ(error.field(), each.field);
      EXPECT_NE(error.info().message.find(each.values), std::string::npos) << error.info().message;
    }
  }
}

TEST(Tiling, StrictLaunchRefusesViewsInOtherSteps) {
  const auto kernel = test::sum_kernel();
  const CompiledKernel compiled(kernel, {{"M", 16}, {"N", 128}});
  std::vector<Argument> arguments(3, Argument{.shape = {16, 128}});
  const auto plan = [&](bool allow) {
    std::vector<StickGeometry> geometry;
    for (const Argument& argument : arguments) {
      geometry.push_back(argument.stride ? StickGeometry::strided(argument.shape, *argument.stride, 64)
                                         : StickGeometry::of(argument.shape, 64));
    }
    return plan_tiling(kernel->metadata(), compiled.operand_shapes(), arguments, geometry, allow);
  };
  arguments[1].stride = std::array<std::uint64_t, Shape::kMaxRank>{128, 16 * 128};
  EXPECT_EQ(plan(false).tiles, 1u) << "where a whole tensor has them";
  arguments[1].stride = std::array<std::uint64_t, Shape::kMaxRank>{256, 32 * 128};
  EXPECT_EQ(plan(true).tiles, 1u) << "the kernel takes strides of b";
  try {
    plan(false);
    ADD_FAILURE() << "accepted";
  } catch (const TiledLaunchNotAllowed& error) {
    EXPECT_EQ(error.field(), "operand b, dimension M");
    EXPECT_NE(error.info().message.find("in steps of 256 bytes, the kernel is compiled for 128"), std::string::npos)
        << error.info().message;
  }
}

}  // namespace
}  // namespace svp
