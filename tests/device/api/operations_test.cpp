// SPDX-License-Identifier: Apache-2.0
// spyre::ops as a program of the library has it, on a booted card.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
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
};

TEST_F(ApiOperations, TheSumOfASoftmaxIsOne) {
  const SpyreTensor x = tensor({2, 3}, {1, 2, 3, -1, 0, 5});
  const SpyreTensor y = ops::softmax(context(), x);
  EXPECT_EQ(y.shape(), (std::vector<std::int64_t>{2, 3}));
  for (const float sum : back(ops::sum(context(), y, {1}))) EXPECT_NEAR(sum, 1, 0.004);
}

TEST_F(ApiOperations, NumbersViewsAndComparisonsWork) {
  const SpyreTensor x = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(back(ops::mul(context(), x.transpose(0, 1), 2.0)), (std::vector<float>{2, 8, 4, 10, 6, 12}));
  const SpyreTensor large = ops::greater(context(), x, tensor({1}, {3}));
  EXPECT_EQ(large.data_type(), DataType::Bool);
  EXPECT_EQ(back(ops::where(context(), large, x, ops::neg(context(), x))), (std::vector<float>{-1, -2, -3, 4, 5, 6}));
  const ops::TopK top = ops::topk(context(), x, 2);
  EXPECT_EQ(back(top.values), (std::vector<float>{3, 2, 6, 5}));
  EXPECT_EQ(back(top.indices), (std::vector<float>{2, 1, 2, 1}));
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
