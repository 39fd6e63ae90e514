// SPDX-License-Identifier: Apache-2.0
// spyre::ops as a program of the library has it, on a booted card.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <spyre/spyre.hpp>
#include <string>
#include <vector>

#include "tests/device/api/api_card.hpp"

namespace {

using spyre::DataType;
using spyre::SpyreTensor;
namespace ops = spyre::ops;

class ApiOperations : public ApiCard {
 protected:
  static SpyreTensor tensor(const std::vector<std::int64_t>& size, const std::vector<float>& values) {
    const SpyreTensor made = context().empty(DataType::Float16, size);
    context().copy(made, {spyre::HostShape::contiguous(DataType::Float32, size), std::as_bytes(std::span(values))});
    return made;
  }
  static std::vector<float> back(const SpyreTensor& from) {
    const spyre::HostShape shape = spyre::HostShape::contiguous(DataType::Float32, from.shape());
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    context().to_host(from, {shape, std::as_writable_bytes(std::span(values))});
    return values;
  }
  static std::vector<std::int64_t> integers(const SpyreTensor& from) {
    const spyre::HostShape shape = spyre::HostShape::contiguous(DataType::Int64, from.shape());
    std::vector<std::int64_t> values(static_cast<std::size_t>(shape.element_count()));
    context().to_host(from, {shape, std::as_writable_bytes(std::span(values))});
    return values;
  }
};

TEST_F(ApiOperations, TheSumOfASoftmaxIsOne) {
  // Of equal numbers every part is the same, and of a power of two of them DL16 has it.
  const float hidden = -std::numeric_limits<float>::infinity();
  const SpyreTensor x = tensor({2, 4}, {3, 3, 3, 3, -1, hidden, hidden, -1});
  const SpyreTensor y = ops::softmax(context(), x);
  EXPECT_EQ(y.shape(), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(back(y), (std::vector<float>{0.25, 0.25, 0.25, 0.25, 0.5, 0, 0, 0.5}));
  EXPECT_EQ(back(ops::sum(context(), y, {1})), (std::vector<float>{1, 1}));
}

TEST_F(ApiOperations, NumbersViewsAndComparisonsWork) {
  const SpyreTensor x = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(back(ops::mul(context(), x.transpose(0, 1), 2.0)), (std::vector<float>{2, 8, 4, 10, 6, 12}));
  const SpyreTensor large = ops::greater(context(), x, tensor({1}, {3}));
  EXPECT_EQ(large.data_type(), DataType::Bool);
  EXPECT_EQ(back(ops::where(context(), large, x, ops::neg(context(), x))), (std::vector<float>{-1, -2, -3, 4, 5, 6}));
  const ops::TopK top = ops::topk(context(), x, 2);
  EXPECT_EQ(back(top.values), (std::vector<float>{3, 2, 6, 5}));
  EXPECT_EQ(integers(top.indices), (std::vector<std::int64_t>{2, 1, 2, 1}));
}

// A DL16 number holds positions up to 1024.
TEST_F(ApiOperations, PositionsOfTheLargestAreExactAndLeadIntoTables) {
  std::vector<float> values(1100, 0);
  values[1099] = 2;
  values[1025] = 1;
  const SpyreTensor x = tensor({1100}, values);
  const ops::TopK top = ops::topk(context(), x, 2);
  EXPECT_EQ(top.indices.data_type(), DataType::Int64);
  EXPECT_EQ(integers(top.indices), (std::vector<std::int64_t>{1099, 1025}));
  EXPECT_EQ(ops::topk(context(), x, 1, 0, {}, ops::TopKIndices::Int32).indices.data_type(), DataType::Int32);
  std::vector<float> rows(1100 * 64);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i / 64 % 512);
  const std::vector<float> found = back(ops::embedding(context(), tensor({1100, 64}, rows), top.indices));
  EXPECT_EQ(found[0], 1099 % 512);
  EXPECT_EQ(found[64], 1025 % 512);
  try {
    (void)ops::topk(context(), x, 2, 0, {}, ops::TopKIndices::OfTensor);
    ADD_FAILURE() << "position 1099 as a DL16 number";
  } catch (const spyre::InvalidArgument& error) {
    EXPECT_EQ(error.field(), "dtype");
    EXPECT_TRUE(error.info().message.contains("positions up to 1099")) << error.info().message;
    EXPECT_EQ(error.info().next_step, "ask for int64 or int32 indices");
  }
}

// The lower half of this index is 1.
TEST_F(ApiOperations, AnIndexBeyondInt32IsOutside) {
  const std::vector<std::int64_t> rows{0, (std::int64_t{1} << 32) + 1};
  const SpyreTensor index =
      context().to_device({spyre::HostShape::contiguous(DataType::Int64, {2}), std::as_bytes(std::span(rows))});
  spyre::SpyreStream stream = context().stream();
  context().default_stream().Synchronize(soon());
  (void)ops::embedding(context(), tensor({4, 64}, std::vector<float>(256, 1)), index, {.stream = stream, .out = {}});
  EXPECT_THROW(stream.Synchronize(soon()), spyre::Error);
  stream.Reset();
}

TEST_F(ApiOperations, TensorsWithoutDimensionsAreTensors) {
  const SpyreTensor x = tensor({3}, {1, 2, 3});
  const SpyreTensor m = ops::mean(context(), x);
  EXPECT_EQ(m.shape(), std::vector<std::int64_t>{});
  EXPECT_EQ(back(ops::mul(context(), m, 2.0)), std::vector<float>{4});
  EXPECT_EQ(back(ops::sum(context(), m, {-1})), std::vector<float>{2});
  EXPECT_EQ(back(ops::add(context(), ops::exp(context(), ops::sub(context(), m, m)), m)), std::vector<float>{3});
  EXPECT_EQ(back(ops::copy(context(), m)), std::vector<float>{2});
  EXPECT_EQ(back(ops::softmax(context(), m, 0)), std::vector<float>{1});
  EXPECT_EQ(integers(ops::topk(context(), m, 1).indices), std::vector<std::int64_t>{0});
  EXPECT_EQ(back(ops::topk(context(), m, 0).values), std::vector<float>{2});  // as PyTorch
  EXPECT_THROW((void)ops::sum(context(), m, {1}), spyre::InvalidArgument);
}

TEST_F(ApiOperations, BoolTensorsAreCountedAndPromoted) {
  const SpyreTensor mask = ops::greater(context(), tensor({700}, std::vector<float>(700, 1)), tensor({1}, {0}));
  const SpyreTensor count = ops::sum(context(), mask);
  EXPECT_EQ(count.data_type(), DataType::Int64);
  EXPECT_EQ(integers(count), std::vector<std::int64_t>{700});
  const SpyreTensor both = ops::add(context(), mask, mask);
  EXPECT_EQ(both.data_type(), DataType::Bool);
  EXPECT_EQ(integers(ops::sum(context(), both)), std::vector<std::int64_t>{700});
  EXPECT_EQ(ops::add(context(), mask, 0.5).data_type(), DataType::Float32);
  EXPECT_EQ(back(ops::add(context(), mask, 0.5))[699], 1.5F);
  EXPECT_THROW((void)ops::sub(context(), mask, mask), spyre::InvalidArgument);
  EXPECT_THROW((void)ops::mean(context(), mask), spyre::InvalidArgument);
}

TEST_F(ApiOperations, NumbersThatDl16HasNotAreComputedWith) {
  const SpyreTensor x = tensor({3}, {-2, 0, 5});
  EXPECT_EQ(back(ops::clip(context(), x, 0, INFINITY)), (std::vector<float>{0, 0, 5}));
  EXPECT_EQ(back(ops::mul(context(), tensor({1}, {0x1p-20F}), 0x1p34)), std::vector<float>{0x1p14F});
}

TEST_F(ApiOperations, WindowsArePooledAndConvolved) {
  const SpyreTensor x = tensor({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(back(ops::max_pool2d(context(), x, 2, {.stride = 1})), (std::vector<float>{5, 6, 8, 9}));
  EXPECT_EQ(back(ops::max_pool2d(context(), x, {1, 3}, {.padding = {0, 1}, .dilation = {1, 2}})).size(), 3U);
  EXPECT_EQ(back(ops::avg_pool2d(context(), x, 2)), (std::vector<float>{3}));
  EXPECT_EQ(back(ops::avg_pool2d(context(), x, 2, {.padding = 1, .count_include_pad = false})),
            (std::vector<float>{1, 2.5F, 5.5F, 7}));
  EXPECT_EQ(back(ops::avg_pool2d(context(), x, 3, {.divisor_override = 5})), (std::vector<float>{9}));
  const SpyreTensor weight = tensor({1, 1, 2, 2}, {1, 0, 0, 1});
  EXPECT_EQ(back(ops::conv2d(context(), x, weight)), (std::vector<float>{6, 8, 12, 14}));
  const SpyreTensor y = ops::conv2d(context(), x, weight, tensor({1}, {0.5F}), {.stride = 2, .padding = 1});
  EXPECT_EQ(y.shape(), (std::vector<std::int64_t>{1, 1, 2, 2}));
  EXPECT_EQ(back(y), (std::vector<float>{1.5F, 3.5F, 7.5F, 14.5F}));
  EXPECT_THROW((void)ops::conv2d(context(), x, weight, {.groups = 2}), spyre::InvalidArgument);
}

std::string field_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const spyre::CopyNeeded& error) {
    return "copy: " + error.field();
  } catch (const spyre::InvalidArgument& error) {
    return error.field();
  }
  return "nothing";
}

TEST_F(ApiOperations, WhatAnOperationDoesNotTakeIsRefusedByItsName) {
  const SpyreTensor x = tensor({3, 64}, std::vector<float>(192, 1));
  EXPECT_EQ(field_of([&] { (void)ops::rms_norm(context(), x, x); }), "shape");
  EXPECT_EQ(field_of([&] { (void)ops::run(context(), "add", std::array{x}, std::array{1.0, 2.0}); }), "numbers");
  EXPECT_EQ(field_of([&] { (void)ops::run(context(), "abs", std::array{x}, std::array{1.0}); }), "numbers");
  const std::int64_t two[] = {0, 1};
  EXPECT_EQ(field_of([&] { (void)ops::run(context(), "softmax", std::array{x}, {}, two); }), "integers");
  const SpyreTensor integers = context().empty(DataType::Int32, {3, 64});
  EXPECT_EQ(field_of([&] { (void)ops::add(context(), x, integers); }), "dtype");
  EXPECT_EQ(field_of([&] { (void)ops::add(context(), SpyreTensor(), x); }), "inputs");
  const SpyreTensor row = context().empty(DataType::Float16, {1, 64});
  EXPECT_EQ(field_of([&] { (void)ops::copy(context(), x, {.out = row.expand({3, 64})}); }), "out");
  const SpyreTensor wide = context().empty(DataType::Float16, {3, 200});
  EXPECT_EQ(field_of([&] { (void)ops::copy(context(), x, {.out = wide.narrow(1, 3, 65)}); }), "out");
}

TEST_F(ApiOperations, AStreamOfAnotherContextIsRefusedByItsName) {
  const SpyreTensor x = tensor({2}, {1, 2});
  const auto other = spyre::Context::open();
  EXPECT_EQ(field_of([&] { (void)ops::add(context(), x, 1.0, {.stream = other->default_stream()}); }), "stream");
}

TEST_F(ApiOperations, AnIndexOutsideIsNamedAsSuch) {
  const SpyreTensor table = tensor({10, 64}, std::vector<float>(640, 1));
  const std::vector<std::int64_t> rows{0, 10};
  const SpyreTensor index =
      context().to_device({spyre::HostShape::contiguous(DataType::Int64, {2}), std::as_bytes(std::span(rows))});
  (void)ops::embedding(context(), table, index);
  std::string text;
  try {
    context().default_stream().Synchronize(soon());
  } catch (const spyre::StreamError& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("index 10 is outside of argument 0, which has 10 rows: operation 0 (Gather), operand 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("next: give indices from 0 to 9, then reset the stream"), std::string::npos) << text;
  EXPECT_EQ(text.find("pc "), std::string::npos) << text;
  context().default_stream().Reset();
}

TEST_F(ApiOperations, TensorsWithoutElementsAreTensors) {
  const SpyreTensor none = context().empty(DataType::Float16, {0, 64});
  const SpyreTensor part = tensor({2, 64}, std::vector<float>(128, 3));
  EXPECT_EQ(ops::exp(context(), none).shape(), (std::vector<std::int64_t>{0, 64}));
  EXPECT_EQ(ops::add(context(), none, 1.0).shape(), (std::vector<std::int64_t>{0, 64}));
  EXPECT_EQ(back(ops::sum(context(), none, {0})), std::vector<float>(64, 0));
  const SpyreTensor cache = ops::cat(context(), std::array{context().empty(DataType::Float16, {0}), none, part});
  EXPECT_EQ(back(cache), std::vector<float>(128, 3));
  EXPECT_EQ(back(ops::cat(context(), std::array{part.narrow(0, 1, 0), part.narrow(0, 1, 1)})),
            std::vector<float>(64, 3));
  const SpyreTensor no_part = context().empty(DataType::Float16, {0});
  EXPECT_EQ(ops::cat(context(), std::array{no_part, no_part}, 2).shape(), std::vector<std::int64_t>{0});
  EXPECT_EQ(field_of([&] { (void)ops::cat(context(), std::array{no_part, part}, 2); }), "dim");
  const ops::TopK top = ops::topk(context(), part, 0, 0);
  EXPECT_EQ(top.values.shape(), (std::vector<std::int64_t>{0, 64}));
  EXPECT_EQ(top.indices.shape(), (std::vector<std::int64_t>{0, 64}));
  EXPECT_EQ(ops::topk(context(), none, 0, 0).indices.shape(), (std::vector<std::int64_t>{0, 64}));
  EXPECT_EQ(field_of([&] { (void)ops::topk(context(), part, -1); }), "k");
}

TEST_F(ApiOperations, CopiesInsideOfSticksAreMadeUnlessTheyAreForbidden) {
  const SpyreTensor x = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const ops::Options strict{.allow_copies = false};
  EXPECT_EQ(back(ops::cat(context(), std::array{x, x}, 1)), (std::vector<float>{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  EXPECT_EQ(field_of([&] { (void)ops::cat(context(), std::array{x, x}, 1, strict); }), "copy: inputs");
  EXPECT_EQ(back(ops::neg(context(), x.narrow(1, 1, 2))), (std::vector<float>{-2, -3, -5, -6}));
  EXPECT_EQ(field_of([&] { (void)ops::neg(context(), x.narrow(1, 1, 2), strict); }), "copy: inputs");
  EXPECT_EQ(back(ops::neg(context(), x, strict)), (std::vector<float>{-1, -2, -3, -4, -5, -6}));
  const SpyreTensor y = tensor({2, 3}, std::vector<float>(6));
  ops::Options into{.out = y.narrow(1, 1, 2)};
  (void)ops::neg(context(), x.narrow(1, 0, 2), into);
  EXPECT_EQ(back(y), (std::vector<float>{0, -1, -2, 0, -4, -5}));
  const std::vector<std::int32_t> row{1};
  const SpyreTensor index =
      context().to_device({spyre::HostShape::contiguous(DataType::Int32, {1}), std::as_bytes(std::span(row))});
  (void)ops::index_copy(context(), y.narrow(1, 1, 2), index, tensor({1, 2}, {7, 8}));
  EXPECT_EQ(back(y), (std::vector<float>{0, -1, -2, 0, 7, 8}));
  into.allow_copies = false;
  EXPECT_EQ(field_of([&] { (void)ops::neg(context(), x.narrow(1, 0, 2), into); }), "copy: out");
}

TEST_F(ApiOperations, AResultIsConvertedIntoItsMemory) {
  const SpyreTensor x = tensor({4}, {1, 2.5F, -3, 70});
  const SpyreTensor integers = context().empty(DataType::Int32, {4});
  (void)ops::copy(context(), ops::mul(context(), x, 2.0), {.out = integers});
  std::vector<std::int32_t> values(4);
  context().to_host(integers,
                    {spyre::HostShape::contiguous(DataType::Int32, {4}), std::as_writable_bytes(std::span(values))});
  EXPECT_EQ(values, (std::vector<std::int32_t>{2, 5, -6, 140}));
}

TEST_F(ApiOperations, AHeadOfTheKeysServesSeveralOfTheQueries) {
  // One query and one key: each head's result is its value.
  const SpyreTensor q = tensor({1, 4, 1, 2}, std::vector<float>(8, 1));
  const SpyreTensor k = tensor({1, 2, 1, 2}, std::vector<float>(4, 1));
  const SpyreTensor v = tensor({1, 2, 1, 2}, {1, 2, 3, 4});
  EXPECT_EQ(back(ops::attention(context(), q, k, v)), (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4}));
  // Three queries, one key: the last one sees it.
  const SpyreTensor three = tensor({1, 3, 2}, std::vector<float>(6, 1));
  const SpyreTensor key = tensor({1, 1, 2}, {1, 2});
  EXPECT_EQ(back(ops::attention(context(), three, key, key, true)), (std::vector<float>{0, 0, 0, 0, 1, 2}));
}

TEST_F(ApiOperations, EveryOperationOfTheListHasAName) {
  const std::vector<ops::Operation> list = ops::operations();
  EXPECT_GT(list.size(), 40U);
  const SpyreTensor x = tensor({2, 2}, {1, 2, 3, 4});
  EXPECT_THROW((void)ops::run(context(), "mish", std::array{x}), spyre::InvalidArgument);
  const SpyreTensor eye = tensor({2, 2}, {1, 0, 0, 1});
  EXPECT_EQ(back(ops::run(context(), "matmul", std::array{x, eye}).front()), (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(ApiOperations, OperationsAreCapturedOnceTheyHaveRun) {
  const SpyreTensor x = tensor({64}, std::vector<float>(64, 1));
  context().default_stream().Synchronize(soon());
  spyre::SpyreStream stream = context().stream();
  const ops::Options in_place{.stream = stream, .out = x, .core_mask = 0};
  ops::add(context(), x, 1.0, in_place);
  stream.BeginCapture();
  ops::add(context(), x, 1.0, in_place);
  ops::add(context(), x, 1.0, in_place);
  const spyre::PreparedLaunches two = stream.EndCapture();
  for (int i = 0; i < 5; ++i) two.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(back(x)[63], 12.0F);
}

}  // namespace
