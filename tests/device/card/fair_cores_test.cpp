// SPDX-License-Identifier: Apache-2.0
// Functions share a core in turn, on the card in the emulator. What is counted is slices, as the watchdog counts them:
// no clock of the host takes part.
#include <deque>

#include "tests/device/card/card_support.hpp"

namespace svp {
namespace {

using test::RecordedStream;
using test::Workbench;
using wire::Outcome;

constexpr std::uint64_t kBudget = 20;  // slices; a kernel is killed at twice that

// Returns when the card has begun with it.
void launch(RecordedStream& stream, const wire::ControlBlock& block) {
  ASSERT_EQ(stream.submit(block), 1u);
  ASSERT_TRUE(stream.wait_started(1, test::kBound));
}

class FairCores : public testing::TestWithParam<std::uint64_t> {};

// Four kernels against one with twice the budget of each. In turn by function, the one is through when the four have
// had half of theirs; in turn by kernel, the four would be dead long before.
TEST_P(FairCores, AFunctionWithFourKernelsGetsNoMoreOfACoreThanOneWithOne) {
  auto options = test::small_card();
  options.virtual_functions = 2;
  const auto card = test::boot(options);
  const auto many = value_or_throw(card->open_virtual(1));
  const auto one = value_or_throw(card->open_virtual(2));
  const Workbench many_bench(*many), one_bench(*one);
  const auto image = test::kernel_image(*card, "spin");
  many_bench.load(0, image);
  one_bench.load(0, image);

  // The one begins: whatever keeps this thread from its work meanwhile is in favour of it, never against it.
  RecordedStream first(*one);
  std::deque<RecordedStream> others;
  launch(first, one_bench.compute(0, image.size(), GetParam(), 2 * kBudget));
  const auto spin = many_bench.compute(0, image.size(), GetParam(), kBudget);
  for (unsigned i = 0; i < 4; ++i) launch(others.emplace_back(*many), spin);
  ASSERT_TRUE(first.wait_all(test::kBound));
  const auto end = first.sink().all().front();
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_GT(end.slices, 4 * kBudget - 2);
  for (auto& stream : others) {
    ASSERT_TRUE(stream.wait_all(test::kBound));
    const auto other = stream.sink().all().front();
    EXPECT_EQ(other.outcome, Outcome::Timeout);
    EXPECT_GT(other.end_time, end.end_time);
  }
  test::expect_healthy(*card, *many);
  test::expect_healthy(*card, *one);
}

// Two streams of one function, with kernels that never end by themselves.
class CorePriority : public testing::TestWithParam<std::uint64_t> {
 protected:
  CorePriority() { bench_.load(0, image_); }
  void run(RecordedStream& stream, std::uint64_t budget) {
    launch(stream, bench_.compute(0, image_.size(), GetParam(), budget));
  }
  static wire::Completion end_of(const RecordedStream& stream) { return stream.sink().all().front(); }

  const std::shared_ptr<Card> card_ = test::boot(test::small_card());
  const std::unique_ptr<Device> device_ = value_or_throw(card_->open_physical());
  const Workbench bench_{*device_};
  const std::vector<std::byte> image_ = test::kernel_image(*card_, "spin");
  RecordedStream high_{*device_, StreamPriority::High};
  RecordedStream low_{*device_, StreamPriority::Low};
};

// Twice the slices of the other one: in turn one by one, the other would be through first. The same function.
TEST_P(CorePriority, HighGoesFirst) {
  run(high_, 2 * kBudget);
  run(low_, kBudget);
  ASSERT_TRUE(high_.wait_all(test::kBound) && low_.wait_all(test::kBound));
  EXPECT_EQ(end_of(high_).outcome, Outcome::Timeout);
  EXPECT_EQ(end_of(low_).outcome, Outcome::Timeout);
  EXPECT_LT(end_of(high_).end_time, end_of(low_).end_time);
  test::expect_healthy(*card_, *device_);
}

// A kernel of high priority that would go on for ever leaves the other one enough to come to its end.
TEST_P(CorePriority, LowEndsBesideHighThatDoesNot) {
  constexpr std::uint64_t kForEver = 1'000'000;
  run(high_, kForEver);
  run(low_, kBudget);
  ASSERT_TRUE(low_.wait_all(test::kBound));
  EXPECT_EQ(end_of(low_).outcome, Outcome::Timeout);
  EXPECT_EQ(high_.ended(), 0u);
  value_or_throw(high_.reset());
  ASSERT_TRUE(high_.wait_all(test::kBound));
  test::expect_healthy(*card_, *device_);
}

INSTANTIATE_TEST_SUITE_P(Cores, FairCores, testing::Values(1, 2),
                         [](const auto& info) { return "OnCore" + std::to_string(info.param - 1); });
INSTANTIATE_TEST_SUITE_P(Cores, CorePriority, testing::Values(1, 2),
                         [](const auto& info) { return "OnCore" + std::to_string(info.param - 1); });

}  // namespace
}  // namespace svp
