// SPDX-License-Identifier: Apache-2.0
// Bundles compiled and executed on the golden model, against the plain meaning of their operation. Places of elements
// are computed by the formula for sticks of two dimensions, not by the compiler.
#include "host_driver/compiler/compile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "host_driver/program/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "tests/support/bundle_builder.hpp"

namespace {

using namespace svp::compiler;
using test::BundleBuilder;
using test::BundleTensor;

// A tensor [rows, columns] of DL16, its sticks along the columns, at a byte of an argument's memory.
struct Matrix {
  std::vector<std::byte> bytes;
  unsigned rows, columns;

  Matrix(unsigned r, unsigned c) : bytes(std::size_t{r} * ((c + 63) / 64) * 128), rows(r), columns(c) {}
  std::uint16_t& at(unsigned row, unsigned column) {
    return reinterpret_cast<std::uint16_t&>(bytes[(column / 64 * rows + row) * 128 + column % 64 * 2]);
  }
  float value(unsigned row, unsigned column) { return wire::fp32_from_dl16(at(row, column)); }
};

Matrix random_matrix(unsigned rows, unsigned columns, unsigned seed) {
  Matrix matrix(rows, columns);
  std::mt19937 random(seed);
  for (unsigned r = 0; r < rows; ++r) {
    for (unsigned c = 0; c < columns; ++c) {
      matrix.at(r, c) = wire::dl16_from_fp32(static_cast<float>(static_cast<int>(random() % 65) - 32) / 8);
    }
  }
  return matrix;
}

BundleTensor tensor(const std::string& base) { return {.order = {"mb", "out"}, .stick = "out", .base = base}; }
BundleTensor scratchpad(std::int64_t at) { return {.order = {"mb", "out"}, .stick = "out", .offset = at}; }

svp::DeviceProgram compiled(const BundleBuilder& builder) {
  return compile(read_bundle([&](const std::string& name) { return builder.read(name); }));
}

void run(const BundleBuilder& builder, const std::vector<Matrix*>& arguments) {
  std::vector<std::span<std::byte>> memory;
  memory.reserve(arguments.size());
  for (Matrix* matrix : arguments) memory.emplace_back(matrix->bytes);
  svp::program::golden::run(compiled(builder).bytes(), memory);
}

std::string refusal_of(const BundleBuilder& builder) {
  try {
    (void)compiled(builder);
  } catch (const InvalidPlan& refused) {
    EXPECT_FALSE(refused.info().next_step.empty());
    return refused.info().message;
  }
  return "accepted";
}

void expect_each(Matrix& result, const std::function<float(unsigned, unsigned)>& expected) {
  for (unsigned r = 0; r < result.rows; ++r) {
    for (unsigned c = 0; c < result.columns; ++c) {
      ASSERT_EQ(result.at(r, c), wire::dl16_from_fp32(expected(r, c))) << r << ", " << c;
    }
  }
}

test::BundleOperation add(std::vector<BundleTensor> tensors, std::map<std::string, std::uint32_t> slices = {}) {
  return {
      .op = "add", .extents = {{"mb", 64}, {"out", 128}}, .tensors = std::move(tensors), .slices = std::move(slices)};
}

TEST(CompiledBundles, AnAdditionDividedAmongCoresAddsEachElement) {
  for (const auto& slices : {std::map<std::string, std::uint32_t>{}, {{"mb", 4}}, {{"mb", 4}, {"out", 2}}}) {
    BundleBuilder builder(3);
    builder.add(add({tensor("arg_0"), tensor("arg_1"), tensor("arg_2")}, slices));
    Matrix a = random_matrix(64, 128, 1), b = random_matrix(64, 128, 2), c(64, 128);
    run(builder, {&a, &b, &c});
    expect_each(c, [&](unsigned row, unsigned column) { return a.value(row, column) + b.value(row, column); });
  }
}

TEST(CompiledBundles, ASumOfAsManyTensorsAsALaunchTakes) {
  constexpr unsigned kTensors = 120;
  BundleBuilder builder(kTensors);
  const std::string last = "arg_" + std::to_string(kTensors - 1);
  for (unsigned i = 1; i + 1 < kTensors; ++i) {
    builder.add(add({tensor(i == 1 ? "arg_0" : last), tensor("arg_" + std::to_string(i)), tensor(last)}));
  }
  std::vector<Matrix> parts;
  for (unsigned i = 0; i < kTensors; ++i) {
    parts.emplace_back(64, 128);
    for (unsigned r = 0; r < 64; ++r) {
      for (unsigned c = 0; c < 128; ++c) parts[i].at(r, c) = wire::dl16_from_fp32(static_cast<float>((i + r + c) % 3));
    }
  }
  std::vector<Matrix*> arguments(parts.size());
  std::ranges::transform(parts, arguments.begin(), [](Matrix& part) { return &part; });
  run(builder, arguments);
  expect_each(parts.back(), [&](unsigned r, unsigned c) {
    float sum = 0;
    for (unsigned i = 0; i + 1 < kTensors; ++i) sum += static_cast<float>((i + r + c) % 3);
    return sum;
  });
}

TEST(CompiledBundles, ARowAColumnAndANumberAreRepeated) {
  BundleBuilder builder(4);
  BundleTensor row = tensor("arg_1"), column = tensor("arg_2");
  row.order = {"out", "mb"};
  row.scale = {{"mb", -1}};
  column.scale = {{"out", -2}};
  builder.add(add({tensor("arg_0"), row, tensor("arg_3")}));
  builder.add(add({tensor("arg_3"), column, tensor("arg_3")}));
  Matrix a = random_matrix(64, 128, 1), b = random_matrix(1, 128, 2), d = random_matrix(64, 1, 3), c(64, 128);
  run(builder, {&a, &b, &d, &c});
  expect_each(c, [&](unsigned r, unsigned k) { return a.value(r, k) + b.value(0, k) + d.value(r, 0); });
}

// The first operation reaches behind the pool that the bundle declares; the second one needs a temporary, which lies
// behind all that.
TEST(CompiledBundles, ATemporaryLiesBehindWhatOperationsReachInThePool) {
  BundleBuilder builder(2, 1024);
  const BundleTensor whole = tensor("pool");
  BundleTensor largest = whole;
  largest.order = {"out", "mb"};
  largest.scale = {{"mb", -1}};
  BundleTensor result = largest;
  result.base = "arg_1";
  const std::vector<std::pair<std::string, std::uint32_t>> extents{{"mb", 16}, {"out", 64}};
  builder.add({.op = "abs", .extents = extents, .tensors = {tensor("arg_0"), whole}});
  builder.add({.op = "max", .extents = extents, .tensors = {whole, largest}});
  builder.add({.op = "identity", .extents = {{"mb", 1}, {"out", 64}}, .tensors = {largest, result}});
  Matrix a = random_matrix(16, 64, 1), b(1, 64);
  run(builder, {&a, &b});
  expect_each(b, [&](unsigned, unsigned column) {
    float most = 0;
    for (unsigned row = 0; row < 16; ++row) most = std::max(most, std::abs(a.value(row, column)));
    return most;
  });
}

TEST(CompiledBundles, ATensorThatBeginsBehindThePoolIsRefused) {
  BundleBuilder builder(1, 1024);
  BundleTensor behind = tensor("pool");
  behind.offset = 1024;
  builder.add({.op = "abs", .extents = {{"mb", 1}, {"out", 64}}, .tensors = {tensor("arg_0"), behind}});
  EXPECT_NE(refusal_of(builder).find("begins at byte 1024 of the pool, which has 1024"), std::string::npos);
}

TEST(CompiledBundles, ARestickifyTransposesAndPads) {
  BundleBuilder builder(2);
  builder.add({.op = "ReStickifyOpHBM",
               .extents = {{"mb", 128}, {"out", 192}},
               .tensors = {{.order = {"mb", "out"}, .stick = "out", .base = "arg_0", .gap = {{"mb", 28}}},
                           {.order = {"out", "mb"}, .stick = "mb", .base = "arg_1", .gap = {{"out", 42}}}}});
  Matrix a = random_matrix(100, 150, 1), b(150, 100);
  run(builder, {&a, &b});
  for (unsigned r = 0; r < 150; ++r) {
    for (unsigned c = 0; c < 128; ++c) ASSERT_EQ(b.at(r, c), c < 100 ? a.at(c, r) : 0) << r << ", " << c;
  }
}

TEST(CompiledBundles, ASumAlongTheStickLeavesMaskedLanesOut) {
  BundleBuilder builder(2);
  BundleTensor result = tensor("arg_1");
  result.scale = {{"out", -2}};
  builder.add({.op = "sum",
               .extents = {{"mb", 64}, {"out", 128}},
               .tensors = {tensor("arg_0"), result},
               .slices = {{"mb", 2}},
               .constants = {{"samv-maskvalue", 0}},
               .masks = {{"out", {100, 28}}}});
  Matrix a = random_matrix(64, 128, 1), b(64, 1);
  run(builder, {&a, &b});
  expect_each(b, [&](unsigned row, unsigned) {
    float sum = 0;
    for (unsigned c = 0; c < 100; ++c) sum += a.value(row, c);
    return sum;
  });
}

TEST(CompiledBundles, ASumOverBothDimensionsIsRoundedOnce) {
  BundleBuilder builder(2);
  BundleTensor result = tensor("arg_1");
  result.scale = {{"mb", -1}, {"out", -2}};
  builder.add({.op = "sum", .extents = {{"mb", 64}, {"out", 128}}, .tensors = {tensor("arg_0"), result}});
  Matrix a = random_matrix(64, 128, 1), b(1, 1);
  run(builder, {&a, &b});
  double sum = 0;
  for (unsigned r = 0; r < 64; ++r) {
    for (unsigned c = 0; c < 128; ++c) sum += a.value(r, c);
  }
  EXPECT_EQ(b.at(0, 0), wire::dl16_from_fp32(static_cast<float>(sum)));
}

TEST(CompiledBundles, AProductContractsTheDimensionOfBothInputs) {
  BundleBuilder builder(3);
  builder.add({.op = "batchmatmul",
               .extents = {{"mb", 32}, {"in", 128}, {"out", 192}},
               .tensors = {{.order = {"mb", "in"}, .stick = "in", .base = "arg_0"},
                           {.order = {"in", "out"}, .stick = "out", .base = "arg_1"},
                           {.order = {"mb", "out"}, .stick = "out", .base = "arg_2"}},
               .slices = {{"mb", 4}}});
  Matrix a = random_matrix(32, 128, 1), b = random_matrix(128, 192, 2), c(32, 192);
  run(builder, {&a, &b, &c});
  expect_each(c, [&](unsigned row, unsigned column) {
    float sum = 0;
    for (unsigned k = 0; k < 128; ++k) sum += a.value(row, k) * b.value(k, column);
    return sum;
  });
}

// (a + b) in tiles of 32 rows, through a tile of the pool, then its absolute value.
TEST(CompiledBundles, LoopsMoveTheAddressesOfTheirTiles) {
  BundleBuilder builder(3, std::uint64_t{32} * 2 * 128);
  const auto tile = [](const std::string& base) {
    BundleTensor result = tensor(base);
    result.loops = {{"%i_0", 32 * 128}};
    result.gap = {{"mb", 96}};
    return result;
  };
  const std::vector<std::pair<std::string, std::uint32_t>> extents{{"mb", 32}, {"out", 128}};
  builder.begin_loop("%i_0", 4);
  builder.add({.op = "add", .extents = extents, .tensors = {tile("arg_0"), tile("arg_1"), tensor("pool")}});
  builder.add({.op = "abs", .extents = extents, .tensors = {tensor("pool"), tile("arg_2")}});
  builder.end_loop();
  Matrix a = random_matrix(128, 128, 1), b = random_matrix(128, 128, 2), c(128, 128);
  run(builder, {&a, &b, &c});
  expect_each(c, [&](unsigned row, unsigned column) { return std::abs(a.value(row, column) + b.value(row, column)); });
}

TEST(CompiledBundles, ScratchpadsHandPartsFromOneOperationToTheNext) {
  BundleBuilder builder(3);
  const std::map<std::string, std::uint32_t> slices{{"mb", 4}, {"out", 2}};
  builder.add(add({tensor("arg_0"), tensor("arg_1"), scratchpad(4096)}, slices));
  builder.add(add({scratchpad(4096), tensor("arg_1"), tensor("arg_2")}, slices));
  Matrix a = random_matrix(64, 128, 1), b = random_matrix(64, 128, 2), c(64, 128);
  run(builder, {&a, &b, &c});
  expect_each(c, [&](unsigned r, unsigned k) { return a.value(r, k) + b.value(r, k) + b.value(r, k); });
}

TEST(CompiledBundles, AConversionMayStayWhereItIsInScratchpads) {
  for (const auto& slices : {std::map<std::string, std::uint32_t>{}, {{"mb", 4}}, {{"mb", 2}, {"out", 2}}}) {
    BundleBuilder builder(3);
    BundleTensor wide = scratchpad(4096);
    wide.format = "IEEE_FP32";
    const auto convert = [&](const char* op, const BundleTensor& from, const BundleTensor& to) {
      builder.add({.op = op, .extents = {{"mb", 64}, {"out", 128}}, .tensors = {from, to}, .slices = slices});
    };
    builder.add(add({tensor("arg_0"), tensor("arg_1"), scratchpad(4096)}, slices));
    convert("dl16tofp32", scratchpad(4096), wide);
    convert("fp32todl16", wide, scratchpad(4096));
    builder.add(add({scratchpad(4096), tensor("arg_1"), tensor("arg_2")}, slices));
    Matrix a = random_matrix(64, 128, 1), b = random_matrix(64, 128, 2), c(64, 128);
    run(builder, {&a, &b, &c});
    expect_each(c, [&](unsigned r, unsigned k) { return a.value(r, k) + b.value(r, k) + b.value(r, k); });
  }
}

TEST(CompiledBundles, AResultOverAnInputThatIsNotElementByElementGoesThroughATemporary) {
  BundleBuilder builder(1, std::uint64_t{64} * 128);
  BundleTensor maximum = tensor("arg_0");
  maximum.scale = {{"out", -2}};
  builder.add({.op = "max", .extents = {{"mb", 64}, {"out", 64}}, .tensors = {tensor("arg_0"), maximum}});
  Matrix a = random_matrix(64, 64, 1);
  std::vector<std::uint16_t> expected;
  for (unsigned r = 0; r < 64; ++r) {
    float most = -INFINITY;
    for (unsigned c = 0; c < 64; ++c) most = std::max(most, a.value(r, c));
    expected.push_back(wire::dl16_from_fp32(most));
  }
  run(builder, {&a});
  for (unsigned r = 0; r < 64; ++r) EXPECT_EQ(a.at(r, 0), expected[r]) << r;
}

// Places of the pool that the operation's operands reach, as [first, second).
std::vector<std::pair<std::uint64_t, std::uint64_t>> places_in_pool(const wire::program::Operation& operation) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (unsigned i = 0; i < operation.operand_count; ++i) {
    const auto& operand = operation.operand[i];
    if (operand.base != wire::program::Base::Pool) continue;
    std::uint64_t end = operand.offset + 128;
    for (unsigned d = 0; d < operation.rank; ++d) {
      const std::uint32_t lanes = wire::program::lanes_of(operand.format);
      const std::uint32_t per = d == operand.stick_dim ? lanes : 1;
      if ((operand.present >> d & 1) != 0) end += operand.stride[d] * ((operation.extent[d] + per - 1) / per - 1);
    }
    places.emplace_back(operand.offset, end);
  }
  return places;
}

