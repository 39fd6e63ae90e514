// SPDX-License-Identifier: Apache-2.0
// Functions share a core in turn, on the card in the emulator. What is counted is slices, as the watchdog counts them:
// no clock of the host takes part.
#include "tests/device/card/card_support.hpp"

namespace flex {
namespace {

using test::Endings;
using test::must;
using test::Workbench;
using wire::Outcome;

constexpr std::uint64_t kBudget = 20;  // slices; a kernel is killed at twice that

// On a stream of its own, which it returns, and until the card has begun with it.
std::uint32_t launch(Device& device, const wire::ControlBlock& block, Endings& ends,
                     StreamPriority priority = StreamPriority::Low) {
  const auto stream = must(device.open_stream(priority));
  const ControlBlockRequest request{&block, &ends};
  EXPECT_EQ(must(device.submit(stream, {&request, 1})), 1u);
  EXPECT_EQ(device.wait_until([&] { return test::started_sequence(device, stream) != 0; }, test::soon()),
            WaitStatus::Done);
  return stream;
}

class FairCores : public testing::TestWithParam<std::uint64_t> {};

// Four kernels against one with twice the budget of each. In turn by function, the one is through when the four have had
// half of theirs; in turn by kernel, the four would be dead long before.
TEST_P(FairCores, AFunctionWithFourKernelsGetsNoMoreOfACoreThanOneWithOne) {
  auto options = test::small_card();
  options.virtual_functions = 2;
  const auto card = test::boot(options);
  const auto many = must(card->open_virtual(1));
  const auto one = must(card->open_virtual(2));
  const Workbench many_bench(*many), one_bench(*one);
  const auto image = test::kernel_image(*card, "spin");
  many_bench.load(0, image);
  one_bench.load(0, image);

  // The one begins: whatever keeps this thread from its work meanwhile is in favour of it, never against it.
  Endings one_end, many_ends;
  launch(*one, one_bench.compute(0, image.size(), GetParam(), 2 * kBudget), one_end);
  const auto spin = many_bench.compute(0, image.size(), GetParam(), kBudget);
  for (unsigned i = 0; i < 4; ++i) launch(*many, spin, many_ends);
  ASSERT_EQ(one->wait_until([&] { return one_end.count() == 1; }, test::soon()), WaitStatus::Done);
  ASSERT_EQ(many->wait_until([&] { return many_ends.count() == 4; }, test::soon()), WaitStatus::Done);
  const auto& end = one_end.all().front();
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_GT(end.slices, 4 * kBudget - 2);
  for (const auto& other : many_ends.all()) {
    EXPECT_EQ(other.outcome, Outcome::Timeout);
    EXPECT_GT(other.end_time, end.end_time);
  }
  test::expect_healthy(*card, *many);
  test::expect_healthy(*card, *one);
}

// Twice the slices of the other one: in turn one by one, the other would be through first. The same function.
TEST_P(FairCores, AKernelOfHighPriorityGoesFirst) {
  const auto card = test::boot(test::small_card());
  const auto device = must(card->open_physical());
  const Workbench bench(*device);
  const auto image = test::kernel_image(*card, "spin");
  bench.load(0, image);

  Endings high, low;
  launch(*device, bench.compute(0, image.size(), GetParam(), 2 * kBudget), high, StreamPriority::High);
  launch(*device, bench.compute(0, image.size(), GetParam(), kBudget), low);
  ASSERT_EQ(device->wait_until([&] { return high.count() == 1 && low.count() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(high.all().front().outcome, Outcome::Timeout);
  EXPECT_EQ(low.all().front().outcome, Outcome::Timeout);
  EXPECT_LT(high.all().front().end_time, low.all().front().end_time);
  test::expect_healthy(*card, *device);
}

// A kernel of high priority that would go on for ever leaves the other one enough to come to its end.
TEST_P(FairCores, AKernelOfLowPriorityEndsBesideOneOfHighThatDoesNot) {
  constexpr std::uint64_t kForEver = 1'000'000;
  const auto card = test::boot(test::small_card());
  const auto device = must(card->open_physical());
  const Workbench bench(*device);
  const auto image = test::kernel_image(*card, "spin");
  bench.load(0, image);

  Endings high, low;
  const auto stream = launch(*device, bench.compute(0, image.size(), GetParam(), kForEver), high, StreamPriority::High);
  launch(*device, bench.compute(0, image.size(), GetParam(), kBudget), low);
  ASSERT_EQ(device->wait_until([&] { return low.count() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(low.all().front().outcome, Outcome::Timeout);
  EXPECT_EQ(high.count(), 0u);
  must(device->reset_stream(stream));
  ASSERT_EQ(device->wait_until([&] { return high.count() == 1; }, test::soon()), WaitStatus::Done);
  test::expect_healthy(*card, *device);
}

INSTANTIATE_TEST_SUITE_P(Cores, FairCores, testing::Values(1, 2),
                         [](const auto& info) { return "OnCore" + std::to_string(info.param - 1); });

}  // namespace
}  // namespace flex
