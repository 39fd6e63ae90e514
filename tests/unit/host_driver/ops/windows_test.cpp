// SPDX-License-Identifier: Apache-2.0
// Windows of pooling and convolution: sizes, taps inside of the image, and what is refused.
#include "host_driver/ops/windows.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "host_driver/base/error.hpp"

namespace svp {
namespace {

using ops::Op;
using ops::WindowAxis;
using ops::WindowRun;

using Numbers = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
std::vector<Numbers> runs(const WindowAxis& axis, std::int64_t extent, const ops::WindowArguments& arguments) {
  std::vector<Numbers> result;
  for (const WindowRun& run : window_runs(axis, extent, arguments)) {
    result.emplace_back(run.first_window, run.windows, run.first_element, run.taps, run.counted);
  }
  return result;
}

template <typename Call>
std::string field_of(Call call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.field();
  }
  return "nothing";
}

TEST(Windows, AreAsManyAsPyTorchHas) {
  EXPECT_EQ(ops::window_count({.kernel = 3, .stride = 2, .padding = 1}, 224, false), 112);
  EXPECT_EQ(ops::window_count({.kernel = 2, .stride = 2}, 7, false), 3);
  EXPECT_EQ(ops::window_count({.kernel = 2, .stride = 2}, 7, true), 4);
  EXPECT_EQ(ops::window_count({.kernel = 3, .stride = 1, .padding = 2, .dilation = 2}, 5, false), 5);
  EXPECT_EQ(ops::window_count({.kernel = 1, .stride = 5}, 11, false), 3);
  // The window that ceil_mode adds begins in the padding behind: it is left out.
  EXPECT_EQ(ops::window_count({.kernel = 2, .stride = 3, .padding = 1}, 5, true), 2);
  EXPECT_EQ(field_of([] { (void)ops::window_count({.kernel = 4, .padding = 1}, 1, false); }), "shape");
}

TEST(Windows, AtTheBordersHaveFewerTaps) {
  const WindowAxis axis{.kernel = 3, .stride = 2, .padding = 1};
  const std::vector<Numbers> padded{{0, 1, 0, 2, 3}, {1, 2, 1, 3, 3}, {3, 1, 5, 2, 3}};
  EXPECT_EQ(runs(axis, 7, {}), padded);
  const std::vector<Numbers> without{{0, 1, 0, 2, 2}, {1, 2, 1, 3, 3}, {3, 1, 5, 2, 2}};
  EXPECT_EQ(runs(axis, 7, {.axis = {}, .count_include_pad = false}), without);
  // ceil_mode: the last window ends behind the padding, and what is there does not count.
  const std::vector<Numbers> last{{0, 3, 0, 2, 2}, {3, 1, 6, 1, 1}};
  EXPECT_EQ(runs({.kernel = 2, .stride = 2}, 7, {.axis = {}, .ceil_mode = true}), last);
  // With dilation a window may step over the image.
  EXPECT_EQ(runs({.kernel = 2, .stride = 1, .padding = 1, .dilation = 2}, 1, {}).front(), (Numbers{0, 1, 1, 0, 2}));
}

TEST(Windows, ArgumentsHaveDefaults) {
  const ops::WindowArguments pool = ops::pool_arguments(Op::AvgPool2d, {3, 2});
  EXPECT_EQ(pool.axis[0].stride, 3);
  EXPECT_EQ(pool.axis[1].stride, 2);
  EXPECT_TRUE(pool.count_include_pad);
  EXPECT_FALSE(pool.ceil_mode);
  const ops::WindowArguments convolution = ops::convolution_arguments({2}, 3, 3);
  EXPECT_EQ(convolution.axis[0].stride, 2);
  EXPECT_EQ(convolution.axis[1].stride, 1);
  EXPECT_EQ(convolution.groups, 1);
}

TEST(Windows, WhatCannotBeIsRefusedByItsName) {
  const auto pool = [](std::vector<std::int64_t> integers) {
    return field_of([&] { (void)ops::pool_arguments(Op::MaxPool2d, integers); });
  };
  EXPECT_EQ(pool({}), "kernel_size");
  EXPECT_EQ(pool({0, 1}), "kernel_size");
  EXPECT_EQ(pool({2, 2, -1, 1}), "stride");
  EXPECT_EQ(pool({2, 2, 1, 1, 2, 0}), "padding");
  EXPECT_EQ(pool({2, 2, 1, 1, 0, 0, 0, 1}), "dilation");
  EXPECT_EQ(pool({2, 2, 1, 1, 0, 0, 1, 1, 0, 0}), "integers");
  EXPECT_EQ(pool({2, 2, 1, 1, 1, 1, 2, 2, 1}), "nothing");
  const auto convolution = [](std::vector<std::int64_t> integers) {
    return field_of([&] { (void)ops::convolution_arguments(integers, 3, 3); });
  };
  EXPECT_EQ(convolution({0, 1}), "stride");
  EXPECT_EQ(convolution({1, 1, -1, 0}), "padding");
  EXPECT_EQ(convolution({1, 1, 0, 0, 0, 1}), "dilation");
  EXPECT_EQ(convolution({1, 1, 0, 0, 1, 1, 0}), "groups");
}

}  // namespace
}  // namespace svp
