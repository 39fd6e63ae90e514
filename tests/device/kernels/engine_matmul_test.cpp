// SPDX-License-Identifier: Apache-2.0
// MatMul of the engine against the golden model, bit for bit: shapes, layouts, batches, splits, numbers of cores.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "tests/device/kernels/engine_products.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::kNoDimension;
using program::Opcode;

struct Layouts : ProductLayouts {
  Layouts()
      : ProductLayouts{{.stick_dim = kK, .order = {kM, kK}},
                       {.stick_dim = kN, .order = {kK, kN}},
                       {.stick_dim = kN, .order = {kM, kN}}} {}
};

class EngineMatmul : public EngineProductTest {
 protected:
  EngineMatmul() : EngineProductTest(Opcode::MatMul) {}

  Program product(std::initializer_list<std::uint32_t> extents, const Layouts& layouts) {
    return EngineProductTest::product(extents, layouts);
  }
  void expect_product(std::initializer_list<std::uint32_t> extents, const Layouts& layouts, unsigned cores = 1,
                      int low = 24, int high = 33) {
    EngineProductTest::expect_product(extents, layouts, cores, low, high);
  }
};

TEST_F(EngineMatmul, AnyShapeEqualsGolden) {
  for (const auto& [m, n, k] : {std::array{1u, 64u, 64u},
                                {5u, 70u, 130u},
                                {17u, 128u, 64u},
                                {64u, 200u, 300u},
                                {3u, 1u, 1u},
                                {1u, 1u, 65u},
                                {600u, 65u, 1u}}) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
    expect_product({m, n, k}, {});
  }
}

TEST_F(EngineMatmul, EveryExponentSpreadEqualsGolden) {
  for (const int spread : {0, 4, 9, 14, 20, 30, 45, 63}) {
    SCOPED_TRACE(spread);
    const int low = static_cast<int>(random_() % static_cast<std::uint64_t>(64 - spread));
    for (const std::uint32_t rows : {1u, 4u, 7u, 20u}) expect_product({rows, 64, 128}, {}, 1, low, low + spread);
  }
}

TEST_F(EngineMatmul, AnyBitPatternsEqualGolden) {
  for (const std::uint32_t rows : {1u, 6u, 18u}) {
    SCOPED_TRACE(rows);
    const Program made = product({rows, 70, 130}, {});
    expect_golden(made, random_arguments(made));
  }
}

TEST_F(EngineMatmul, NanPoisonsItsRowAndColumnOnly) {
  const Program made = product({18, 70, 130}, {});
  std::vector<Bytes> arguments = filled_arguments(made, 20, 40);
  const auto put = [&](unsigned o, std::uint64_t at, std::uint16_t code) {
    std::memcpy(&arguments[o][made.operations[0].operand[o].offset + at], &code, sizeof code);
  };
  put(0, 5 * 128, 0x7FFF);
  put(1, 100 * 128 + 6, 0xFFFF);
  expect_golden(made, arguments);
}

TEST_F(EngineMatmul, RowsOfAnyStrideAndGapsEqualGolden) {
  Layouts layouts;
  layouts.left = {.stick_dim = kK, .order = {kK, kM}, .gap = 1};  // rows outermost
  layouts.right = {.stick_dim = kN, .order = {kN, kK}, .gap = 2};
  layouts.out = {.stick_dim = kN, .order = {kN, kM}, .gap = 3};
  expect_product({33, 130, 200}, layouts);
}

TEST_F(EngineMatmul, BatchesOfBothOperandsEqualGolden) {
  Layouts layouts;
  layouts.left.order = {kM, kBatch, kK, kOuter};
  layouts.right.order = {kK, kBatch, kOuter, kN};
  layouts.out.order = {kM, kOuter, kN, kBatch};
  expect_product({19, 80, 70, 3, 2}, layouts);
}

