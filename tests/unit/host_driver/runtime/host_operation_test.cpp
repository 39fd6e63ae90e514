// SPDX-License-Identifier: Apache-2.0
// HostOperations in the stream (HostTime::InStream) over the real firmware core on a thread: order, overlap, failures,
// resets.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/unit/host_driver/runtime/sum_rig.hpp"

namespace svp {
namespace {

using test::Gate;
using test::LaunchRecords;
using test::soon;
using test::SumRig;
using wire::Outcome;

constexpr std::size_t kThreads = HostCalls::kOperationThreads;

std::size_t standard(const HostOperationInput& input, std::span<std::byte> correction) {
  return build_correction(input, correction);
}

TEST(HostOperations, RunInTheOrderOfTheStreamOncePerTile) {
  SumRig rig;
  std::vector<std::uint32_t> tiles;  // no lock: one at a time, and each sees what the one before has done
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    tiles.push_back(input.tile);
    return standard(input, correction);
  });
  const auto arguments = rig.rows(300);
  rig.fill(arguments[0], 300 * 128, 5);
  rig.fill(arguments[1], 300 * 128, 7);
  LaunchRecords records[3];
  for (LaunchRecords& record : records) rig.launch(job, arguments, &record);
  rig.stream.Synchronize(soon());
  ASSERT_EQ(tiles.size(), 900u);
  for (std::size_t i = 0; i < tiles.size(); ++i) ASSERT_EQ(tiles[i], i % 300);
  EXPECT_EQ(rig.sum.tiles, 900u);
  for (const LaunchRecords& record : records) {
    EXPECT_EQ(record.blocks.size(), 600u);
    EXPECT_EQ(record.ended, 1u);
    EXPECT_EQ(record.outcome, Outcome::Ok);
  }
  EXPECT_EQ(rig.result(arguments[2], 299), 12);
}

TEST(HostOperations, LaunchingDoesNotWaitForThem) {
  SumRig rig;
  Gate gate;
  std::thread::id ran_on;
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    ran_on = std::this_thread::get_id();
    gate.pass();
    return standard(input, correction);
  });
  rig.launch(job, rig.rows(1));
  const auto event = rig.stream.Record();
  gate.wait_for_arrival();
  EXPECT_FALSE(rig.stream.Query());
  EXPECT_EQ(rig.sum.tiles, 0u);
  // Other streams go on meanwhile.
  const AllocationIndex memory = rig.runtime.allocator().allocate(128);
  FlexStream& other = rig.runtime.stream(1);
  other.Launch(Job::fill(memory, 128, 1), {});
  other.Synchronize(soon());
  gate.open();
  rig.stream.Synchronize(soon());
  EXPECT_NE(ran_on, std::this_thread::get_id());
  EXPECT_EQ(rig.sum.tiles, 1u);
}

// The card stands in the first tile until the operation of a later launch has run.
TEST(HostOperations, OfTheNextTilesAndJobsRunWhileTheCardComputes) {
  SumRig rig;
  std::promise<void> ran;
  const Job first = rig.job(standard);
  const Job second = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    if (input.tile == 9) ran.set_value();
    return standard(input, correction);
  });
  rig.sum.holds_at = 0;
  rig.launch(first, rig.rows(10));
  rig.launch(second, rig.rows(10));
  rig.sum.await_held();
  ran.get_future().wait();  // bounded: ctest ends the program
  EXPECT_EQ(rig.sum.tiles, 1u);
  rig.sum.let_go();
  rig.stream.Synchronize(soon());
  EXPECT_EQ(rig.sum.tiles, 20u);
}

