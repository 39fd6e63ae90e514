// SPDX-License-Identifier: Apache-2.0
#include "qemu/emulator_environment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace qemu {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::StartsWith;

const std::filesystem::path kAllocator = "/usr/lib/liballocator.so";

class EmulatorEnvironment : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("SPYRE_EMULATOR_ALLOCATOR"); }
};

TEST_F(EmulatorEnvironment, TheAllocatorIsPreloaded) {
  const std::vector<std::string> given{"PATH=/usr/bin", "HOME=/root"};
  EXPECT_THAT(with_allocator(given, kAllocator),
              ElementsAre("PATH=/usr/bin", "HOME=/root", "LD_PRELOAD=/usr/lib/liballocator.so"));
}

TEST_F(EmulatorEnvironment, WithoutAnAllocatorNothingChanges) {
  const std::vector<std::string> given{"PATH=/usr/bin"};
  EXPECT_EQ(with_allocator(given, std::nullopt), given);
}

TEST_F(EmulatorEnvironment, LibrariesThatTheUserPreloadsStay) {
  const std::vector<std::string> given{"LD_PRELOAD=/opt/mine.so", "PATH=/usr/bin"};
  EXPECT_EQ(with_allocator(given, kAllocator), given);
}

TEST_F(EmulatorEnvironment, AnEmptyPreloadIsNone) {
  const std::vector<std::string> given{"LD_PRELOAD=", "PATH=/usr/bin"};
  EXPECT_THAT(with_allocator(given, kAllocator), ElementsAre("PATH=/usr/bin", "LD_PRELOAD=/usr/lib/liballocator.so"));
}

TEST_F(EmulatorEnvironment, AVariableNamesTheAllocatorOrNone) {
  ::setenv("SPYRE_EMULATOR_ALLOCATOR", kAllocator.c_str(), 1);
  EXPECT_EQ(emulator_allocator(), kAllocator);
  EXPECT_THAT(emulator_environment(), Contains("LD_PRELOAD=" + kAllocator.string()));
  ::setenv("SPYRE_EMULATOR_ALLOCATOR", "none", 1);
  EXPECT_EQ(emulator_allocator(), std::nullopt);
  EXPECT_THAT(emulator_environment(), Not(Contains(StartsWith("LD_PRELOAD=/"))));
}

TEST_F(EmulatorEnvironment, OnThisSystemItIsInstalled) {
  ASSERT_TRUE(emulator_allocator()) << "scripts/bootstrap installs libjemalloc2";
  EXPECT_TRUE(std::filesystem::exists(*emulator_allocator()));
}

}  // namespace
}  // namespace qemu
