// SPDX-License-Identifier: Apache-2.0
// Faults under bundles that the compiler has made programs of (tests/support/bundle_plan.cpp), as a program sees them.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/conformance/flex/flex_runtime.hpp"
#include "tests/support/flex/prepared_plan.hpp"

namespace flex_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Addresses = PreparedPlan::Addresses;

constexpr std::size_t kRows = 32, kTableRows = 16, kElements = kRows * 128;

// A runtime for each case: a failed one is replaced.
class FlexBundleFault : public testing::Test {
 protected:
  FlexBundleFault() { open(); }
  void open() { flex::initializeRuntime(&runtime, device_of_rank()); }
  flex::RuntimeStream& stream() { return *runtime->getDefaultStream(); }
  flex::CompositeAddress tensor(std::size_t bytes) { return runtime->getAllocator()->allocate(bytes, tensor_memory()); }
  flex::CompositeAddress filled(double value, std::size_t elements = kElements) {
    auto memory = tensor(elements * 2);
    stream().fillAsync(&memory, value, DataFormats::SEN169_FP16, true);
    return memory;
  }
  PreparedPlan prepared(const char* name) {
    return {std::string(SPYRE_FLEX_PLANS) + "/bundles/" + name + "/spyreCodeDir", *runtime->getAllocator(), stream()};
  }
  void expect_all(const flex::CompositeAddress& memory, float value) {
    std::vector<std::uint16_t> codes(memory.total_size() / 2);
    receive(stream(), codes.data(), memory.total_size(), memory);
    stream().synchronize();
    EXPECT_THAT(codes, testing::Each(deeptools::FloatToFp16Bin(value)));
  }

  std::shared_ptr<flex::RuntimeContext> runtime;
};

TEST_F(FlexBundleFault, InTheMiddleNamesTheOperationAndItsLineAndLeavesOtherTensorsAlone) {
  const PreparedPlan plan = prepared("middle");
  const auto index = tensor(kRows * 4), table = filled(5, kTableRows * 128), taken = filled(0);
  const auto three = filled(3), before = filled(0), behind = filled(1), bystander = filled(9);
  const auto launch = [&](std::int32_t last) {
    std::vector<std::int32_t> numbers(kRows);
    numbers.back() = last;
    send(stream(), numbers.data(), kRows * 4, index);
    plan.launch(stream(), {&index, &table, &taken, &three, &before, &behind}, Addresses::Fast);
  };
  for (int i = 0; i < 3; ++i) {
    launch(40);
    EXPECT_THAT(what_of([&] { stream().synchronize(); }),
                AllOf(HasSubstr("index 40 is outside of argument 1, which has 16 rows"),
                      HasSubstr("operation 1 (Gather)"), testing::ContainsRegex("line [0-9]+ of its source"),
                      HasSubstr("outcome FAULT"), HasSubstr("next: give indices from 0 to 15")));
    EXPECT_FALSE(runtime->hasStreamError());
    expect_all(behind, 1);
    expect_all(three, 3);
    expect_all(bystander, 9);
  }
  launch(15);
  stream().synchronize();
  expect_all(before, 6);
  expect_all(behind, 8);
}

TEST_F(FlexBundleFault, AValueInAScratchpadOutlivesItsBundleAndAFailedLaunchBetween) {
  const PreparedPlan leave = prepared("leave"), take = prepared("take"), middle = prepared("middle");
  const auto two = filled(2), one = filled(1), out = filled(0);
  leave.launch(stream(), {&two}, Addresses::Fast);
  const auto index = filled(2, kRows * 2), table = filled(5, kTableRows * 128), a = filled(0), b = filled(0);
  const auto c = filled(0);
  middle.launch(stream(), {&index, &table, &a, &two, &b, &c}, Addresses::Fast);
  EXPECT_THAT(what_of([&] { stream().synchronize(); }), HasSubstr("is outside of argument 1"));
  take.launch(stream(), {&one, &out}, Addresses::Fast);
  expect_all(out, 5);
}

// Ordered by whoever owns the card: SPYRE_FLEX_RESET is the command for this process's function.
TEST_F(FlexBundleFault, AResetBetweenBundlesThatShareAScratchpadIsToldAndClearsIt) {
  const char* const reset = std::getenv("SPYRE_FLEX_RESET");
  if (reset == nullptr) GTEST_SKIP() << "the card is this process's own";
  {
    const PreparedPlan leave = prepared("leave"), take = prepared("take");
    const auto two = filled(2), one = filled(1), out = filled(0);
    leave.launch(stream(), {&two}, Addresses::Fast);
    stream().synchronize();
    ASSERT_EQ(std::system(reset), 0) << reset;
    EXPECT_THAT(what_of([&] {
                  take.launch(stream(), {&one, &out}, Addresses::Fast);
                  stream().synchronize();
                }),
                testing::AnyOf(HasSubstr("reset"), testing::ContainsRegex("outcome (ABORTED|LOST|INDETERMINATE)")));
    EXPECT_TRUE(stream().needsShutdown());
  }
  runtime.reset();
  open();
  const PreparedPlan take = prepared("take");
  const auto one = filled(1), out = filled(0);
  take.launch(stream(), {&one, &out}, Addresses::Fast);
  expect_all(out, 1);
  EXPECT_FALSE(runtime->hasStreamError());
}

// Whatever bit of a compiled binary is wrong, it is refused when it is sent, and the next one is not.
TEST_F(FlexBundleFault, ADamagedPlanIsRefusedWhenItIsPreparedAndTheNextOneRuns) {
  const auto folder = std::filesystem::path(SPYRE_FLEX_PLANS) / "bundles/take/spyreCodeDir";
  std::vector<std::uint8_t> good;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".bin") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(file), {});
  }
  ASSERT_GT(good.size(), 512U);
  const auto program = runtime->getAllocator()->allocate(good.size(), program_memory());
  for (std::size_t at = 8; at < good.size(); at += 1 + at / 16) {  // the first 8 bytes say that it is a binary
    std::vector<std::uint8_t> bad = good;
    bad[at] ^= static_cast<std::uint8_t>(1U << (at % 8));
    EXPECT_THAT(what_of([&] { send(stream(), bad.data(), bad.size(), program); }),
                AllOf(HasSubstr("the binary for byte 0 of program memory"), HasSubstr("next: ")))
        << at;
  }
  EXPECT_FALSE(runtime->hasStreamError());
  const PreparedPlan leave = prepared("leave"), take = prepared("take");
  const auto two = filled(2), one = filled(1), out = filled(0);
  leave.launch(stream(), {&two}, Addresses::Fast);
  take.launch(stream(), {&one, &out}, Addresses::Fast);
  expect_all(out, 5);
}

}  // namespace
}  // namespace flex_test