// In the pool, where the front end lays results over inputs: a maximum, a conversion, a sum of shifted rows.
TEST(CompiledBundles, ResultsOverInputsInThePoolGoThroughMemoryBehindIt) {
  constexpr std::uint64_t kPool = 8192;
  BundleTensor maximum = tensor("pool"), narrow = tensor("pool"), shifted = tensor("pool");
  maximum.scale = {{"out", -2}};
  narrow.format = "SEN143_FP8";
  shifted.offset = 128;
  const std::vector<std::pair<std::string, std::uint32_t>> stick{{"mb", 32}, {"out", 64}},
      pair{{"mb", 16}, {"out", 128}};
  const test::BundleOperation operations[] = {
      {.op = "max", .extents = stick, .tensors = {tensor("pool"), maximum}},
      {.op = "fp8todl16", .extents = pair, .tensors = {narrow, tensor("pool")}},
      {.op = "qfp8ch", .extents = pair, .tensors = {tensor("pool"), narrow}},
      {.op = "add", .extents = stick, .tensors = {tensor("pool"), tensor("pool"), shifted}},
      {.op = "identity", .extents = stick, .tensors = {tensor("pool"), shifted}},
      {.op = "ReStickifyOpHBM",
       .extents = {{"mb", 64}, {"out", 64}},
       .tensors = {tensor("pool"), {.order = {"out", "mb"}, .stick = "mb", .base = "pool"}}}};
  for (const test::BundleOperation& operation : operations) {
    SCOPED_TRACE(operation.op);
    BundleBuilder builder(1, kPool);
    builder.add(operation);
    // Without the pass, which drops a copy that nobody reads. The checker has taken the program.
    const auto program = compile(read_bundle([&](const std::string& name) { return builder.read(name); }),
                                 {.lengths = {}, .passes = {.forward_copies = false}});
    ASSERT_EQ(program.header().operation_count, 2u);
    EXPECT_EQ(program.operation(1).opcode, wire::program::Opcode::Copy);
    const auto first = places_in_pool(program.operation(0)), second = places_in_pool(program.operation(1));
    EXPECT_GE(first.back().first, kPool);
    EXPECT_EQ(second.front(), first.back());
    EXPECT_EQ(second.back().first, operation.tensors.back().offset == 0 ? 0u : 128u);
    EXPECT_GE(program.header().pool_bytes, first.back().second);
  }
}

