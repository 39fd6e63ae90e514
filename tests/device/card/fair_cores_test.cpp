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

  const auto launch = [](Device& device, const wire::ControlBlock& block, Endings& ends) {
    const auto stream = must(device.open_stream(StreamPriority::Low));
    const ControlBlockRequest request{&block, &ends};
    EXPECT_EQ(must(device.submit(stream, {&request, 1})), 1u);
    EXPECT_EQ(device.wait_until([&] { return test::started_sequence(device, stream) != 0; }, test::soon()),
              WaitStatus::Done);
  };
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

INSTANTIATE_TEST_SUITE_P(Cores, FairCores, testing::Values(1, 2),
                         [](const auto& info) { return "OnCore" + std::to_string(info.param - 1); });

}  // namespace
}  // namespace flex
