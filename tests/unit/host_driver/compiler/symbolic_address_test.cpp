// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/symbolic_address.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace {

using namespace svp::compiler;

constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

SymbolicAddress number(std::int64_t value) { return {.offset = value, .loops = {}}; }
SymbolicAddress argument(std::uint32_t n, std::int64_t offset) {
  return {.base = SymbolicAddress::Base::Argument, .argument = n, .offset = offset, .loops = {}};
}
SymbolicAddress iteration(unsigned loop, std::int64_t factor) { return {.loops = {{loop, factor}}}; }

TEST(SymbolicAddresses, ASumHasTheBaseOfEitherAndTheLoopsOfBoth) {
  const auto both = sum(*sum(argument(3, 128), iteration(2, 512)), *sum(iteration(0, 4), number(-28)));
  ASSERT_TRUE(both);
  EXPECT_EQ(*both,
            (SymbolicAddress{
                .base = SymbolicAddress::Base::Argument, .argument = 3, .offset = 100, .loops = {{0, 4}, {2, 512}}}));
  EXPECT_EQ(sum(number(1), argument(3, 2)), argument(3, 3));
  EXPECT_EQ(sum(iteration(1, 7), iteration(1, -7)), number(0)) << "no factor is 0";
}

TEST(SymbolicAddresses, TwoBasesAndNumbersBeyond64BitsAreNoAddress) {
  EXPECT_FALSE(sum(argument(0, 0), argument(1, 0)));
  EXPECT_FALSE(sum(number(kMost), number(1)));
  EXPECT_FALSE(sum(iteration(0, kMost), iteration(0, 1)));
  EXPECT_FALSE(product(argument(0, 0), 2));
  EXPECT_FALSE(product(number(kMost), 2));
  EXPECT_FALSE(product(iteration(0, kMost), 2));
  EXPECT_EQ(product(iteration(0, 3), 0), number(0));
  EXPECT_EQ(product(iteration(0, 3), -2), iteration(0, -6));
}

}  // namespace