TEST(CompiledBundles, FunctionsHaveTheirTablesOnTheCardAndNotInTheProgram) {
  for (const char* function : {"exp", "tanh", "reciprocal"}) {
    BundleBuilder builder(2);
    builder.add({.op = function, .extents = {{"mb", 32}, {"out", 64}}, .tensors = {tensor("arg_0"), tensor("arg_1")}});
    const auto program = compiled(builder);
    EXPECT_TRUE(program.uses_tables()) << function;
    EXPECT_LT(program.bytes().size(), std::size_t{4096}) << function;
  }
}

TEST(CompiledBundles, ResultsOverInputsInThePoolElementByElementStayThere) {
  BundleBuilder builder(1, 8192);
  builder.add({.op = "exp", .extents = {{"mb", 32}, {"out", 64}}, .tensors = {tensor("pool"), tensor("pool")}});
  builder.add({.op = "add",
               .extents = {{"mb", 32}, {"out", 64}},
               .tensors = {tensor("pool"), tensor("arg_0"), tensor("pool")}});
  const auto program = compiled(builder);
  EXPECT_EQ(program.header().operation_count, 2u);
  EXPECT_EQ(program.header().pool_bytes, 8192u);
}

// The last result of a pool may end behind it: a conversion writes whole pairs of sticks.
TEST(CompiledBundles, ThePoolHasWhatIsDeclaredAndWhatIsReached) {
  const auto pool_bytes = [](std::uint64_t declared, std::int64_t offset) {
    BundleBuilder builder(2, declared);
    BundleTensor in_pool = tensor("pool");
    in_pool.offset = offset;
    builder.add({.op = "abs", .extents = {{"mb", 4}, {"out", 128}}, .tensors = {tensor("arg_0"), in_pool}});
    builder.add({.op = "abs", .extents = {{"mb", 4}, {"out", 128}}, .tensors = {in_pool, tensor("arg_1")}});
    return compiled(builder).header().pool_bytes;
  };
  EXPECT_EQ(pool_bytes(512, 0), 1024u);
  EXPECT_EQ(pool_bytes(896, 0), 1024u);
  EXPECT_EQ(pool_bytes(1024, 0), 1024u);
  EXPECT_EQ(pool_bytes(4096, 0), 4096u);
  EXPECT_EQ(pool_bytes(640, 512), 1536u);
  EXPECT_EQ(pool_bytes(1000, 0), 1024u);
}