TEST(HostOperations, MoreTilesThanArePlannedAtOnce) {
  SumRig rig;
  rig.sum.counts_only = true;
  constexpr std::int64_t kTiles = FlexStream::kMaxTilesAtOnce + 1000;
  std::atomic<std::uint64_t> calls = 0;
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    ++calls;
    return standard(input, correction);
  });
  const auto arguments = rig.rows(kTiles);
  rig.launch(job, arguments);
  rig.stream.Synchronize(FlexStream::Clock::now() + test_bounds::kCompute);
  EXPECT_EQ(calls, static_cast<std::uint64_t>(kTiles));
  EXPECT_EQ(rig.sum.tiles, static_cast<std::uint64_t>(kTiles));
  const Job at_launch = rig.job([](const auto& input, auto correction) { return build_correction(input, correction); },
                                HostTime::AtLaunch);
  EXPECT_THROW(rig.launch(at_launch, arguments), InvalidArgument);
}

// ---- failures -------------------------------------------------------------------------------------------------------

TEST(HostOperations, AFailureInTheMiddleEndsWhatIsBehindItOnce) {
  SumRig rig;
  bool fails = true;
  std::promise<void> both_launched;  // the failure must not overtake the second launch, which would throw
  const Job job = rig.job([&, launched = both_launched.get_future().share()](const HostOperationInput& input,
                                                                             std::span<std::byte> correction) {
    if (fails && input.tile == 5) {
      EXPECT_EQ(launched.wait_until(soon()), std::future_status::ready);
      throw std::runtime_error("no more paper");
    }
    return standard(input, correction);
  });
  LaunchRecords records, behind;
  const auto number = rig.launch(job, rig.rows(10), &records);
  rig.launch(job, rig.rows(2), &behind);
  both_launched.set_value();
  for (int i = 0; i < 2; ++i) {
    try {
      rig.stream.Synchronize(soon());
      FAIL() << "no error";
    } catch (const StreamError& error) {
      EXPECT_EQ(error.failure().launch, number);
      EXPECT_EQ(error.failure().tile, 5u);
      EXPECT_EQ(error.failure().outcome, Outcome::Fault);
      EXPECT_EQ(error.failure().job, "sum");
      EXPECT_NE(std::string(error.what()).find("no more paper"), std::string::npos) << error.what();
      EXPECT_TRUE(error.info().recoverable);
    }
  }
  EXPECT_EQ(rig.sum.tiles, 5u) << "what stood before it has run";
  ASSERT_EQ(records.blocks.size(), 12u);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(records.blocks[i].outcome, Outcome::Ok);
  EXPECT_EQ(records.blocks[10].outcome, Outcome::Fault);
  EXPECT_EQ(records.blocks[10].tile, 5u);
  EXPECT_EQ(records.blocks[10].step, 0u) << "the HostOperation";
  EXPECT_EQ(records.blocks[11].outcome, Outcome::Aborted) << "the tiles behind it";
  EXPECT_EQ(records.blocks[11].tile, 6u);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_EQ(records.outcome, Outcome::Fault);
  EXPECT_EQ(behind.ended, 1u);
  EXPECT_EQ(behind.outcome, Outcome::Aborted);
  EXPECT_THROW(rig.launch(job, rig.rows(1)), StreamError);
  rig.stream.Reset();
  fails = false;
  rig.launch(job, rig.rows(10));
  EXPECT_NO_THROW(rig.stream.Synchronize(soon()));
  EXPECT_EQ(rig.sum.tiles, 15u);
}

TEST(HostOperations, TheOnlyTilesFailureIsOneRecord) {
  SumRig rig;
  const Job job = rig.job([](const auto&, auto) -> std::size_t { throw 7; });
  LaunchRecords records;
  rig.launch(job, rig.rows(1), &records);
  EXPECT_THROW(rig.stream.Synchronize(soon()), StreamError);
  ASSERT_EQ(records.blocks.size(), 1u);
  EXPECT_EQ(records.blocks[0].outcome, Outcome::Fault);
  EXPECT_EQ(records.ended, 1u);
}

