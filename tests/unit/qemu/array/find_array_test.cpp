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

std::filesystem::path found(const std::filesystem::path& asked = {}) {
  return svp::value_or_throw(svp::find_array(asked)).plugin;
}

TEST_F(FindArray, OffIsNone) {
  ::setenv("SPYRE_ARRAY", "off", 1);
  EXPECT_EQ(found(), std::filesystem::path());
}

// A build under a sanitizer makes none, because no emulator could load it.
TEST_F(FindArray, ThereIsOneWhereTheBuildHasOne) {
  ::unsetenv("SPYRE_ARRAY");
  EXPECT_EQ(found().empty(), !SPYRE_BUILD_HAS_ARRAY);
  for (const char* said : {"", "auto"}) {
    ::setenv("SPYRE_ARRAY", said, 1);
    EXPECT_EQ(found().empty(), !SPYRE_BUILD_HAS_ARRAY) << said;
  }
  EXPECT_FALSE(svp::value_or_throw(svp::find_array()).named);
}

TEST_F(FindArray, APathIsThatFileOrATypedError) {
  const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe");
  ::setenv("SPYRE_ARRAY", file.c_str(), 1);
  EXPECT_EQ(found(), file);
  EXPECT_TRUE(svp::value_or_throw(svp::find_array()).named);
  ::setenv("SPYRE_ARRAY", "/nowhere/array.so", 1);
  const auto refused = svp::find_array();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("/nowhere/array.so"));
  EXPECT_THAT(refused.error().next_step, HasSubstr("auto, off"));
}

TEST_F(FindArray, WhatACardIsAskedForComesBeforeTheVariable) {
  const std::filesystem::path file = std::filesystem::read_symlink("/proc/self/exe");
  ::setenv("SPYRE_ARRAY", "/nowhere/array.so", 1);
  EXPECT_EQ(found("off"), std::filesystem::path());
  EXPECT_EQ(found(file), file);
  ::setenv("SPYRE_ARRAY", file.c_str(), 1);
  EXPECT_FALSE(svp::find_array("/nowhere/array.so"));
}

}  // namespace