TEST(CompiledBundles, AGatherTakesRowsByIndex) {
  BundleBuilder builder(3);
  BundleTensor index{.order = {"mb"}, .stick = "mb", .base = "arg_0", .format = "SENUINT32", .index = true};
  BundleTensor value = tensor("arg_1");
  value.order = {"out", "mb"};
  value.indirect = true;
  builder.add({.op = "identity", .extents = {{"mb", 32}, {"out", 128}}, .tensors = {index, value, tensor("arg_2")}});
  const auto program = compiled(builder);
  EXPECT_EQ(program.operation(0).opcode, wire::program::Opcode::Gather);
  EXPECT_EQ(program.operation(0).page, 256u);
}

// As out.scatter_(0, index, source) writes it.
TEST(CompiledBundles, AnIndexThatChangesInsideAStickIsRefused) {
  for (const bool scatters : {true, false}) {
    BundleBuilder builder(3);
    BundleTensor index = tensor("arg_0");
    index.format = "SENUINT32";
    index.index = true;
    BundleTensor value = tensor(scatters ? "arg_2" : "arg_1");
    value.indirect = true;
    const BundleTensor other = tensor(scatters ? "arg_1" : "arg_2");
    builder.add({.op = "identity",
                 .extents = {{"mb", 32}, {"out", 128}},
                 .tensors = {index, scatters ? other : value, scatters ? value : other}});
    EXPECT_EQ(refusal_of(builder),
              "sdsc_0.json: 0_identity.dscs_[0].identity.scheduleTree_[0]: Tensor0 has an index for each element along "
              "out, and what moves are whole sticks of it")
        << scatters;
  }
}