TEST(HostOperations, OneThatFillsTooMuchIsAnErrorOfTheStream) {
  SumRig rig;
  const Job job = rig.job([](const auto&, auto correction) { return correction.size() + 1; });
  rig.launch(job, rig.rows(1));
  EXPECT_THROW(rig.stream.Synchronize(soon()), StreamError);
}

// In the order of the stream: the tile that fails on the card stands before the one whose operation has thrown already.
TEST(HostOperations, AnErrorBeforeTheFailureIsTheFirst) {
  SumRig rig;
  std::promise<void> thrown;
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    if (input.tile == 1) {
      thrown.set_value();
      throw std::runtime_error("the second");
    }
    return standard(input, correction);
  });
  rig.sum.holds_at = 0;
  rig.sum.fails_at = 0;
  LaunchRecords records;
  rig.launch(job, rig.rows(3), &records);
  rig.sum.await_held();
  thrown.get_future().wait();  // bounded: ctest ends the program
  rig.sum.let_go();
  try {
    rig.stream.Synchronize(soon());
    FAIL() << "no error";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().tile, 0u);
    EXPECT_EQ(std::string(error.what()).find("the second"), std::string::npos) << error.what();
  }
  EXPECT_EQ(records.ended, 1u);
}

TEST(HostOperations, OneMayLaunchButNotWaitForAStream) {
  SumRig rig;
  FlexStream& other = rig.runtime.stream(1);
  const AllocationIndex memory = rig.runtime.allocator().allocate(128);
  std::string refused;
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    rig.card.pause();
    other.Launch(Job::fill(memory, 128, 1), {});
    try {
      other.Synchronize(soon());
    } catch (const Error& error) {
      refused = error.what();
    }
    rig.card.resume();
    return standard(input, correction);
  });
  rig.launch(job, rig.rows(1));
  rig.stream.Synchronize(soon());
  other.Synchronize(soon());
  EXPECT_NE(refused.find("a host operation tried to wait"), std::string::npos) << refused;
}

TEST(HostOperations, WhatOneHoldsIsReleasedWithItsLaunch) {
  SumRig rig;
  const auto held = std::make_shared<int>(1);
  for (const bool fails : {false, true}) {
    const Job job = rig.job([held, fails](const HostOperationInput& input, std::span<std::byte> correction) {
      if (fails) throw std::make_shared<int>(2);
      return standard(input, correction);
    });
    rig.launch(job, rig.rows(3));
    rig.plans.clear();
    if (fails) {
      EXPECT_THROW(rig.stream.Synchronize(soon()), StreamError);
    } else {
      rig.stream.Synchronize(soon());
    }
  }
  rig.stream.Reset();
  rig.stream.Synchronize(soon());
  EXPECT_EQ(held.use_count(), 1);
}

TEST(HostOperations, APlanOfTheirsHasNoOtherSteps) {
  const CompiledKernel compiled(test::sum_kernel(), {{"M", 1}, {"N", 64}});
  const Fill fill{.allocation_index = static_cast<AllocationIndex>(1), .size = 128};
  EXPECT_THROW(JobPlan({fill, HostOperation{build_correction, HostTime::InStream}, CorrectionDMA{},
                        *JobPlan::standard(compiled).compute()}),
               InvalidPlan);
}

// ---- streams --------------------------------------------------------------------------------------------------------

