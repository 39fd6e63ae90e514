// SPDX-License-Identifier: Apache-2.0
// RuntimeOptions::elide_corrections, and the memory of a stream's slots, over the real firmware core on a thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/host_driver/runtime/sum_rig.hpp"

namespace svp {
namespace {

using test::LaunchRecords;
using test::soon;
using test::SumRig;
using wire::Outcome;

RuntimeOptions elides(RecoveryPolicy policy = RecoveryPolicy::Manual) {
  RuntimeOptions options;
  options.elide_corrections = true;
  options.recovery.policy = policy;
  return options;
}

// Of the correction DMAs of a launch, how many went to the card.
std::size_t sent(const LaunchRecords& records) {
  return static_cast<std::size_t>(std::ranges::count_if(records.blocks, [](const BlockRecord& block) {
    return block.opcode == wire::Opcode::Dma && block.sequence != 0;
  }));
}

class Elision : public testing::Test {
 protected:
  explicit Elision(RuntimeOptions options = elides()) : rig_(std::move(options)) {}

  std::size_t run(const Job& job, std::span<const Argument> arguments) {
    LaunchRecords records;
    rig_.launch(job, arguments, &records);
    rig_.stream.Synchronize(soon());
    EXPECT_EQ(records.outcome, Outcome::Ok);
    EXPECT_EQ(records.ended, 1u);
    EXPECT_EQ(records.blocks.size(), static_cast<std::size_t>(2 * arguments[0].shape[0]));
    for (const BlockRecord& block : records.blocks) EXPECT_EQ(block.outcome, Outcome::Ok);
    return sent(records);
  }
  // C = A + B with other numbers each time: the kernel has been told the right places.
  void expect_right(const Job& job, std::span<const Argument> arguments) {
    ++number_;
    rig_.fill(arguments[0], 128, number_);
    rig_.fill(arguments[1], 128, 1000);
    rig_.launch(job, arguments);
    EXPECT_EQ(rig_.result(arguments[2], 0), number_ + 1000);
  }

