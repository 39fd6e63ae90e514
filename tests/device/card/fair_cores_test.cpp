// SPDX-License-Identifier: Apache-2.0
// Functions share a core in turn, on the card in the emulator. What is counted is slices, as the watchdog counts them:
// no clock of the host takes part.
#include "tests/device/card/card_support.hpp"

namespace svp {
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

// Two streams of one function, with kernels that never end by themselves.
class CorePriority : public testing::TestWithParam<std::uint64_t> {
 protected:
  CorePriority() { bench_.load(0, image_); }
  std::uint32_t run(std::uint64_t budget, Endings& ends, StreamPriority priority) {
    return launch(*device_, bench_.compute(0, image_.size(), GetParam(), budget), ends, priority);
  }
  bool ended(const Endings& ends) {
    return device_->wait_until([&] { return ends.count() == 1; }, test::soon()) == WaitStatus::Done;
  }

  const std::shared_ptr<Card> card_ = test::boot(test::small_card());
  const std::unique_ptr<Device> device_ = must(card_->open_physical());
  const Workbench bench_{*device_};
  const std::vector<std::byte> image_ = test::kernel_image(*card_, "spin");
  Endings high_, low_;
};

// Twice the slices of the other one: in turn one by one, the other would be through first. The same function.
TEST_P(CorePriority, HighGoesFirst) {
  run(2 * kBudget, high_, StreamPriority::High);
  run(kBudget, low_, StreamPriority::Low);
  ASSERT_TRUE(ended(high_) && ended(low_));
  EXPECT_EQ(high_.all().front().outcome, Outcome::Timeout);
  EXPECT_EQ(low_.all().front().outcome, Outcome::Timeout);
  EXPECT_LT(high_.all().front().end_time, low_.all().front().end_time);
  test::expect_healthy(*card_, *device_);
}

// A kernel of high priority that would go on for ever leaves the other one enough to come to its end.
TEST_P(CorePriority, LowEndsBesideHighThatDoesNot) {
  constexpr std::uint64_t kForEver = 1'000'000;
  const auto stream = run(kForEver, high_, StreamPriority::High);
  run(kBudget, low_, StreamPriority::Low);
  ASSERT_TRUE(ended(low_));
  EXPECT_EQ(low_.all().front().outcome, Outcome::Timeout);
  EXPECT_EQ(high_.count(), 0u);
  must(device_->reset_stream(stream));
  ASSERT_TRUE(ended(high_));
  test::expect_healthy(*card_, *device_);
}

INSTANTIATE_TEST_SUITE_P(Cores, FairCores, testing::Values(1, 2),
                         [](const auto& info) { return "OnCore" + std::to_string(info.param - 1); });
INSTANTIATE_TEST_SUITE_P(Cores, CorePriority, testing::Values(1, 2),
                         [](const auto& info) { return "OnCore" + std::to_string(info.param - 1); });

}  // namespace
}  // namespace svp
