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

}  // namespace
}  // namespace svp::ops
