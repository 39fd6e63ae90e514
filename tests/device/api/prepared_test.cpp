// SPDX-License-Identifier: Apache-2.0
// Prepared launches and captures of the C++ API on a booted card: results, patches, errors, and what resets leave.
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <spyre/spyre.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/device/api/api_card.hpp"

namespace {

using spyre::SpyreTensor;

class ApiPrepared : public ApiAddition {
 protected:
  static spyre::Job added() { return addition().jobs()[0]; }
};

TEST_F(ApiPrepared, APreparedLaunchComputesWhatTheLaunchComputes) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0), other = filled(0);
  // sum = sum' + 1, and sum' = sum + 1: two in each round.
  const auto there = spyre::Prepare(stream, job, std::array{sum, one, other});
  const auto back = spyre::Prepare(stream, job, std::array{other, one, sum});
  for (int i = 0; i < 100; ++i) {
    there.Launch(stream);
    back.Launch(stream);
  }
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum), 200.0F);
}

TEST_F(ApiPrepared, APatchGivesOtherTensorsToWhatIsLaunchedBehindIt) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), two = filled(2), first = filled(0), second = filled(0);
  const auto add = spyre::Prepare(stream, job, std::array{one, one, first});
  add.Launch(stream);
  add.Patch(stream, 0, std::array{two, two, second});
  add.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(first), 2.0F);
  EXPECT_EQ(first_of(second), 4.0F);
  // Another shape, of one tile as well.
  const SpyreTensor small = filled(5, 16), small_sum = filled(0, 16);
  add.Patch(stream, 0, std::array{small, small, small_sum});
  add.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(small_sum, 16), 10.0F);
  // The tensors of the patch before are free.
  EXPECT_EQ(first_of(second), 4.0F);
}

TEST_F(ApiPrepared, TilesAreLaunchedAsOne) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1, 4 * kRows), sum = filled(0, 4 * kRows);
  const auto add = spyre::Prepare(stream, job, std::array{one, one, sum});
  add.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum, 4 * kRows), 2.0F);
  const SpyreTensor few = filled(1), few_sum = filled(0);
  EXPECT_THROW(add.Patch(stream, 0, std::array{few, few, few_sum}), spyre::InvalidArgument) << "fewer tiles";
}

TEST_F(ApiPrepared, ACaptureIsReplayedInOrderAndComposed) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), a = filled(0), b = filled(0);
  spyre::StreamCapture step(stream);
  step.Launch(job, std::array{a, one, b});
  step.Launch(job, std::array{b, one, a});
  spyre::StreamCapture all(stream);
  EXPECT_EQ(all.Add(step), 0u);
  EXPECT_EQ(all.Add(step), 2u);
  EXPECT_EQ(all.Add(all), 4u);
  const auto graph = all.Instantiate();
  EXPECT_EQ(graph.size(), 8u);
  for (int i = 0; i < 10; ++i) graph.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(a), 80.0F);
  // One of its launches works on something else from now on: a counts seven, not eight.
  const SpyreTensor c = filled(0);
  graph.Patch(stream, 7, std::array{one, one, c});
  graph.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(c), 2.0F);
  EXPECT_EQ(first_of(a), 86.0F);
}

TEST_F(ApiPrepared, TheErrorOfAKernelNamesItsJobAndNothingBehindItRuns) {
  const auto job = added();
  const auto spin = loaded("spin", {});
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0);
  spyre::StreamCapture capture(stream);
  capture.Launch(job, std::array{one, one, sum});
  capture.Launch(spin.jobs()[0], {}, {.budget_slices = 10});
  capture.Launch(job, std::array{sum, sum, one});
  const auto graph = capture.Instantiate();
  graph.Launch(stream);
  try {
    stream.Synchronize(soon());
    FAIL() << "no error";
  } catch (const spyre::StreamError& error) {
    EXPECT_EQ(error.failure().job, "spin") << error.what();
    EXPECT_EQ(error.failure().outcome, spyre::Outcome::Timeout);
    EXPECT_EQ(error.failure().status, spyre::Status::WatchdogExpired);
  }
  stream.Reset();
  EXPECT_EQ(first_of(sum), 2.0F);
  EXPECT_EQ(first_of(one), 1.0F);
}

TEST_F(ApiPrepared, SeveralStreamsAndThreadsLaunchThem) {
  const auto job = added();
  const SpyreTensor one = filled(1);
  std::vector<std::thread> threads;
  std::vector<SpyreTensor> sums;
  threads.reserve(3);
  sums.reserve(3);
  for (int t = 0; t < 3; ++t) sums.push_back(filled(0));
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      auto stream = context().stream();
      const auto add = spyre::Prepare(stream, job, std::array{one, one, sums[t]});
      for (int i = 0; i < 50; ++i) add.Launch(stream);
      stream.Synchronize(soon());
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each of them waits until soon() at most
  for (const SpyreTensor& sum : sums) EXPECT_EQ(first_of(sum), 2.0F);
}

TEST_F(ApiPrepared, EmptyOnesAreRefused) {
  auto stream = context().stream();
  EXPECT_THROW(spyre::PreparedLaunches().Launch(stream), spyre::InvalidArgument);
  EXPECT_THROW(spyre::PreparedLaunches().Patch(stream, 0, {}), spyre::InvalidArgument);
  EXPECT_THROW((void)spyre::StreamCapture(stream).Instantiate(), spyre::InvalidArgument);
  EXPECT_EQ(spyre::PreparedLaunches().size(), 0u);
}

TEST_F(ApiPrepared, AResetOfTheFunctionEndsThemAndTheyArePreparedAgain) {
  auto stream = context().stream();
  {
    const auto job = added();
    const SpyreTensor one = filled(1), sum = filled(0);
    const auto add = spyre::Prepare(stream, job, std::array{one, one, sum});
    add.Launch(stream);
    stream.Synchronize(soon());
    (void)context().recover(spyre::ResetLevel::Function);
    try {
      add.Launch(stream);
      FAIL() << "it was launched";
    } catch (const spyre::Error& error) {
      EXPECT_EQ(error.info().status, spyre::Status::StaleCommandBuffer) << error.what();
    }
  }
  const auto job = added();
  const SpyreTensor one = filled(1), sum = filled(0);
  spyre::Prepare(stream, job, std::array{one, one, sum}).Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum), 2.0F);
}

}  // namespace