TEST(HostOperations, AFewThreadsServeManyStreams) {
  SumRig rig;
  rig.sum.counts_only = true;
  constexpr unsigned kStreams = 20;
  constexpr std::int64_t kTiles = 50;
  std::atomic<unsigned> now = 0, most = 0;
  std::vector<std::vector<std::uint32_t>> order(kStreams);
  std::vector<LaunchRecords> records(kStreams);
  for (unsigned s = 0; s < kStreams; ++s) {
    const Job job = rig.job([&, s](const HostOperationInput& input, std::span<std::byte> correction) {
      const unsigned at_once = ++now;
      for (unsigned seen = most; seen < at_once && !most.compare_exchange_weak(seen, at_once);) {
      }
      order[s].push_back(input.tile);
      --now;
      return standard(input, correction);
    });
    rig.runtime.stream(1 + s).Launch(job, rig.rows(kTiles), {.observer = &records[s]});
  }
  rig.runtime.synchronize(soon());
  EXPECT_LE(most, kThreads);
  EXPECT_EQ(rig.sum.tiles, kStreams * static_cast<std::uint64_t>(kTiles));
  for (unsigned s = 0; s < kStreams; ++s) {
    ASSERT_EQ(order[s].size(), static_cast<std::size_t>(kTiles));
    EXPECT_TRUE(std::ranges::is_sorted(order[s]));
    EXPECT_EQ(records[s].outcome, Outcome::Ok);
  }
}

TEST(HostOperations, AResetEndsTheLaunchOnceAndLaterOnesRunBehindIt) {
  SumRig rig;
  Gate gate;
  const Job standard_job = rig.standard();
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    if (input.tile == 2) gate.pass();
    return standard(input, correction);
  });
  LaunchRecords records, behind, after;
  rig.launch(job, rig.rows(5), &records);
  rig.launch(standard_job, rig.rows(1), &behind);
  gate.wait_for_arrival();
  rig.stream.Reset();
  rig.launch(standard_job, rig.rows(1), &after);
  EXPECT_FALSE(rig.stream.Query()) << "in order, also after the reset";
  gate.open();
  EXPECT_NO_THROW(rig.stream.Synchronize(soon()));
  EXPECT_EQ(records.ended, 1u);
  EXPECT_NE(records.outcome, Outcome::Ok);
  EXPECT_EQ(behind.ended, 1u);
  EXPECT_EQ(behind.outcome, Outcome::Aborted);
  EXPECT_EQ(after.outcome, Outcome::Ok);
  EXPECT_EQ(after.ended, 1u);
  EXPECT_LE(rig.sum.tiles, 3u) << "tile 2 never reached the card";
}

TEST(HostOperations, TheEndOfTheRuntimeWaitsForTheOneUnderWay) {
  LaunchRecords records;
  std::atomic<bool> returned = false;
  Gate gate;
  std::thread opener;
  {
    SumRig rig;
    const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
      gate.pass();
      returned = true;
      return standard(input, correction);
    });
    rig.launch(job, rig.rows(3), &records);
    gate.wait_for_arrival();
    opener = std::thread([&] { gate.open(); });
  }
  EXPECT_TRUE(returned);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_NE(records.outcome, Outcome::Ok);
  opener.join();  // bounded: it waits for nothing
}

TEST(HostOperations, TheDeathOfTheCardEndsTheLaunchOnce) {
  SumRig rig;
  Gate gate;
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    if (input.tile == 1) gate.pass();
    return standard(input, correction);
  });
  LaunchRecords records, behind;
  rig.launch(job, rig.rows(3), &records);
  rig.launch(job, rig.rows(3), &behind);
  gate.wait_for_arrival();
  rig.card.die();
  gate.open();
  EXPECT_THROW(rig.stream.Synchronize(soon()), StreamError);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_EQ(behind.ended, 1u);
  EXPECT_EQ(behind.outcome, Outcome::Lost);
}

