// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/device_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "host_driver/discovery/runtime_folder.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using testing::HasSubstr;

class DeviceList : public testing::Test {
 protected:
  DeviceList() : runtime_(folder_.path() / "cards") {
    for (const char* variable :
         {kFlexDeviceVariable, kVisibleDevicesVariable, kWorldSizeVariable, kLocalRankVariable}) {
      ::unsetenv(variable);
    }
    ::setenv(kRuntimeFolderVariable, runtime_.c_str(), 1);
    forget_devices();
  }
  ~DeviceList() override {
    ::unsetenv(kRuntimeFolderVariable);
    forget_devices();
  }
  static void mock_world(const char* size) {
    ::setenv(kFlexDeviceVariable, "MOCK", 1);
    ::setenv(kWorldSizeVariable, size, 1);
  }
  const std::filesystem::path& runtime() const { return runtime_; }

 private:
  qemu::test::TemporaryFolder folder_;
  std::filesystem::path runtime_;
};

TEST_F(DeviceList, NoRuntimeFolderIsNoDeviceAndLookingMakesNone) {
  const auto list = devices();
  ASSERT_TRUE(list) << describe(list.error());
  EXPECT_TRUE(list->devices.empty());
  EXPECT_FALSE(std::filesystem::exists(runtime()));
}

TEST_F(DeviceList, IsKeptForTheLifetimeOfTheProcess) {
  mock_world("3");
  EXPECT_EQ(devices()->devices.size(), 3u);
  mock_world("5");
  EXPECT_EQ(devices()->devices.size(), 3u);
  EXPECT_EQ(enumerate_afresh()->devices.size(), 5u);
  EXPECT_EQ(devices()->devices.size(), 3u) << "looking afresh changes nothing";
  forget_devices();
  EXPECT_EQ(devices()->devices.size(), 5u);
}

TEST_F(DeviceList, AnErrorIsNotKept) {
  mock_world("none");
  ASSERT_FALSE(devices());
  EXPECT_EQ(devices().error().source, kWorldSizeVariable);
  mock_world("2");
  ASSERT_TRUE(devices());
  EXPECT_EQ(devices()->devices.size(), 2u);
}

TEST_F(DeviceList, ARuntimeFolderThatIsOpenToOthersIsRefused) {
  std::filesystem::create_directory(runtime());
  std::filesystem::permissions(runtime(), std::filesystem::perms::all);
  const auto list = devices();
  ASSERT_FALSE(list);
  EXPECT_THAT(describe(list.error()), HasSubstr(runtime().string()));
  EXPECT_FALSE(list.error().next_step.empty());
}

TEST_F(DeviceList, ManyThreadsSeeOneList) {
  mock_world("7");
  std::atomic<unsigned> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { right += devices()->devices.size() == 7 ? 1 : 0; });
    }
  }
  EXPECT_EQ(right, 8u);
}

TEST_F(DeviceList, ACardThatIsNotThereCannotBeAttached) {
  const auto attached = attach(EnumeratedDevice{"card0", wire::kTargetPhysical});
  ASSERT_FALSE(attached);
  EXPECT_THAT(describe(attached.error()), HasSubstr("card0"));
}

}  // namespace
}  // namespace svp
