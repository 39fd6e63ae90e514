// SPDX-License-Identifier: Apache-2.0
// Which array a card gets: as it is asked for, else by SPYRE_ARRAY.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "qemu/card.hpp"

namespace {

using testing::HasSubstr;

class FindArray : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("SPYRE_ARRAY"); }
};

TEST_F(FindArray, ThereIsNoneUnlessItIsAskedFor) {
  ::unsetenv("SPYRE_ARRAY");
  EXPECT_EQ(svp::value_or_throw(svp::find_array()), std::filesystem::path());
  ::setenv("SPYRE_ARRAY", "off", 1);
  EXPECT_EQ(svp::value_or_throw(svp::find_array()), std::filesystem::path());
}

// A build under a sanitizer makes none, because no emulator could load it. That auto finds the one of a build that has
// it: conformance_array_device_test.
TEST_F(FindArray, AutoIsNoneWhereThereIsNone) {
  ::setenv("SPYRE_ARRAY", "auto", 1);
  EXPECT_EQ(svp::value_or_throw(svp::find_array()).empty(), !SPYRE_BUILD_HAS_ARRAY);
}

TEST_F(FindArray, APathIsThatFileOrATypedError) {
  const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe");
  ::setenv("SPYRE_ARRAY", file.c_str(), 1);
  EXPECT_EQ(svp::value_or_throw(svp::find_array()), file);
  ::setenv("SPYRE_ARRAY", "/nowhere/array.so", 1);
  const auto refused = svp::find_array();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("/nowhere/array.so"));
  EXPECT_THAT(refused.error().next_step, HasSubstr("auto, off"));
}

TEST_F(FindArray, WhatACardIsAskedForComesBeforeTheVariable) {
  const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe");
  ::setenv("SPYRE_ARRAY", "/nowhere/array.so", 1);
  EXPECT_EQ(svp::value_or_throw(svp::find_array("off")), std::filesystem::path());
  EXPECT_EQ(svp::value_or_throw(svp::find_array(file)), file);
  ::setenv("SPYRE_ARRAY", file.c_str(), 1);
  EXPECT_FALSE(svp::find_array("/nowhere/array.so"));
}

}  // namespace