  SumRig rig_;
  std::uint16_t number_ = 0;
};

TEST_F(Elision, TheSameLaunchAgainSendsNoCorrection) {
  const Job job = rig_.standard();
  const auto arguments = rig_.rows(1);
  EXPECT_EQ(run(job, arguments), 1u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(run(job, arguments), 0u);
  expect_right(job, arguments);
}

// As many as operations of a model, say: a set of slots has room for those that fall together.
TEST_F(Elision, SeveralLaunchesInTurnKeepTheirSlots) {
  const Job job = rig_.standard();
  std::vector<std::vector<Argument>> of(SlotMemory::kMostSlots / 8);
  for (auto& arguments : of) arguments = rig_.rows(1);
  for (const auto& arguments : of) EXPECT_EQ(run(job, arguments), 1u);
  for (int round = 0; round < 3; ++round) {
    for (const auto& arguments : of) EXPECT_EQ(run(job, arguments), 0u);
  }
  for (const auto& arguments : of) expect_right(job, arguments);
}

// More of them than slots, in a row and at random: each gets its own bytes.
TEST_F(Elision, MoreLaunchesThanSlotsAreRight) {
  const Job job = rig_.standard();
  std::vector<std::vector<Argument>> of(SlotMemory::kMostSlots + 44);
  for (auto& arguments : of) arguments = rig_.rows(1);
  std::mt19937 random(11);
  for (int i = 0; i < 600; ++i) expect_right(job, of[random() % of.size()]);
}

// Many at once: the card takes a part of a batch, and the rest comes again.
TEST_F(Elision, ABatchOfWhichTheCardTakesAPartIsRight) {
  const Job job = rig_.standard();
  std::vector<std::vector<Argument>> of(SlotMemory::kWays + 1);
  for (auto& arguments : of) arguments = rig_.rows(1);
  std::mt19937 random(12);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::uint16_t> expected(of.size(), 0);
    for (std::size_t i = 0; i < of.size(); ++i) {
      rig_.fill(of[i][0], 128, static_cast<std::uint16_t>(round + 1));
      rig_.fill(of[i][1], 128, static_cast<std::uint16_t>(i));
      rig_.fill(of[i][2], 128, 0);
    }
    rig_.stream.Synchronize(soon());
    rig_.card.pause();
    for (int i = 0; i < 200; ++i) {
      const std::size_t which = random() % of.size();
      rig_.launch(job, of[which]);
      expected[which] = static_cast<std::uint16_t>(round + 1 + which);
    }
    rig_.card.resume();
    rig_.stream.Synchronize(soon());
    for (std::size_t i = 0; i < of.size(); ++i) EXPECT_EQ(rig_.result(of[i][2], 0), expected[i]) << round << ", " << i;
  }
}

TEST_F(Elision, ATiledLaunchOfTheSameTensorsHasOnlyItsTilesToSend) {
  const Job job = rig_.standard();
  const auto one = rig_.rows(1), many = rig_.rows(16);
  EXPECT_EQ(run(job, many), 16u);
  EXPECT_EQ(run(job, many), 0u);
  EXPECT_EQ(run(job, one), 1u);
  EXPECT_EQ(run(job, many), 0u);
}

TEST_F(Elision, AfterAFailureAndAResetTheCorrectionIsSentAgain) {
  const Job job = rig_.standard();
  const auto arguments = rig_.rows(1);
  EXPECT_EQ(run(job, arguments), 1u);
  rig_.sum.fails_at = 1;
  LaunchRecords failed, behind;
  rig_.card.pause();
  rig_.launch(job, arguments, &failed);
  rig_.launch(job, arguments, &behind);
  rig_.card.resume();
  EXPECT_THROW(rig_.stream.Synchronize(soon()), StreamError);
  ASSERT_EQ(failed.blocks.size(), 2u);
  EXPECT_EQ(failed.blocks[0].outcome, Outcome::Ok) << "what was left out was there";
  EXPECT_EQ(failed.blocks[1].outcome, Outcome::Fault);
  ASSERT_EQ(behind.blocks.size(), 2u);
  for (const BlockRecord& block : behind.blocks) EXPECT_EQ(block.outcome, Outcome::Aborted);
  EXPECT_EQ(behind.ended, 1u);
  rig_.stream.Reset();
  EXPECT_EQ(run(job, arguments), 1u);
  expect_right(job, arguments);
}

class RecoveredElision : public Elision {
 protected:
  RecoveredElision() : Elision(elides(RecoveryPolicy::Recover)) {}
};

TEST_F(RecoveredElision, WhatIsSentAgainSendsItsCorrectionAgain) {
  const Job job = rig_.standard();
  const auto arguments = rig_.rows(1), others = rig_.rows(1);
  EXPECT_EQ(run(job, arguments), 1u);
  rig_.sum.fails_at = 1;
  LaunchRecords behind;
  rig_.card.pause();
  rig_.launch(job, others);
  rig_.launch(job, arguments, &behind);
  rig_.card.resume();
  EXPECT_THROW(rig_.stream.Synchronize(soon()), StreamError);
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(behind.outcome, Outcome::Ok);
  EXPECT_EQ(behind.ended, 1u);
  EXPECT_EQ(sent(behind), 1u);
  expect_right(job, arguments);
}

TEST_F(Elision, AfterEachResetLevelTheCorrectionIsSentAgain) {
  (void)rig_.standard();
  for (const ResetLevel level : {ResetLevel::Stream, ResetLevel::Queue, ResetLevel::Function}) {
    SCOPED_TRACE(spyre::name(level));
    const auto arguments = rig_.rows(1);
    const std::uint64_t sent_before = run(rig_.plans[0].jobs()[0], arguments);
    EXPECT_EQ(sent_before, 1u);
    EXPECT_EQ(run(rig_.plans[0].jobs()[0], arguments), 0u);
    if (level == ResetLevel::Stream) {
      rig_.stream.Reset();
    } else {
      (void)rig_.runtime.recover(level);
    }
    if (level == ResetLevel::Function) {
      rig_.plans[0].load(rig_.runtime, rig_.stream);
      EXPECT_EQ(run(rig_.plans[0].jobs()[0], rig_.rows(1)), 1u);
    } else {
      EXPECT_EQ(run(rig_.plans[0].jobs()[0], arguments), 1u);
    }
    const auto fresh = rig_.rows(1);
    expect_right(rig_.plans[0].jobs()[0], fresh);
  }
}

// ---- the RFC's sequence ---------------------------------------------------------------------------------------------

class NoElision : public Elision {
 protected:
  NoElision() : Elision(RuntimeOptions{}) {}
};

TEST_F(NoElision, EachLaunchSendsItsCorrection) {
  const Job job = rig_.standard();
  const auto arguments = rig_.rows(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(job, arguments), 3u);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

std::shared_ptr<const Kernel> kernel_with(std::uint64_t correction_bytes) {
  const auto image = test::make_image(1024, correction_bytes);
  std::string text(R"({"format": 1, "name": "sized", "image_bytes": )" + std::to_string(image.size()) +
                   R"(, "image_crc32c": )" + std::to_string(test::crc_of(image)) +
                   R"(, "scratchpad_bytes": 0, "correction_bytes": )" + std::to_string(correction_bytes) +
                   R"(, "operands": [
    {"name": "c", "access": "write", "dtype": "dl16", "layout": "stick", "shape": ["M", "N"]}],
  "symbols": [{"kind": "address", "operand": 0}], "functions": []})");
  return Kernel::from_memory(image, text);
}

class SlotSizes : public Elision {
 protected:
  explicit SlotSizes(RuntimeOptions options = elides()) : Elision(std::move(options)) { rig_.sum.counts_only = true; }