// What is copied is not an element, but a pair of numbers.
TEST(CompiledBundles, ACopyOfWhatExx2LeavesInAStickIsThePair) {
  BundleBuilder builder(3);
  const auto alone = [](BundleTensor result) {
    result.scale = {{"out", -2}};
    return result;
  };
  const std::vector<std::pair<std::string, std::uint32_t>> extents{{"mb", 64}, {"out", 64}};
  const std::map<std::string, std::uint32_t> slices{{"mb", 4}};
  builder.add({.op = "exx2",
               .extents = extents,
               .tensors = {tensor("arg_0"), alone(tensor("arg_1"))},
               .constants = {{"exx2scale", wire::dl16_from_fp32(1.0F / 64)}}});
  builder.add({.op = "identity",
               .extents = extents,
               .tensors = {alone(tensor("arg_1")), alone(scratchpad(4096))},
               .slices = slices});
  builder.add({.op = "layernormscale",
               .extents = extents,
               .tensors = {alone(scratchpad(4096)), tensor("arg_2")},
               .slices = slices,
               .constants = {{"eps", wire::dl16_from_fp32(0.5F)}}});
  Matrix x = random_matrix(64, 64, 1), pairs(64, 1), y(64, 64);
  run(builder, {&x, &pairs, &y});
  expect_each(y, [&](unsigned row, unsigned) {
    double sum = 0, squares = 0;
    for (unsigned c = 0; c < 64; ++c) {
      sum += x.value(row, c);
      squares += x.value(row, c) * x.value(row, c);
    }
    return static_cast<float>(1 / std::sqrt(squares / 64 - sum * sum / 4096 + 0.5));
  });
}

