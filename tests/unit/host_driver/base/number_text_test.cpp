// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/number_text.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

namespace svp {
namespace {

TEST(NumberText, IsAsShortAsItCanBe) {
  EXPECT_EQ(text_of(0), "0");
  EXPECT_EQ(text_of(-0.0), "-0");
  EXPECT_EQ(text_of(0.5), "0.5");
  EXPECT_EQ(text_of(448), "448");
  EXPECT_EQ(text_of(0.1), "0.1");
  EXPECT_EQ(text_of(1e-12), "1e-12");
  EXPECT_EQ(text_of(-1.25e10), "-1.25e+10");
  EXPECT_EQ(text_of(INFINITY), "inf");
  EXPECT_EQ(text_of(-INFINITY), "-inf");
}

TEST(NumberText, ReadsBackAsTheSameNumber) {
  using Limits = std::numeric_limits<double>;
  for (const double number : {Limits::min(), Limits::max(), Limits::lowest(), Limits::denorm_min(), -1.0 / 3}) {
    EXPECT_EQ(std::strtod(text_of(number).c_str(), nullptr), number);
  }
  std::mt19937_64 random(20261128);
  for (int i = 0; i < 10000; ++i) {
    const auto number = std::bit_cast<double>(random());
    if (std::isnan(number)) continue;
    EXPECT_EQ(std::strtod(text_of(number).c_str(), nullptr), number);
  }
}

}  // namespace
}  // namespace svp
