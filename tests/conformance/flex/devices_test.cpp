// SPDX-License-Identifier: Apache-2.0
// Which devices a program sees, by its environment: in a process for each, because it is looked at once.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "tests/conformance/flex/flex_runtime.hpp"

namespace flex_test {
namespace {

using testing::ExitedWithCode;

// No card runs where this looks.
void forget_the_environment() {
  std::string folder = (std::filesystem::temp_directory_path() / "spyre-flex-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) std::exit(2);
  ::setenv("SPYRE_RUNTIME_DIR", folder.c_str(), 1);
  std::filesystem::remove(folder);
  for (const char* name : {"FLEX_DEVICE", "SPYRE_DEVICES", "AIU_WORLD_SIZE", "LOCAL_RANK"}) ::unsetenv(name);
}

bool works(int device) {
  std::shared_ptr<flex::RuntimeContext> runtime;
  flex::initializeRuntime(&runtime, device);
  flex::RuntimeStream& stream = *runtime->getDefaultStream();
  const auto memory = runtime->getAllocator()->allocate(4096, tensor_memory());
  const auto bytes = counted_bytes(4096);
  std::vector<std::uint8_t> back(4096);
  send(stream, bytes.data(), bytes.size(), memory);
  receive(stream, back.data(), back.size(), memory);
  stream.synchronize();
  return back == bytes;
}

bool is_refused(int device, const char* because) {
  std::shared_ptr<flex::RuntimeContext> runtime;
  return what_of([&] { flex::initializeRuntime(&runtime, device); }).find(because) != std::string::npos && !runtime;
}

class FlexDevicesDeathTest : public testing::Test {
 protected:
  FlexDevicesDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(FlexDevicesDeathTest, WithoutCardAndVariableThereIsOneOfItsOwn) {
  EXPECT_EXIT(
      {
        forget_the_environment();
        const bool right = flex::getNumDevices() == 1 && is_refused(1, "there are 1") && works(0);
        std::exit(right ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(FlexDevicesDeathTest, MockHasAsManyAsTheWorldAndBootsItsOwn) {
  EXPECT_EXIT(
      {
        forget_the_environment();
        ::setenv("FLEX_DEVICE", "MOCK", 1);
        ::setenv("AIU_WORLD_SIZE", "3", 1);
        const bool right = flex::getNumDevices() == 3 && is_refused(3, "there are 3") && works(2);
        std::exit(right ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(FlexDevicesDeathTest, WithoutCardThereIsNoFunctionOfOne) {
  EXPECT_EXIT(
      {
        forget_the_environment();
        ::setenv("FLEX_DEVICE", "VF", 1);
        std::exit(flex::getNumDevices() == 0 && is_refused(0, "spyre boot") ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

TEST_F(FlexDevicesDeathTest, AMalformedVariableIsAnErrorThatNamesIt) {
  EXPECT_EXIT(
      {
        forget_the_environment();
        ::setenv("FLEX_DEVICE", "XF", 1);
        const std::string what = what_of([] { (void)flex::getNumDevices(); });
        std::exit(what.find("FLEX_DEVICE") != std::string::npos ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace flex_test