// An image [height, width] of channels in sticks, row by row, of which windows are taken.
struct Windows {
  unsigned height, width;  // of the image
  unsigned down, across;   // windows
  unsigned taps_down, taps_across;
  unsigned stride, dilation = 1;

  std::pair<unsigned, unsigned> pixel(unsigned i, unsigned j, unsigned ki, unsigned kj) const {
    return {i * stride + ki * dilation, j * stride + kj * dilation};
  }
  test::BundleOperation operation(const char* op, unsigned channels) const {
    const unsigned reached_down = (down - 1) * stride + (taps_down - 1) * dilation + 1;
    return {.op = op,
            .extents = {{"i", down}, {"j", across}, {"ki", taps_down}, {"kj", taps_across}, {"out", channels}},
            .windows = {{"i", {.taps = "ki", .elements = reached_down, .stride = stride, .dilation = dilation}},
                        {"j", {.taps = "kj", .elements = width, .stride = stride, .dilation = dilation}}}};
  }
};

// Row and column as one row of a Matrix.
BundleTensor image(const std::string& base, const std::string& channels = "out") {
  return {.order = {"j", "i", channels}, .stick = channels, .base = base};
}
BundleTensor windowed(BundleTensor tensor) {
  tensor.windowed = {"i", "j"};
  return tensor;
}

TEST(CompiledBundles, AnAveragePoolIsTheMeanOfEachWindow) {
  struct Case {
    unsigned width;  // windows reach over 7 columns
    std::int64_t gap;
    bool divided;
  };
  // A gap in strides, one in elements, none, and one that is of another dimension.
  for (const auto& [width, gap, divided] :
       {Case{8, 1, false}, {8, 1, true}, {7, 4, false}, {7, 0, true}, {7, 6, false}}) {
    const Windows w{.height = 9, .width = width, .down = 4, .across = 3, .taps_down = 2, .taps_across = 3, .stride = 2};
    BundleBuilder builder(2);
    test::BundleOperation operation = w.operation("avgpoolfwd", 64);
    operation.constants = {{"nmap", wire::dl16_from_fp32(0.125F)}};
    operation.tensors = {windowed(image("arg_0")), image("arg_1")};
    operation.windows["j"].elements = 7;
    if (gap != 0) operation.tensors[0].gap = {{"j", gap}};
    if (divided) operation.slices = {{"i", 2}};
    builder.add(operation);
    Matrix x = random_matrix(9 * width, 64, 1), y(4 * 3, 64);
    run(builder, {&x, &y});
    expect_each(y, [&](unsigned row, unsigned column) {
      float sum = 0;
      for (unsigned tap = 0; tap < 6; ++tap) {
        const auto [down, across] = w.pixel(row / 3, row % 3, tap / 3, tap % 3);
        sum += x.value(down * w.width + across, column);
      }
      return sum / 8;
    });
  }
}