  Job job_with(std::uint64_t correction_bytes) {
    return rig_.load(Job(CompiledKernel(kernel_with(correction_bytes), {{"M", 1}, {"N", 64}})));
  }
  void launch(const Job& job) { rig_.stream.Launch(job, std::span(&operand_, 1)); }
  std::uint64_t allocated_bytes() { return rig_.runtime.allocator().memory_stats().allocated_bytes.current; }

  const Argument operand_{.allocation = rig_.runtime.allocator().allocate(128), .shape = {1, 64}};
};

TEST_F(SlotSizes, AreThoseOfTheLargestCorrectionAndWhatIsReplacedIsGivenBack) {
  const Job small = job_with(512), large = job_with(4096);
  const std::uint64_t before = allocated_bytes();
  launch(small);
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(allocated_bytes() - before, SlotMemory::kRoom);
  // The card stands in a launch that uses the small ones.
  rig_.sum.holds_at = 1;
  launch(small);
  rig_.sum.await_held();
  launch(large);
  EXPECT_EQ(allocated_bytes() - before, 2 * SlotMemory::kRoom) << "both are in use";
  rig_.sum.let_go();
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(allocated_bytes() - before, SlotMemory::kRoom);
  launch(small);
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(allocated_bytes() - before, SlotMemory::kRoom) << "large ones serve small corrections";
  EXPECT_EQ(rig_.sum.tiles, 4u);
}

// Without anything else that asks for more slots: one core, and every correction is sent.
class LargeCorrections : public SlotSizes {
 protected:
  LargeCorrections() : SlotSizes(RuntimeOptions{}) {}

  // All of the Program region.
  void use_up_program_memory() {
    for (std::uint64_t bytes = 512 * wire::kMiB; bytes >= wire::kStickBytes;) {
      if (!rig_.runtime.allocator().try_allocate(bytes, {.type = RegionType::Program})) bytes /= 2;
    }
  }
};

TEST_F(LargeCorrections, HaveSlotsThatTheMetadataSizes) {
  const Job small = job_with(Runtime::kCorrectionSlotBytes), large = job_with(wire::kMaxCorrectionBytes);
  const std::uint64_t before = allocated_bytes();
  launch(small);
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(allocated_bytes(), before) << "the slot from the start";
  launch(large);
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(allocated_bytes() - before, SlotMemory::kWays * wire::kMaxCorrectionBytes);
  EXPECT_EQ(rig_.sum.tiles, 2u);
}

TEST_F(LargeCorrections, WithoutMemoryForSlotsALaunchIsRefusedAndTheStreamGoesOn) {
  const Job small = job_with(Runtime::kCorrectionSlotBytes), large = job_with(wire::kMaxCorrectionBytes);
  use_up_program_memory();
  EXPECT_THROW(launch(large), OutOfMemory);
  launch(small);
  rig_.stream.Synchronize(soon());
  EXPECT_EQ(rig_.sum.tiles, 1u);
}

}  // namespace
}  // namespace svp