TEST_F(EngineMatmul, AnOperandWithoutABatchIsUsedForAll) {
  Layouts of_left;
  of_left.left.order = {kM, kBatch, kK, kOuter};
  of_left.right.order = {kK, kN};
  of_left.out.order = {kM, kBatch, kN, kOuter};
  expect_product({19, 80, 70, 3, 2}, of_left);
  Layouts of_right;
  of_right.left.order = {kM, kK, kOuter};
  of_right.right.order = {kK, kN, kBatch};
  of_right.out.order = {kM, kBatch, kN, kOuter};
  expect_product({19, 80, 70, 3, 2}, of_right);
}

TEST_F(EngineMatmul, AnOutputWithoutSticksGetsItsElementsInAllLanes) {
  for (const std::uint8_t right_sticks : {kNoDimension, std::uint8_t{kK}}) {
    Layouts layouts;
    layouts.right = {.stick_dim = right_sticks, .order = {kK}};
    layouts.out = {.stick_dim = kNoDimension, .order = {kM}};
    expect_product({40, 1, 200}, layouts);
    layouts.right.order = {kK, kN};
    layouts.out.order = {kN, kM};
    expect_product({7, 90, 200}, layouts);
  }
}

TEST_F(EngineMatmul, ScratchpadOperandsEqualGolden) {
  Program made;
  made.header.slices = 8;
  made.header.scratchpad_bytes = 64 * 1024;
  // The result lacks k and has copies in its place: the argument gets one behind the other.
  const auto copy_between = [&](bool into, const Layout& layout, std::uint64_t offset, std::uint32_t k_or_copies) {
    program::Operation copy = operation_of(Opcode::Copy, {24, 128, k_or_copies});
    Layout dense = layout;
    std::ranges::fill(dense.split, std::uint8_t{1});
    std::ranges::fill(dense.split_stride, std::uint8_t{0});
    if (!into) dense.order = {kM, kN, kK};
    if (into) add_argument(made, copy, dense, Access::Read, random_);
    add_operand(copy, layout);
    copy.operand[copy.operand_count - 1].base = program::Base::Scratchpad;
    copy.operand[copy.operand_count - 1].offset = offset;
    if (!into) add_argument(made, copy, dense, Access::Write, random_);
    made.operations.push_back(copy);
  };
  Layouts layouts;
  const auto split = [](Layout& layout, unsigned d, std::uint8_t parts, std::uint8_t stride) {
    layout.split[d] = parts;
    layout.split_stride[d] = stride;
  };
  split(layouts.left, kM, 4, 1);
  split(layouts.left, kK, 2, 4);
  split(layouts.right, kK, 4, 2);
  split(layouts.right, kN, 2, 1);
  split(layouts.out, kM, 2, 2);
  split(layouts.out, kN, 2, 4);
  split(layouts.out, kK, 2, 1);  // copies
  copy_between(true, layouts.left, 0, 256);
  copy_between(true, layouts.right, 16384, 256);
  program::Operation operation = operation_of(Opcode::MatMul, {24, 128, 256});
  operation.reduced = 1u << kK;
  std::uint64_t offset = 0;
  for (const Layout& layout : {layouts.left, layouts.right, layouts.out}) {
    add_operand(operation, layout);
    operation.operand[operation.operand_count - 1].base = program::Base::Scratchpad;
    operation.operand[operation.operand_count - 1].offset = offset;
    offset += 16384;
  }
  made.operations.push_back(operation);
  copy_between(false, layouts.out, 32768, 2);
  expect_golden(made, filled_arguments(made, 20, 36));
}

TEST_F(EngineMatmul, ResultDoesNotDependOnTheNumberOfCores) {
  Layouts layouts;
  layouts.left.order = {kM, kK, kBatch};
  layouts.out.order = {kM, kN, kBatch};
  for (const unsigned cores : {2u, 3u, 7u, 32u}) {
    SCOPED_TRACE(cores);
    expect_product({130, 200, 128, 2}, layouts, cores);
    expect_product({1500, 150, 20, 2}, layouts, cores);
  }
}

TEST_F(EngineMatmul, RandomProgramsEqualGolden) { expect_random({Opcode::MatMul}, 60); }

}  // namespace
}  // namespace kernel_test