TEST(CompiledBundles, AConvolutionSumsOverTapsAndChannels) {
  const Windows w{
      .height = 6, .width = 7, .down = 4, .across = 3, .taps_down = 2, .taps_across = 3, .stride = 1, .dilation = 2};
  Matrix x = random_matrix(6 * 7, 64, 1), weights = random_matrix(2 * 3 * 64, 64, 2), y(4 * 3, 64);
  const auto check = [&](const std::vector<std::string>& order, std::size_t operations) {
    BundleBuilder builder(3);
    test::BundleOperation operation = w.operation("conv2d", 64);
    operation.extents.emplace_back("in", 64);
    operation.tensors = {
        windowed(image("arg_0", "in")), {.order = order, .stick = "out", .base = "arg_1"}, image("arg_2")};
    operation.slices = {{"i", 2}, {"in", 1}};
    builder.add(operation);
    EXPECT_EQ(compiled(builder).header().operation_count, operations);
    run(builder, {&x, &weights, &y});
    const bool by_columns = order[1] == "ki";
    expect_each(y, [&](unsigned row, unsigned column) {
      float sum = 0;
      for (unsigned tap = 0; tap < 6; ++tap) {
        const auto [down, across] = w.pixel(row / 3, row % 3, tap / 3, tap % 3);
        const unsigned place = by_columns ? tap % 3 * 2 + tap / 3 : tap;
        for (unsigned c = 0; c < 64; ++c) sum += x.value(down * 7 + across, c) * weights.value(place * 64 + c, column);
      }
      return sum;
    });
  };
  check({"in", "kj", "ki", "out"}, 2);  // the weight is a matrix already
  check({"in", "ki", "kj", "out"}, 3);
}

TEST(CompiledBundles, ADepthwiseConvolutionSumsOverTapsPartByPart) {
  const Windows w{.height = 44, .width = 46, .down = 42, .across = 44, .taps_down = 3, .taps_across = 3, .stride = 1};
  BundleBuilder builder(3);
  test::BundleOperation operation = w.operation("depthwiseconv2dnative", 64);
  operation.tensors = {
      windowed(image("arg_0")), {.order = {"ki", "kj", "out"}, .stick = "out", .base = "arg_1"}, image("arg_2")};
  builder.add(operation);
  const auto program = compiled(builder);
  std::size_t sums = 0;
  for (std::uint32_t i = 0; i < program.header().operation_count; ++i) {
    sums += program.operation(i).opcode == wire::program::Opcode::Sum ? 1 : 0;
  }
  EXPECT_EQ(sums, 2u) << "the products are made for a part of the rows or columns at a time";
  Matrix x = random_matrix(44 * 46, 64, 1), weights = random_matrix(9, 64, 2), y(42 * 44, 64);
  run(builder, {&x, &weights, &y});
  expect_each(y, [&](unsigned row, unsigned column) {
    float sum = 0;
    for (unsigned ki = 0; ki < 3; ++ki) {
      for (unsigned kj = 0; kj < 3; ++kj) {
        const auto [down, across] = w.pixel(row / 44, row % 44, ki, kj);
        sum += x.value(down * 46 + across, column) * weights.value(kj * 3 + ki, column);
      }
    }
    return sum;
  });
}

