// SPDX-License-Identifier: Apache-2.0
// A strict launch (docs/tiling.md), as a property of random kernels and operands: it is planned exactly when every
// extent is the compiled one and every axis with more than one step has the stride of a dense tensor.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/runtime/tiling.hpp"
#include "tests/unit/host_driver/runtime/played_sum.hpp"

namespace svp {
namespace {

using Strides = std::array<std::uint64_t, Shape::kMaxRank>;

template <typename T>
T below(T end) {
  return *rc::gen::inRange<T>(0, end);
}

bool one_in(unsigned n) { return below(n) == 0; }

struct Problem {
  KernelMetadata kernel;
  std::vector<Shape> compiled;
  std::vector<Argument> arguments;

  std::int64_t per_stick(std::size_t operand) const { return elements_per_stick(arguments[operand].dtype); }
  Tiling plan(bool allow_tiled_launch) const {
    std::vector<StickGeometry> geometry;
    geometry.reserve(arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const Argument& argument = arguments[i];
      geometry.push_back(argument.stride ? StickGeometry::strided(argument.shape, *argument.stride, per_stick(i))
                                         : StickGeometry::of(argument.shape, per_stick(i)));
    }
    return plan_tiling(kernel, compiled, arguments, geometry, allow_tiled_launch);
  }
};

// The default layout as include/spyre/tensor_layout.hpp and docs/tensors.md describe it, written without the driver's
// StickGeometry: dimension 0 inside of a stick column, the sticks of the last dimension around it, then the others from
// the last but one to the second.
Strides dense_strides(const Shape& shape, std::int64_t per_stick) {
  Strides stride{};
  const std::size_t last = shape.rank() - 1;
  std::uint64_t bytes = 128;
  const auto put = [&](std::size_t axis, std::int64_t steps) {
    stride[axis] = bytes;
    bytes *= static_cast<std::uint64_t>(steps);
  };
  if (last != 0) put(0, shape[0]);
  put(last, (shape[last] + per_stick - 1) / per_stick);
  for (std::size_t axis = last; axis-- > 1;) put(axis, shape[axis]);
  return stride;
}

std::int64_t steps_along(const Shape& shape, std::size_t axis, std::int64_t per_stick) {
  return axis + 1 == shape.rank() ? (shape[axis] + per_stick - 1) / per_stick : shape[axis];
}

KernelMetadata random_kernel() {
  KernelMetadata kernel;
  const auto dimensions = 1 + below(4u);
  kernel.dimensions.reserve(dimensions);
  for (unsigned d = 0; d < dimensions; ++d) kernel.dimensions.push_back("D" + std::to_string(d));
  const auto operands = 1 + below(4u);
  constexpr std::array kTypes{DeviceType::Dl16, DeviceType::Fp32, DeviceType::Int8};
  kernel.operands.reserve(operands);
  for (unsigned i = 0; i < operands; ++i) {
    KernelOperand operand{.name = "o" + std::to_string(i),
                          .access = i + 1 == operands ? wire::kSegmentWrite : wire::kSegmentRead,
                          .dtype = kTypes[below(kTypes.size())],
                          .shape = {}};
    const unsigned rank = 1 + below(dimensions), first = below(dimensions);
    for (unsigned axis = 0; axis < rank; ++axis) operand.shape.push_back((first + axis) % dimensions);
    kernel.operands.push_back(operand);
    for (unsigned axis = 0; axis < rank; ++axis) {
      const std::uint32_t dimension = operand.shape[axis];
      const auto symbol = [&](wire::SymbolKind kind) {
        return KernelSymbol{.kind = kind, .operand = i, .axis = axis, .dimension = dimension};
      };
      if (one_in(2)) kernel.symbols.push_back(symbol(wire::SymbolKind::Stride));
      if (one_in(2)) kernel.symbols.push_back(symbol(wire::SymbolKind::Dimension));
    }
    if (one_in(2)) kernel.symbols.push_back({.kind = wire::SymbolKind::Partials, .operand = i});
    if (one_in(2)) kernel.symbols.push_back({.kind = wire::SymbolKind::Pass, .operand = i});
  }
  return kernel;
}

std::int64_t other_extent(std::int64_t compiled) {
  const std::array candidates{std::int64_t{1}, compiled + 1, compiled * 2, std::max<std::int64_t>(compiled - 1, 1)};
  return candidates[below(candidates.size())];
}

// Of the compiled shape, and then nothing, an extent of a whole dimension or of one operand, or a stride is changed.
Problem random_problem() {
  Problem problem{.kernel = random_kernel(), .compiled = {}, .arguments = {}};
  constexpr std::array<std::int64_t, 7> kExtents{1, 2, 3, 64, 65, 128, 200};
  std::vector<std::int64_t> compiled;
  compiled.reserve(problem.kernel.dimensions.size());
  for (std::size_t d = 0; d < problem.kernel.dimensions.size(); ++d)
    compiled.push_back(kExtents[below(kExtents.size())]);
  std::vector<std::int64_t> given = compiled;
  if (one_in(4)) {
    std::int64_t& extent = given[below(given.size())];
    extent = other_extent(extent);
  }
  for (const KernelOperand& operand : problem.kernel.operands) {
    std::vector<std::int64_t> of_tile, of_shape;
    of_tile.reserve(operand.shape.size());
    of_shape.reserve(operand.shape.size());
    for (const std::uint32_t dimension : operand.shape) {
      of_tile.push_back(compiled[dimension]);
      of_shape.push_back(given[dimension]);
    }
    if (one_in(8)) {
      std::int64_t& extent = of_shape[below(of_shape.size())];
      extent = one_in(2) ? 1 : other_extent(extent);
    }
    problem.compiled.emplace_back(of_tile);
    Argument argument{.shape = Shape(of_shape), .dtype = operand.dtype};
    if (one_in(2)) {
      argument.stride = dense_strides(argument.shape, elements_per_stick(operand.dtype));
      std::uint64_t& changed = (*argument.stride)[below(argument.shape.rank())];
      if (one_in(3)) changed = one_in(2) ? 0 : changed + 128 * (1 + below(std::uint64_t{4}));
    }
    problem.arguments.push_back(argument);
  }
  return problem;
}

bool is_exactly_as_compiled(const Problem& problem) {
  for (std::size_t i = 0; i < problem.arguments.size(); ++i) {
    const Argument& argument = problem.arguments[i];
    if (!(argument.shape == problem.compiled[i])) return false;
    if (!argument.stride) continue;
    const Strides dense = dense_strides(argument.shape, problem.per_stick(i));
    for (std::size_t axis = 0; axis < argument.shape.rank(); ++axis) {
      if (steps_along(argument.shape, axis, problem.per_stick(i)) > 1 && (*argument.stride)[axis] != dense[axis]) {
        return false;
      }
    }
  }
  return true;
}

RC_GTEST_PROP(StrictTiling, IsPlannedExactlyWhenExtentsAndSteppedStridesAreTheCompiledOnes, ()) {
  const Problem problem = random_problem();
  const bool exact = is_exactly_as_compiled(problem);
  RC_TAG(exact ? "exact" : "another shape or stride");
  try {
    const Tiling tiling = problem.plan(false);
    RC_ASSERT(exact);
    RC_ASSERT(tiling.tiles == 1u);
    RC_ASSERT(tiling.nest.empty());
    RC_ASSERT(std::ranges::all_of(tiling.broadcast, [](std::uint8_t axes) { return axes == 0; }));
    for (std::size_t i = 0; i < problem.compiled.size(); ++i) {
      for (std::size_t axis = 0; axis < problem.compiled[i].rank(); ++axis) {
        RC_ASSERT(tiling.extent[problem.kernel.operands[i].shape[axis]] == problem.compiled[i][axis]);
      }
    }
    RC_ASSERT(problem.plan(true).tiles == 1u);  // what is exact needs no permission, and gets the same plan with it
  } catch (const TiledLaunchNotAllowed& refused) {
    RC_ASSERT(!exact);
    RC_ASSERT(refused.field().starts_with("operand o"));
  }
}

// docs/tiling.md: "an input of one element that would be repeated". The kernel takes the stride, and a launch that is
// not strict repeats it.
TEST(StrictTiling, AnInputOfOneElementIsRefusedWhereATiledLaunchRepeatsIt) {
  const auto kernel = test::sum_kernel();
  const CompiledKernel compiled(kernel, {{"M", 16}, {"N", 64}});
  Problem problem{.kernel = kernel->metadata(), .compiled = {}, .arguments = {}};
  for (const Shape& shape : compiled.operand_shapes()) {
    problem.compiled.push_back(shape);
    problem.arguments.push_back({.shape = shape});
  }
  EXPECT_EQ(problem.plan(false).tiles, 1u);
  problem.arguments[1].shape = {1, 64};
  EXPECT_EQ(problem.plan(true).broadcast[1], 1u);
  try {
    (void)problem.plan(false);
    ADD_FAILURE() << "repeated by a strict launch";
  } catch (const TiledLaunchNotAllowed& refused) {
    EXPECT_EQ(refused.field(), "operand b, dimension M");
  }
  // The same element as a view of the full size with stride 0 (expand).
  problem.arguments[1] = {.shape = {16, 64}, .stride = Strides{0, std::uint64_t{16} * 128}};
  EXPECT_EQ(problem.plan(true).tiles, 1u);
  EXPECT_THROW((void)problem.plan(false), TiledLaunchNotAllowed);
}

}  // namespace
}  // namespace svp
