// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/tiling.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using Reason = TilingError::Reason;

struct Plan {
  std::shared_ptr<const Kernel> kernel = test::matmul_kernel();
  CompiledKernel compiled{kernel, {{"M", 1024}, {"K", 512}, {"N", 256}}};

  Tiling operator()(std::vector<Shape> shapes, bool allow = true) const {
    std::vector<Argument> arguments;
    std::vector<StickGeometry> geometry;
    for (const Shape& shape : shapes) {
      arguments.push_back({.shape = shape});
      geometry.push_back(StickGeometry::of(shape, 64));
    }
    return plan_tiling(kernel->metadata(), compiled.operand_shapes(), arguments, geometry, allow);
  }
  std::optional<Reason> reason(std::vector<Shape> shapes) const {
    try {
      (*this)(std::move(shapes));
    } catch (const TilingError& error) {
      return error.reason();
    }
    return std::nullopt;
  }
};

TEST(Tiling, ExactShapesAreOneWalk) {
  const Tiling tiling = Plan{}({{1024, 512}, {512, 256}, {1024, 256}}, false);
  EXPECT_EQ(tiling.iterations, 1u);
  EXPECT_FALSE(tiling.dimension);
}

TEST(Tiling, RowTilesMoveByTheTilesRowsWithinEachStickColumn) {
  const Tiling tiling = Plan{}({{4096, 512}, {512, 256}, {4096, 256}});
  EXPECT_EQ(tiling.iterations, 4u);
  EXPECT_EQ(tiling.step[0], 1024u * 128);
  EXPECT_EQ(tiling.step[1], 0u) << "an operand of the tile's shape is reused";
  EXPECT_EQ(tiling.step[2], 1024u * 128);
}

TEST(Tiling, StickTilesMoveByWholeStickColumns) {
  const Tiling tiling = Plan{}({{1024, 512}, {512, 1024}, {1024, 1024}});
  EXPECT_EQ(tiling.iterations, 4u);
  EXPECT_EQ(tiling.step[0], 0u);
  EXPECT_EQ(tiling.step[1], 256u / 64 * 512 * 128);
  EXPECT_EQ(tiling.step[2], 256u / 64 * 1024 * 128);
}

TEST(Tiling, WhatCanNotBeTiledIsRefusedWithItsReason) {
  const Plan plan;
  EXPECT_EQ(plan.reason({{1024, 512, 1}, {512, 256}, {1024, 256}}), Reason::RankDiffers);
  EXPECT_EQ(plan.reason({{1023, 512}, {512, 256}, {1023, 256}}), Reason::SmallerThanTile);
  EXPECT_EQ(plan.reason({{4000, 512}, {512, 256}, {4000, 256}}), Reason::NotDivisible);
  EXPECT_EQ(plan.reason({{2048, 512}, {512, 512}, {2048, 512}}), Reason::SeveralDimensions);
  EXPECT_EQ(plan.reason({{4096, 512}, {512, 256}, {2048, 256}}), Reason::Inconsistent);
  EXPECT_EQ(plan.reason({{4096, 512}, {512, 256}, {1024, 256}}), Reason::Inconsistent) << "an output of one tile";
  EXPECT_EQ(plan.reason({{1024, 1024}, {1024, 256}, {1024, 256}}), Reason::Reduction);
  Plan odd;
  odd.compiled = CompiledKernel(odd.kernel, {{"M", 64}, {"K", 64}, {"N", 96}});
  EXPECT_EQ(odd.reason({{64, 64}, {64, 192}, {64, 192}}), Reason::StickUnaligned);
}

TEST(Tiling, StrictLaunchNamesOperandAndDimension) {
  try {
    Plan{}({{4096, 512}, {512, 256}, {4096, 256}}, false);
    FAIL() << "accepted";
  } catch (const TiledLaunchNotAllowed& error) {
    EXPECT_EQ(error.field(), "operand a, dimension M");
  }
}

}  // namespace
}  // namespace svp