// A recovery waits for the one that runs, and no other begins meanwhile. A reset by the owner does not wait.
TEST(HostOperations, OverEachResetLevel) {
  for (const ResetLevel level : {ResetLevel::Stream, ResetLevel::Queue, ResetLevel::Function}) {
    SCOPED_TRACE(spyre::name(level));
    RuntimeOptions options;
    options.elide_corrections = true;
    SumRig rig(options);
    Gate gate;
    std::atomic<unsigned> calls = 0;
    const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
      if (++calls == 2) gate.pass();
      return standard(input, correction);
    });
    LaunchRecords records, behind;
    constexpr unsigned kTiles = 20'000;
    rig.launch(job, rig.rows(kTiles), &records);
    rig.launch(job, rig.rows(2), &behind, true);
    gate.wait_for_arrival();
    std::thread resets([&] {
      if (level == ResetLevel::Stream) {
        rig.stream.Reset();
      } else {
        EXPECT_EQ(rig.runtime.recover(level).level(), level);
      }
    });
    if (level == ResetLevel::Stream) resets.join();  // bounded: a reset is
    gate.open();
    if (level != ResetLevel::Stream) resets.join();  // bounded: a recovery is
    while (!rig.stream.Query()) {                    // bounded: the operation has been let go
    }
    EXPECT_EQ(records.ended, 1u);
    EXPECT_NE(records.outcome, Outcome::Ok);
    EXPECT_EQ(behind.ended, 1u);
    EXPECT_EQ(behind.outcome, Outcome::Aborted);
    EXPECT_LT(calls, kTiles) << "a recovery does not wait for all of them";
    // Everything works again, with a barrier that has nothing in front of it.
    const unsigned before = calls;
    if (level == ResetLevel::Function) rig.plans.back().load(rig.runtime, rig.stream);
    LaunchRecords after;
    rig.stream.PipelineBarrier();
    rig.launch(rig.plans.back().jobs()[0], rig.rows(5), &after);
    rig.stream.Synchronize(soon());
    EXPECT_EQ(after.outcome, Outcome::Ok);
    EXPECT_EQ(calls, before + 5);
  }
}

// ---- RecoveryPolicy::Recover ----------------------------------------------------------------------------------------

RuntimeOptions recovers() {
  RuntimeOptions options;
  options.recovery.policy = RecoveryPolicy::Recover;
  return options;
}

TEST(HostOperations, WhatStoodBehindAFailureIsSentAgain) {
  SumRig rig(recovers());
  const Job throws = rig.job([](const auto&, auto) -> std::size_t { throw std::runtime_error("no"); });
  unsigned calls = 0;
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    ++calls;
    return standard(input, correction);
  });
  LaunchRecords records;
  rig.sum.holds_at = 0;
  rig.launch(rig.plans[1].jobs()[0], rig.rows(1));
  rig.sum.await_held();
  rig.launch(throws, rig.rows(1));
  rig.launch(job, rig.rows(4), &records);
  rig.sum.let_go();
  EXPECT_THROW(rig.stream.Synchronize(soon()), StreamError);
  rig.stream.Synchronize(soon());
  EXPECT_EQ(records.outcome, Outcome::Ok);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_EQ(calls, 5u);
  EXPECT_EQ(rig.sum.tiles, 5u);
}

// The block in front fails while the operation runs: its launch had not started, and is sent again when that has
// returned.
TEST(HostOperations, OneThatRunsWhileTheStreamFailsIsSentAgainWhole) {
  SumRig rig(recovers());
  Gate gate;
  const Job first = rig.standard();
  const Job job = rig.job([&](const HostOperationInput& input, std::span<std::byte> correction) {
    if (input.tile == 1) gate.pass();
    return standard(input, correction);
  });
  LaunchRecords records;
  rig.sum.holds_at = 0;
  rig.sum.fails_at = 0;
  rig.launch(first, rig.rows(1));
  rig.sum.await_held();
  rig.launch(job, rig.rows(3), &records);
  gate.wait_for_arrival();
  rig.sum.let_go();
  std::thread opener([&] { gate.open(); });
  EXPECT_THROW(rig.stream.Synchronize(soon()), StreamError);
  rig.stream.Synchronize(soon());
  opener.join();  // bounded: it waits for nothing
  EXPECT_EQ(records.outcome, Outcome::Ok);
  EXPECT_EQ(records.ended, 1u);
  EXPECT_EQ(rig.sum.tiles, 4u);
}

}  // namespace
}  // namespace svp
