// SPDX-License-Identifier: Apache-2.0
// A booted card and a context on its physical function, for all tests of a program that sees the library only.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <spyre/spyre.hpp>
#include <string_view>

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
