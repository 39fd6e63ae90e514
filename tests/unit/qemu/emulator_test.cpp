// SPDX-License-Identifier: Apache-2.0
#include "qemu/emulator.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

#include "qemu/descriptor_limit.hpp"
#include "tests/support/process_resources.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace qemu {
namespace {

using Kind = MachineError::Kind;

TEST(Emulator, VersionsAreReadFromTheirFirstLine) {
  EXPECT_EQ(parse_version("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright"), (Version{10, 0, 2}));
  EXPECT_EQ(parse_version("QEMU emulator version 9.2"), (Version{9, 2, 0}));
  EXPECT_EQ(parse_version("QEMU emulator version x"), std::nullopt);
  EXPECT_EQ(parse_version(""), std::nullopt);
}

TEST(Emulator, VersionsAreOrderedByTheirNumbers) {
  EXPECT_LT((Version{7, 2, 22}), kMinimumVersion);
  EXPECT_LT((Version{9, 1, 99}), kMinimumVersion);
  EXPECT_LT(kMinimumVersion, (Version{10, 0, 0}));
}

TEST(Emulator, AbsentOnesAreNamedInTheError) {
  const auto in_path = find_emulator("qemu-system-nonexistent");
  ASSERT_FALSE(in_path);
  EXPECT_EQ(in_path.error().kind, Kind::kEmulatorNotFound);
  EXPECT_TRUE(in_path.error().message.contains("qemu-system-nonexistent"));
  EXPECT_TRUE(in_path.error().next_step.contains("scripts/bootstrap"));

  const test::TemporaryFolder folder;
  EXPECT_FALSE(find_emulator(folder.file("not-executable", "#!/bin/sh\n")));
  EXPECT_FALSE(find_emulator(folder.path().string() + "/"));
  EXPECT_FALSE(find_emulator(""));
}

TEST(Emulator, FirstMatchInPathWins) {
  const test::TemporaryFolder first;
  const test::TemporaryFolder second;
  (void)first.file("spyre-test-emulator", "not executable");
  const std::string wanted = second.file("spyre-test-emulator", "#!/bin/sh\n", true);
  const char* variable = std::getenv("PATH");
  ASSERT_NE(variable, nullptr);
  const std::string old = variable;
  ::setenv("PATH", (first.path().string() + ":" + second.path().string() + ":" + old).c_str(), 1);
  EXPECT_EQ(find_emulator("spyre-test-emulator").value_or("none"), wanted);
  ::setenv("PATH", old.c_str(), 1);
}

TEST(Emulator, OnlyRiscvElfFilesAreFirmware) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(check_firmware(folder.firmware()));
  for (const std::string& wrong : {std::string{}, std::string{"/nonexistent/firmware.elf"}, folder.path().string(),
                                   folder.file("text", "not an ELF file, but long enough to hold one's header........"),
                                   folder.file("short",
                                               "\x7f"
                                               "ELF"),
                                   std::string{"/proc/self/exe"}}) {
    const auto result = check_firmware(wrong);
    ASSERT_FALSE(result) << wrong;
    EXPECT_EQ(result.error().kind, Kind::kFirmwareMissing);
  }
}

TEST(Emulator, AProbeThatHangsIsEnded) {
  const test::TemporaryFolder folder;
  const auto before = svp::test::count_resources_without_threads();
  EXPECT_EQ(probe_version(folder.file("hangs", "#!/bin/sh\nexec sleep 60\n", true), Timeouts::Duration{50}),
            std::nullopt);
  EXPECT_EQ(svp::test::count_resources_without_threads(), before);
}

class DescriptorLimit : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved_), 0); }
  void TearDown() override { ::setrlimit(RLIMIT_NOFILE, &saved_); }
  static rlim_t soft() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }
  rlimit saved_{};
};

TEST_F(DescriptorLimit, StaysAsItIsWhenItSuffices) {
  const rlimit limit{.rlim_cur = 200, .rlim_max = saved_.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(reserve_descriptors(3));
  EXPECT_EQ(soft(), 200U);
}

TEST_F(DescriptorLimit, IsRaisedForManySlots) {
  const rlimit limit{.rlim_cur = 200, .rlim_max = saved_.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(reserve_descriptors(64));
  EXPECT_EQ(soft(), saved_.rlim_max);
}

TEST_F(DescriptorLimit, IsATypedErrorBeyondTheHardLimit) {
  const auto result = reserve_descriptors(static_cast<std::size_t>(saved_.rlim_max));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, Kind::kDescriptorLimit);
  EXPECT_TRUE(result.error().message.contains(std::to_string(saved_.rlim_max)));
}

}  // namespace
}  // namespace qemu
