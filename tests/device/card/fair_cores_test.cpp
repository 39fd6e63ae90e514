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

  Endings ends;
  const auto spin = many_bench.compute(0, image.size(), GetParam(), kBudget);
  for (unsigned i = 0; i < 4; ++i) {
    const auto stream = must(many->open_stream(StreamPriority::Low));
    const ControlBlockRequest request{&spin, &ends};
    ASSERT_EQ(must(many->submit(stream, {&request, 1})), 1u);
    ASSERT_EQ(many->wait_until([&] { return test::started_sequence(*many, stream) != 0; }, test::soon()),
              WaitStatus::Done);
  }
  const auto end = one_bench.run(one_bench.compute(0, image.size(), GetParam(), 2 * kBudget));
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_GT(end.slices, 4 * kBudget - 2);
  EXPECT_EQ(many->wait_until([&] { return ends.count() == 4; }, test::soon()), WaitStatus::Done);
  for (const auto& other : ends.all()) {
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
