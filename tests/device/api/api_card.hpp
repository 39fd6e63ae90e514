// SPDX-License-Identifier: Apache-2.0
// A booted card and a context on its physical function, for all tests of a program that sees the library only.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <spyre/spyre.hpp>
#include <string_view>
#include <vector>

#include "tests/bounds.hpp"

class ApiCard : public testing::Test {
 protected:
  static void SetUpTestSuite() { open({}); }
  static void TearDownTestSuite() { opened.reset(); }
  static void open(spyre::ContextOptions options) {
    options.card.emplace().virtual_functions = 1;
    opened = spyre::Context::open(options);
  }
  static spyre::Context& context() { return *opened; }
  static std::chrono::steady_clock::time_point soon() {
    return std::chrono::steady_clock::now() + test_bounds::kCompute;
  }
  static spyre::ExecutionPlan loaded(std::string_view kernel, const spyre::DimensionExtents& extents) {
    spyre::ExecutionPlan plan;
    plan.add(spyre::Job(spyre::CompiledKernel(context().kernel(kernel), extents)));
    context().load(plan);
    return plan;
  }

 private:
  static inline std::unique_ptr<spyre::Context> opened;
};

// Tensors of one value, and the kernel that adds two of them.
class ApiAddition : public ApiCard {
 protected:
  static constexpr std::int64_t kRows = 64;
  static constexpr std::int64_t kColumns = 128;

  // The copy is made on the default stream. It has ended when this returns: nothing orders it before what a test
  // launches on another stream, and a kernel's result could be overwritten by the zeros that come late.
  static spyre::SpyreTensor filled(float value, std::int64_t rows = kRows) {
    const std::vector<float> values(rows * kColumns, value);
    spyre::SpyreTensor tensor = context().to_device(
        {spyre::HostShape::contiguous(spyre::DataType::Float32, {rows, kColumns}), std::as_bytes(std::span(values))},
        spyre::DeviceType::Dl16);
    context().default_stream().Synchronize(soon());
    return tensor;
  }
  static float first_of(const spyre::SpyreTensor& tensor, std::int64_t rows = kRows) {
    std::vector<float> values(rows * kColumns);
    context().to_host(tensor, {spyre::HostShape::contiguous(spyre::DataType::Float32, {rows, kColumns}),
                               std::as_writable_bytes(std::span(values))});
    for (const float value : values) EXPECT_EQ(value, values[0]);
    return values[0];
  }
  static spyre::ExecutionPlan addition() { return loaded("add", {{"M", kRows}, {"N", kColumns}}); }
};
