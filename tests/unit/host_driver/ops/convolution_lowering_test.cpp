// SPDX-License-Identifier: Apache-2.0
// conv2d where the matrix of windows does not fit into the memory for it, and what convolutions and pools refuse.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/comparison.hpp"
#include "host_driver/ops/elements.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/program/golden/golden.hpp"

namespace svp {
namespace {

using ops::Array;
using ops::Op;
using ops::TensorForm;
using Sizes = std::vector<std::int64_t>;

constexpr std::uint64_t kMostPoolBytes = 18 << 20;  // less than all windows of these images

TensorForm images_of(Sizes size, DeviceType type = DeviceType::Dl16) {
  return TensorForm::dense(type == DeviceType::Fp32 ? DataType::Float32 : DataType::Float16, std::move(size), type);
}

// What is wrong with a convolution that the golden model executes, if anything.
std::optional<std::string> error_of(const std::vector<Sizes>& sizes, const Sizes& integers) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  std::vector<Array> arrays;
  std::vector<std::vector<std::byte>> memory;
  ops::Request request{.op = Op::Conv2d, .integers = integers};
  for (const Sizes& size : sizes) {
    request.inputs.push_back(images_of(size));
    arrays.push_back(Array::of(size));
    for (double& x : arrays.back().data) x = ops::rounded_to(DeviceType::Dl16, normal(random));
    memory.push_back(ops::device_bytes(request.inputs.back(), arrays.back()));
  }
  const ops::Lowered lowered = ops::lower(request);
  wire::program::Header header;
  std::memcpy(&header, lowered.program.data(), sizeof header);
  EXPECT_LE(header.pool_bytes, kMostPoolBytes);
  memory.emplace_back(lowered.outputs[0].layout.device_bytes());
  const std::vector<std::span<std::byte>> arguments(memory.begin(), memory.end());
  program::golden::run(lowered.program, arguments);
  const Array got = ops::elements_of(lowered.outputs[0], memory.back());
  const Array expected = ops::reference(Op::Conv2d, arrays, {}, integers)[0];
  return ops::beyond_bound(Op::Conv2d, DeviceType::Dl16, got, expected);
}

// Windows of 7 x 7 elements, a stick for each: several MiB an image.
TEST(LargeConvolution, IsMadeInTilesOfImages) {
  EXPECT_EQ(error_of({{3, 1, 38, 38}, {1, 1, 7, 7}}, {}), std::nullopt);  // two images, and one
}

TEST(LargeConvolution, IsMadeInTilesOfRows) {
  EXPECT_EQ(error_of({{1, 1, 56, 56}, {1, 1, 7, 7}, {1}}, {1, 1, 3, 3}), std::nullopt);
}

TEST(LargeConvolution, OfOneChannelInEachGroupIsMadeInTiles) {
  EXPECT_EQ(error_of({{1, 2, 56, 56}, {2, 1, 7, 7}}, {1, 1, 3, 3, 1, 1, 2}), std::nullopt);
}

std::string refused(Op op, const std::vector<TensorForm>& inputs, const Sizes& integers) {
  try {
    (void)ops::lower({.op = op, .inputs = inputs, .integers = integers});
  } catch (const InvalidArgument& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
    return error.field();
  }
  return "nothing";
}

TEST(Convolution, WhatDoesNotFitIsRefusedByItsName) {
  const TensorForm x = images_of({2, 6, 5, 5});
  const TensorForm weight = images_of({4, 6, 3, 3});
  EXPECT_EQ(refused(Op::Conv2d, {x, weight}, {}), "nothing");
  EXPECT_EQ(refused(Op::Conv2d, {x}, {}), "inputs");
  EXPECT_EQ(refused(Op::Conv2d, {x, images_of({4, 5, 3, 3})}, {}), "shape");
  EXPECT_EQ(refused(Op::Conv2d, {x, images_of({4, 6, 3})}, {}), "shape");
  EXPECT_EQ(refused(Op::Conv2d, {images_of({6, 5}), weight}, {}), "shape");
  EXPECT_EQ(refused(Op::Conv2d, {x, weight, images_of({5})}, {}), "shape");
  EXPECT_EQ(refused(Op::Conv2d, {x, images_of({4, 6, 6, 3})}, {}), "shape");  // larger than the image
  EXPECT_EQ(refused(Op::Conv2d, {x, images_of({4, 6, 6, 3})}, {1, 1, 1, 0}), "nothing");
  EXPECT_EQ(refused(Op::Conv2d, {x, weight}, {1, 1, 0, 0, 1, 1, 4}), "groups");                   // of 6 channels
  EXPECT_EQ(refused(Op::Conv2d, {x, images_of({4, 2, 3, 3})}, {1, 1, 0, 0, 1, 1, 3}), "groups");  // of 4 results
  EXPECT_EQ(refused(Op::Conv2d, {x, images_of({6, 2, 3, 3})}, {1, 1, 0, 0, 1, 1, 3}), "nothing");
  EXPECT_EQ(refused(Op::Conv2d, {images_of({2, 6, 5, 5}, DeviceType::Fp32), weight}, {}), "dtype");
}

TEST(Pool, WhatDoesNotFitIsRefusedByItsName) {
  const TensorForm x = images_of({2, 6, 5, 5});
  for (const Op op : {Op::AvgPool2d, Op::MaxPool2d}) {
    EXPECT_EQ(refused(op, {x}, {2, 2}), "nothing");
    EXPECT_EQ(refused(op, {x}, {}), "kernel_size");
    EXPECT_EQ(refused(op, {x}, {6, 2}), "shape");
    EXPECT_EQ(refused(op, {images_of({5, 5})}, {2, 2}), "shape");
    EXPECT_EQ(refused(op, {images_of({1, 2, 3, 4, 5})}, {2, 2}), "shape");
    EXPECT_EQ(refused(op, {x, x}, {2, 2}), "inputs");
    EXPECT_EQ(refused(op, {x}, {2, 2, 1, 1, 2, 0}), "padding");
  }
  // PyTorch's result is -inf, which DL16 does not have.
  EXPECT_EQ(refused(Op::MaxPool2d, {images_of({1, 1, 1, 1})}, {2, 2, 1, 1, 1, 1, 2, 2}), "padding");
}

}  // namespace
}  // namespace svp
