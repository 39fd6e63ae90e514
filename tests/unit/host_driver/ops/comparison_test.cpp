// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/comparison.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "host_driver/base/error.hpp"

namespace svp::ops {
namespace {

Array numbers(std::vector<std::int64_t> size) {
  Array array = Array::of(std::move(size));
  for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] = 0.5 * static_cast<double>(i);
  return array;
}

TEST(Comparison, EqualResultsAreToldAsSuch) {
  const Comparison same = compare(numbers({4, 6}), numbers({4, 6}));
  EXPECT_TRUE(same.equal());
  EXPECT_EQ(describe(same), "24 of 24 elements equal");
}

TEST(Comparison, TheFirstDifferenceIsNamedWithBothValues) {
  const Array expected = numbers({2, 3, 4});
  Array got = expected;
  got.data[1 * 12 + 2 * 4 + 3] = -1.25;
  got.data[1 * 12 + 0 * 4 + 1] = 0.1f;
  const Comparison wrong = compare(got, expected);
  EXPECT_EQ(wrong.differ, 2u);
  EXPECT_EQ(describe(wrong), "element [1,0,1] is 0.100000001, not 6.5; 2 of 24 elements differ");
}

TEST(Comparison, NaNEqualsNaNAndNothingElse) {
  Array expected = numbers({3}), got = numbers({3});
  expected.data[1] = got.data[1] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(compare(got, expected).equal());
  got.data[1] = 0.5;
  EXPECT_EQ(describe(compare(got, expected)), "element [1] is 0.5, not nan; 1 of 3 elements differ");
}

TEST(Comparison, AScalarHasNoIndex) {
  Array expected = Array::of({}), got = Array::of({});
  got.data[0] = 2;
  EXPECT_EQ(describe(compare(got, expected)), "element [] is 2, not 0; 1 of 1 elements differ");
}

TEST(Comparison, TheFirstOfSeveralResultsStays) {
  Array expected = numbers({3}), got = numbers({3});
  Comparison all = compare(got, expected);
  got.data[2] = 7;
  all.add(compare(got, expected));
  got.data[0] = 9;
  all.add(compare(got, expected));
  EXPECT_EQ(describe(all), "element [2] is 7, not 1; 3 of 9 elements differ");
}

TEST(Comparison, ShapesThatDifferAreRefused) {
  EXPECT_THROW((void)compare(numbers({2, 3}), numbers({3, 2})), InvalidArgument);
}

// ---- against the exact result ---------------------------------------------------------------------------------------

Array of(std::vector<double> data) {
  return {.size = {static_cast<std::int64_t>(data.size())}, .data = std::move(data)};
}

TEST(Judgement, AnElementMayBeAsFarAsItsBoundSays) {
  const Array exact = of({1, 100, -3});
  // DL16 has ten significant bits: one in the last place of 1 is 2^-9, of 3 2^-8.
  EXPECT_TRUE(judge(of({1 + 0x1p-9, 100, -3}), exact, DeviceType::Dl16, {1, 0}).within());
  EXPECT_FALSE(judge(of({1 + 0x1p-8, 100, -3}), exact, DeviceType::Dl16, {1, 0}).within());
  EXPECT_TRUE(judge(of({1 + 0x1p-8, 100, -3}), exact, DeviceType::Dl16, {0, 0.01}).within());
  EXPECT_TRUE(judge(of({1, 100, -3 + 0x1p-22}), exact, DeviceType::Fp32, {1, 0}).within());
  EXPECT_FALSE(judge(of({1, 100, -3 + 0x1p-8}), exact, DeviceType::Fp32, {1, 0}).within());
  const Judgement wrong = judge(of({1, 99, -3}), exact, DeviceType::Dl16, {1, 0});
  EXPECT_EQ(describe(wrong.beyond), "element [1] is 99, not 100; 1 of 3 elements differ");
  EXPECT_EQ(wrong.largest_error, 1);
  EXPECT_EQ(wrong.relative_error, 0.01);
  EXPECT_EQ(wrong.worst, 8);
}

TEST(Judgement, TheExactResultIsRoundedFirst) {
  EXPECT_TRUE(judge(of({0.333496094}), of({1.0 / 3}), DeviceType::Dl16, {0, 0x1p-20}).within());
  EXPECT_TRUE(judge(of({0}), of({1e-12}), DeviceType::Dl16, {}).within());
  EXPECT_TRUE(judge(of({7}), of({7}), DeviceType::Int32, {}).within());
}

TEST(Judgement, WhatIsNoNumberHasToBeNone) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(judge(of({infinity, nan}), of({1e12, nan}), DeviceType::Dl16, {}).within());
  EXPECT_FALSE(judge(of({nan}), of({1e12}), DeviceType::Dl16, {}).within());
  EXPECT_TRUE(judge(of({infinity, nan}), of({1e39, nan}), DeviceType::Fp32, {}).within());
  EXPECT_FALSE(judge(of({nan}), of({1}), DeviceType::Dl16, {1, 1}).within());
  EXPECT_FALSE(judge(of({1}), of({nan}), DeviceType::Dl16, {1, 1}).within());
  EXPECT_FALSE(judge(of({-infinity}), of({infinity}), DeviceType::Fp32, {1, 1}).within());
}

TEST(Judgement, AnOperationsBoundIsThatOfTheTable) {
  const double unit = 0x1p-9;  // of the last place of 1
  const Array exact = of({1, 1});
  EXPECT_EQ(beyond_bound(Op::Div, DeviceType::Dl16, of({1, 1 + unit}), exact), std::nullopt);
  EXPECT_EQ(beyond_bound(Op::Div, DeviceType::Dl16, of({1, 1 + 2 * unit}), exact),
            "element [1] is 1.00390625, not 1; 1 of 2 elements differ beyond its bound, within 1 of the last place");
  EXPECT_EQ(beyond_bound(Op::Add, DeviceType::Dl16, of({1, 1 + unit}), exact),
            "element [1] is 1.00195312, not 1; 1 of 2 elements differ beyond its bound, exact: rounded once");
  EXPECT_EQ(beyond_bound(Op::Add, DeviceType::Dl16, of({1}), exact), "shape [1], not [2]");
}

TEST(Bounds, AreToldInWords) {
  EXPECT_EQ(bound_text(info_of(Op::Add)), "exact: rounded once");
  EXPECT_EQ(bound_text(Bound{1, 0x1p-18}), "within 1 of the last place plus 2^-18 of the largest");
  EXPECT_EQ(bound_text(Bound{0, 0.02}), "within 0.02 of the largest");
}

}  // namespace
}  // namespace svp::ops