TEST(CompiledBundles, WindowsThatCannotBeMadeAreNamed) {
  const Windows w{.height = 6, .width = 6, .down = 4, .across = 4, .taps_down = 3, .taps_across = 3, .stride = 1};
  const auto refusal = [&](const std::function<void(test::BundleOperation&)>& change) {
    BundleBuilder builder(3);
    test::BundleOperation operation = w.operation("depthwiseconv2dnative", 64);
    operation.tensors = {
        windowed(image("arg_0")), {.order = {"ki", "kj", "out"}, .stick = "out", .base = "arg_1"}, image("arg_2")};
    change(operation);
    builder.add(operation);
    const std::string text = refusal_of(builder);
    const std::size_t file = text.find(".json: ");
    return file == std::string::npos ? text : text.substr(file + 7);
  };
  EXPECT_EQ(refusal([](auto&) {}), "accepted");
  EXPECT_EQ(refusal([](auto& o) { o.slices = {{"ki", 3}}; }),
            "0_depthwiseconv2dnative divides the taps of a window, ki, among cores");
  EXPECT_EQ(refusal([](auto& o) { o.tensors[0].base = "", o.slices = {{"i", 2}}; }),
            "0_depthwiseconv2dnative has windows along i, and its input is divided there among scratchpads");
  EXPECT_EQ(refusal([](auto& o) { o.tensors[0].windowed = {"i"}; }),
            "0_depthwiseconv2dnative is an operation over windows, and its input is not read through each of them");
  EXPECT_EQ(refusal([](auto& o) { o.tensors[2].windowed = {"i"}; }),
            "0_depthwiseconv2dnative.dscs_[0].depthwiseconv2dnative.scheduleTree_[2]: is read through windows");
  EXPECT_EQ(refusal([](auto& o) { o.tensors[1].order = {"ki", "out"}; }),
            "0_depthwiseconv2dnative has a window whose taps the weight does not have");
  EXPECT_EQ(refusal([](auto& o) { o.tensors.erase(o.tensors.begin() + 1); }),
            "0_depthwiseconv2dnative depthwiseconv2dnative has 1 inputs, not 2");
  EXPECT_EQ(
      refusal([](auto& o) {
        o.tensors[0].order = {"j", "out", "i"};
        o.tensors[0].gap = {{"out", 64}};
      }),
      "0_depthwiseconv2dnative.dscs_[0].depthwiseconv2dnative.scheduleTree_[0]: has a gap in dimension out, behind "
      "one that is read through windows: it cannot be told what it counts");
  EXPECT_EQ(refusal([](auto& o) { o.op = "add"; }), "0_add has windows, and is no operation over windows");
  EXPECT_TRUE(refusal([](auto& o) {
                o.op = "conv2d";
                o.extents.emplace_back("in", 48);
                o.tensors[0].order = {"j", "i", "in"};
                o.tensors[0].stick = "in";
                o.tensors[1].order = {"in", "ki", "kj", "out"};
              }).ends_with("contracts channels that are no whole sticks of its input"));
}

TEST(CompiledBundles, WhatCannotBeMadeIsNamedByLineAndFile) {
  BundleBuilder wrong(3);
  wrong.add(add({tensor("arg_0"), tensor("arg_1"), tensor("arg_2")}, {{"mb", 2}}));
  wrong.file(0)["0_add"]["dscs_"][0]["add"]["scheduleTree_"][0]["layoutDimOrder_"] = {"out", "mb"};
  EXPECT_EQ(refusal_of(wrong),
            "bundle.mlir:14: sdsc_0.json: 0_add Tensor0 of core 1 is given argument 0 + 4096, and the layout says "
            "argument 0 + 8192");
  BundleBuilder masked(3);
  auto operation = add({tensor("arg_0"), tensor("arg_1"), tensor("arg_2")});
  operation.masks = {{"out", {100, 28}}};
  masked.add(operation);
  EXPECT_TRUE(refusal_of(masked).ends_with("has a mask, and only reductions and exp know what it means"));
  BundleBuilder kept(2);
  kept.add({.op = "sum",
            .extents = {{"mb", 64}, {"out", 128}},
            .tensors = {tensor("arg_0"), tensor("arg_1")},
            .masks = {{"out", {100, 28}}}});
  EXPECT_TRUE(refusal_of(kept).ends_with("has a mask on dimension out, which it does not reduce"));
  BundleBuilder product(3);
  product.add({.op = "batchmatmul",
               .extents = {{"mb", 32}, {"in", 64}, {"out", 64}},
               .tensors = {{.order = {"mb", "in"}, .stick = "in", .base = "arg_0"},
                           {.order = {"in", "out"}, .stick = "out", .base = "arg_1"},
                           tensor("arg_2")},
               .masks = {{"in", {60, 4}}}});
  EXPECT_TRUE(refusal_of(product).ends_with("has a mask, and only reductions and exp know what it means"));
  BundleBuilder many(121);
  many.add(add({tensor("arg_0"), tensor("arg_1"), tensor("arg_120")}));
  EXPECT_EQ(refusal_of(many), "bundle.mlir: 121 tensors, and a launch takes at most 120");
  BundleBuilder inputs(3);
  inputs.add(add({tensor("arg_0"), tensor("arg_2")}));
  EXPECT_TRUE(refusal_of(inputs).ends_with("add has 1 inputs, not 2"));
  BundleBuilder unbound(3);
  unbound.add(add({tensor("arg_0"), tensor("arg_1"), tensor("arg_2")}));
  auto& start = unbound.file(0)["0_add"]["dscs_"][0]["add"]["scheduleTree_"][1]["startAddressCoreCorelet_"]["data_"];
  start["[0, 0, 0]"] = "-77";
  EXPECT_TRUE(refusal_of(unbound).ends_with("symbol id -77 of Tensor1 (sdsc_0.json) is given no value"));
}

}  // namespace
