// SPDX-License-Identifier: Apache-2.0
// What the image that is delivered must have in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace {

// libc++'s hardening (toolchain/cmake/card_options.cmake): an index that a tenant has steered beyond an array ends in a
// panic, not in the memory of its neighbour. The text of the check is in an image that has it.
TEST(ShippedFirmware, ChecksTheBoundsOfItsArrays) {
  std::ifstream file(SPYRE_DEFAULT_FIRMWARE, std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(image.empty());
  constexpr std::string_view kChecks[] = {"out-of-bounds access in std::array<T, N>",
                                          "span<T>::operator[](index): index out of range"};
  for (const std::string_view check : kChecks) EXPECT_NE(image.find(check), std::string::npos) << check;
}

}  // namespace
