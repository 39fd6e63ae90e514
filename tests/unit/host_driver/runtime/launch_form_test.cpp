// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/launch_form.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

Job matmul(std::int64_t rows, const std::shared_ptr<const Kernel>& kernel = test::matmul_kernel()) {
  return Job(CompiledKernel(kernel, {{"M", rows}, {"K", 512}, {"N", 256}}));
}

std::vector<Argument> operands(std::int64_t rows) {
  return {{.shape = {rows, 512}}, {.shape = {512, 256}}, {.shape = {rows, 256}}};
}

// Everything here is of one thread, and threads remember each for themselves.
class LaunchFormTest : public ::testing::Test {
 protected:
  std::shared_ptr<const LaunchForm> remember(std::int64_t rows) {
    auto form = std::make_shared<LaunchForm>();
    const auto given = operands(rows);
    for (const Argument& argument : given) form->shape.push_back(argument.shape);
    return remember_form(form, job_, given, true);
  }
  bool knows(std::int64_t rows) { return remembered_form(job_, operands(rows), true) != nullptr; }

  Job job_ = matmul(1024);
};

TEST_F(LaunchFormTest, TheSameLaunchFindsIt) {
  const auto form = remember(1024);
  EXPECT_EQ(remembered_form(job_, operands(1024), true), form);
}

TEST_F(LaunchFormTest, WhateverDiffersDoesNotFindIt) {
  remember(1024);
  EXPECT_FALSE(knows(2048)) << "other shapes";
  EXPECT_EQ(remembered_form(job_, operands(1024), false), nullptr) << "tiles not allowed";
  EXPECT_EQ(remembered_form(matmul(512, job_.binary()), operands(1024), true), nullptr) << "compiled for another tile";
  EXPECT_EQ(remembered_form(matmul(1024), operands(1024), true), nullptr) << "another kernel of the same name";
  auto other = operands(1024);
  other[1].dtype = DeviceType::Fp32;
  EXPECT_EQ(remembered_form(job_, other, true), nullptr) << "another type";
  other = operands(1024);
  other[0].stride = {{128, 0}};
  EXPECT_EQ(remembered_form(job_, other, true), nullptr) << "a view";
}

TEST_F(LaunchFormTest, PlaceAndOffsetAreNotOfIt) {
  const auto form = remember(1024);
  auto moved = operands(1024);
  moved[2].offset = 4096;
  EXPECT_EQ(remembered_form(job_, moved, true), form);
}

TEST_F(LaunchFormTest, OfManyTheOnesUsedLastAreKept) {
  for (std::int64_t rows = 1; rows <= 8; ++rows) remember(rows);
  for (std::int64_t rows = 1; rows <= 8; ++rows) EXPECT_TRUE(knows(rows)) << rows;
  remember(9);
  EXPECT_TRUE(knows(9));
  unsigned known = 0;
  for (std::int64_t rows = 1; rows <= 8; ++rows) known += knows(rows) ? 1 : 0;
  EXPECT_EQ(known, 7U) << "one was forgotten";
}

TEST_F(LaunchFormTest, AnotherThreadRemembersForItself) {
  remember(1024);
  bool known = true;
  {
    const std::jthread other([&] { known = knows(1024); });  // bounded: it looks once
  }
  EXPECT_FALSE(known);
}

}  // namespace
}  // namespace svp
