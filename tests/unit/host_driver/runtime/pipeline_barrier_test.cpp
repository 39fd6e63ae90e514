// SPDX-License-Identifier: Apache-2.0
// Pipeline barriers over the real firmware core on a thread: what stands behind one begins when everything before it
// has ended.
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "host_driver/runtime/event.hpp"
#include "tests/unit/host_driver/runtime/sum_rig.hpp"

namespace svp {
namespace {

using test::LaunchRecords;
using test::soon;
using test::SumRig;
using wire::Outcome;

class PipelineBarrier : public testing::Test {
 protected:
  // What the HostOperation of `job` finds when it runs: whether the launch before it has ended.
  Job looks() {
    return rig_.job([this](const HostOperationInput& input, std::span<std::byte> correction) {
      found_ended_.push_back(first_.ended);
      ran_.count_down();
      return build_correction(input, correction);
    });
  }
  // The card stands in the only tile of a launch.
  void hold_the_card(const Job& job) {
    rig_.sum.holds_at = 0;
    rig_.launch(job, rig_.rows(1), &first_);
    rig_.sum.await_held();
  }

  SumRig rig_;
  LaunchRecords first_;
  std::vector<unsigned> found_ended_;
  std::latch ran_{1};
};

TEST_F(PipelineBarrier, WithoutOneTheOperationOverlapsWithTheComputation) {
  const Job job = looks(), standard = rig_.standard();
  hold_the_card(standard);
  rig_.launch(job, rig_.rows(1));
  ran_.wait();  // bounded: ctest ends the program
  rig_.sum.let_go();
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(found_ended_, (std::vector<unsigned>{0}));
}

TEST_F(PipelineBarrier, TheOperationOfALaunchBehindOneBeginsAfterwards) {
  const Job job = looks(), standard = rig_.standard();
  hold_the_card(standard);
  rig_.launch(job, rig_.rows(1), nullptr, true);
  rig_.sum.let_go();
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(found_ended_, (std::vector<unsigned>{1}));
}

TEST_F(PipelineBarrier, TheCallIsForTheNextLaunchAndWhatStandsBehindThat) {
  const Job job = looks(), standard = rig_.standard();
  hold_the_card(standard);
  LaunchRecords barrier, behind;
  rig_.stream.PipelineBarrier();
  rig_.launch(standard, rig_.rows(1), &barrier);
  rig_.launch(job, rig_.rows(1), &behind);
  rig_.sum.let_go();
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(found_ended_, (std::vector<unsigned>{1}));
  ASSERT_EQ(barrier.blocks.size(), 2u);
  EXPECT_GE(barrier.blocks[0].start_time, first_.blocks[1].end_time);
  EXPECT_EQ(behind.outcome, Outcome::Ok);
}

TEST_F(PipelineBarrier, NoBlockBehindOneIsWithTheCardBefore) {
  const Job standard = rig_.standard();
  const auto with_the_card = [&] { return rig_.runtime.device().outstanding(rig_.stream.stream_index()); };
  hold_the_card(standard);
  const auto arguments = rig_.rows(1);
  std::size_t before = with_the_card();
  rig_.launch(standard, arguments);
  EXPECT_GT(with_the_card(), before) << "without one it is";
  before = with_the_card();
  rig_.launch(standard, arguments, nullptr, true);
  EXPECT_LE(with_the_card(), before);
  rig_.sum.let_go();
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(rig_.sum.tiles, 3u);
}

TEST_F(PipelineBarrier, EveryKindOfLaunchMayStandBehindOne) {
  const Job standard = rig_.standard();
  const auto arguments = rig_.rows(200);
  std::vector<std::byte> there(200 * 128, std::byte{1}), back(there.size());
  for (int round = 0; round < 20; ++round) {
    bool called = false;
    rig_.stream.PipelineBarrier();
    rig_.stream.Launch(Job::to_device(there.data(), arguments[0].allocation, there.size()), {});
    rig_.stream.PipelineBarrier();
    rig_.launch(standard, arguments);
    rig_.stream.PipelineBarrier();
    rig_.stream.Launch(Job::from_device(back.data(), arguments[0].allocation, back.size()), {});
    rig_.stream.PipelineBarrier();
    rig_.stream.LaunchHost([&] { called = back == there; });
    rig_.stream.PipelineBarrier();
    const auto event = rig_.stream.Record();
    rig_.runtime.stream(1).PipelineBarrier();
    rig_.runtime.stream(1).Wait(event);
    rig_.runtime.stream(1).Synchronize(soon());
    rig_.stream.Synchronize(soon());
    EXPECT_TRUE(called);
    std::ranges::fill(back, std::byte{0});
  }
  EXPECT_EQ(rig_.sum.tiles, 20u * 200);
}

TEST_F(PipelineBarrier, AFailureBeforeOneEndsWhatIsBehindIt) {
  const Job job = looks(), standard = rig_.standard();
  rig_.sum.fails_at = 0;
  hold_the_card(standard);
  LaunchRecords behind;
  rig_.launch(job, rig_.rows(1), &behind, true);
  rig_.sum.let_go();
  EXPECT_THROW(rig_.stream.Synchronize(soon()), StreamError);
  EXPECT_TRUE(found_ended_.empty()) << "its operation never began";
  EXPECT_EQ(behind.outcome, Outcome::Aborted);
  EXPECT_EQ(behind.ended, 1u);
  EXPECT_THROW(rig_.stream.PipelineBarrier(), StreamError);
  rig_.stream.Reset();
  rig_.stream.PipelineBarrier();
  rig_.launch(standard, rig_.rows(1));
  EXPECT_NO_THROW(rig_.stream.Synchronize(soon()));
}

TEST_F(PipelineBarrier, AResetEndsWhatWaitsAtOne) {
  const Job standard = rig_.standard();
  hold_the_card(standard);
  LaunchRecords behind;
  rig_.launch(standard, rig_.rows(3), &behind, true);
  std::thread resets([&] { rig_.stream.Reset(); });
  rig_.sum.let_go();
  resets.join();  // bounded: a reset is
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(behind.ended, 1u);
}

}  // namespace
}  // namespace svp
