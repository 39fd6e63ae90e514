// SPDX-License-Identifier: Apache-2.0
// Which occurrences fire: matching, counting, evidence, and what cannot be armed.
#include "firmware/core/fault_table.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "firmware/core/launch_limits.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/platform/host/native_board.hpp"

namespace {

using fw::FaultTable;
using fw::Occurrence;
using wire::FaultAction;
using wire::FaultPoint;
using wire::FaultSpec;
using wire::Status;

constexpr std::uint32_t kFunctions = 4;

FaultSpec spec(FaultPoint point, FaultAction action) {
  FaultSpec s{};
  s.point = point;
  s.action = action;
  s.trigger.function = wire::kAnyFunction;
  s.trigger.stream = wire::kAnyStream;
  s.trigger.opcode = wire::kAnyOpcode;
  s.trigger.progress = wire::kAnyProgress;
  s.trigger.core = wire::kAnyCore;
  s.trigger.first = 1;
  return s;
}
FaultSpec abort_spec() { return spec(FaultPoint::DmaStep, FaultAction::Abort); }

class Faults : public testing::Test {
 protected:
  // The numbers of those of `count` occurrences that fired, from 1.
  std::vector<int> fired(int count, const Occurrence& occurrence = {.function = 2}) {
    std::vector<int> numbers;
    for (int i = 1; i <= count; ++i) {
      if (table_.occur(FaultPoint::DmaStep, occurrence)) numbers.push_back(i);
    }
    return numbers;
  }
  wire::FaultEvidence evidence(std::uint32_t row = 0) {
    wire::FaultEvidence e{};
    EXPECT_TRUE(table_.query(row, e).ok());
    return e;
  }

  native::Board board_{{}};
  FaultTable table_;
};

TEST_F(Faults, ATableStartsDisarmedAndEndsDisarmed) {
  EXPECT_FALSE(table_.armed_any(~std::uint64_t{0}));
  ASSERT_TRUE(table_.arm(abort_spec(), 0).ok());
  EXPECT_TRUE(table_.armed(FaultPoint::DmaStep));
  EXPECT_FALSE(table_.armed(FaultPoint::Completion));
  table_.disarm_all();
  EXPECT_FALSE(table_.armed_any(~std::uint64_t{0}));
  EXPECT_TRUE(fired(3).empty());
}

TEST_F(Faults, FirstEveryAndShotsSayWhichOccurrencesFire) {
  const struct {
    std::uint64_t first, every, shots;
    std::vector<int> fires;
  } kCases[] = {{1, 0, 0, {1}},       {3, 0, 0, {3}},    {1, 1, 0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
                {2, 3, 0, {2, 5, 8}}, {2, 3, 2, {2, 5}}, {10, 1, 1, {10}},
                {11, 1, 0, {}},       {4, 100, 0, {4}},  {1, 1, 3, {1, 2, 3}}};
  for (const auto& c : kCases) {
    auto s = abort_spec();
    s.trigger.first = c.first;
    s.trigger.every = c.every;
    s.trigger.shots = c.shots;
    ASSERT_TRUE(table_.arm(s, 0).ok());
    EXPECT_EQ(fired(10), c.fires) << c.first << " " << c.every << " " << c.shots;
    const auto e = evidence();
    EXPECT_EQ(e.counted, 10u);
    EXPECT_EQ(e.fired, c.fires.size());
    EXPECT_EQ(e.first_time != 0, !c.fires.empty());
    EXPECT_GE(e.last_time, e.first_time);
    const bool open = (c.shots == 0 || e.fired < c.shots) && (c.every != 0 || c.first > 10);
    EXPECT_EQ(e.armed, open ? 1u : 0u);
    table_.disarm_all();
  }
}

TEST_F(Faults, WhatDoesNotMatchIsNotCounted) {
  const Occurrence good{.function = 2, .stream = 5, .opcode = 1, .sequence = 9};
  const std::vector<std::function<void(Occurrence&)>> others = {
      [](Occurrence& o) { o.function = 1; }, [](Occurrence& o) { o.stream = 4; }, [](Occurrence& o) { o.opcode = 2; },
      [](Occurrence& o) { o.sequence = 8; }};
  auto s = abort_spec();
  s.trigger.function = 2, s.trigger.stream = 5, s.trigger.opcode = 1, s.trigger.sequence = 9, s.trigger.every = 1;
  ASSERT_TRUE(table_.arm(s, 0).ok());
  for (const auto& change : others) {
    Occurrence other = good;
    change(other);
    EXPECT_FALSE(table_.occur(FaultPoint::DmaStep, other));
  }
  EXPECT_FALSE(table_.occur(FaultPoint::Completion, good));
  EXPECT_EQ(evidence().counted, 0u);
  EXPECT_TRUE(table_.occur(FaultPoint::DmaStep, good));
  const auto e = evidence();
  EXPECT_EQ(e.function, 2u);
  EXPECT_EQ(e.stream, 5u);
  EXPECT_EQ(e.sequence, 9u);
  EXPECT_EQ(e.hart, 0u);
}

TEST_F(Faults, NothingFiresBeforeItsTime) {
  auto s = abort_spec();
  s.trigger.every = 1;
  s.trigger.not_before = hal::now() + 1'000'000'000;
  ASSERT_TRUE(table_.arm(s, 0).ok());
  EXPECT_TRUE(fired(5).empty());
  EXPECT_EQ(evidence().counted, 0u);
  table_.disarm_all();
  s.trigger.not_before = hal::now();
  ASSERT_TRUE(table_.arm(s, 0).ok());
  EXPECT_EQ(fired(1).size(), 1u);
}

TEST_F(Faults, WhatOneRowBreaksIsNoOccurrenceForTheNext) {
  auto s = abort_spec();
  ASSERT_TRUE(table_.arm(s, 0).ok());
  s.fault = 1;
  ASSERT_TRUE(table_.arm(s, 0).ok());
  EXPECT_EQ(fired(5), (std::vector{1, 2}));
  EXPECT_EQ(evidence(0).fired, 1u);
  EXPECT_EQ(evidence(1).fired, 1u);
  EXPECT_EQ(evidence(1).counted, 4u) << "it never saw the first";
}

TEST_F(Faults, AMemoryFaultFiresWhereItsPlaceIsTouched) {
  auto s = spec(FaultPoint::Memory, FaultAction::Uncorrectable);
  s.trigger.function = 1;
  s.trigger.every = 1;
  ASSERT_TRUE(table_.arm(s, 4096).ok());
  const auto touch = [&](std::uint64_t begin, std::uint64_t end) {
    return table_.occur(FaultPoint::Memory, {.function = 1, .memory_begin = begin, .memory_end = end});
  };
  EXPECT_FALSE(touch(0, 4096));
  EXPECT_FALSE(touch(4097, 8192));
  const auto shot = touch(4096, 4097);
  ASSERT_TRUE(shot);
  EXPECT_EQ(shot->place, 4096u);
  EXPECT_TRUE(touch(0, 1 << 20));
}

TEST_F(Faults, CoreAndProgressSayWhichSlicesCount) {
  const struct {
    std::uint32_t core, progress;
    std::vector<bool> fires;  // at core 0 without progress, core 0 at 3, core 1 at 3, core 1 at 4
  } kCases[] = {{wire::kAnyCore, wire::kAnyProgress, {true, true, true, true}},
                {wire::kAnyCore, wire::kSomeProgress, {false, true, true, true}},
                {wire::kAnyCore, 3, {false, true, true, false}},
                {1, wire::kAnyProgress, {false, false, true, true}},
                {1, 4, {false, false, false, true}}};
  for (const auto& c : kCases) {
    auto s = spec(FaultPoint::Kernel, FaultAction::Hang);
    s.trigger.core = c.core;
    s.trigger.progress = c.progress;
    s.trigger.every = 1;
    s.trigger.shots = 0;
    ASSERT_TRUE(table_.arm(s, 0).ok());
    const Occurrence slices[] = {{.function = 2, .core = 0},
                                 {.function = 2, .core = 0, .progress = 3},
                                 {.function = 2, .core = 1, .progress = 3},
                                 {.function = 2, .core = 1, .progress = 4}};
    for (unsigned i = 0; i < 4; ++i) {
      EXPECT_EQ(table_.occur(FaultPoint::Kernel, slices[i]).has_value(), c.fires[i])
          << c.core << " " << c.progress << " " << i;
    }
    table_.disarm_all();
  }
}

// Parts of launch 5, of two cores.
Occurrence part(std::uint32_t core, std::uint32_t waiting = 0, std::uint32_t others = 1) {
  return {.function = 2, .core = core, .waiting = waiting, .others = others, .part = 5 * fw::kMaxCores + core};
}

class HeldFaults : public Faults {
 protected:
  void arm(std::uint64_t first = 1, std::uint32_t row = 0) {
    auto s = spec(FaultPoint::Kernel, FaultAction::Hang);
    s.fault = row;
    s.trigger.waiting = 1;
    s.trigger.first = first;
    ASSERT_TRUE(table_.arm(s, 0).ok());
  }
  bool held(const Occurrence& occurrence) {
    const auto shot = table_.occur(FaultPoint::Kernel, occurrence);
    return shot && shot->held;
  }
  bool fires(const Occurrence& occurrence) {
    const auto shot = table_.occur(FaultPoint::Kernel, occurrence);
    return shot && !shot->held;
  }
};

TEST_F(HeldFaults, TheOccurrenceThatFiresIsHeldUntilEnoughCoresWait) {
  arm(2);
  EXPECT_FALSE(table_.occur(FaultPoint::Kernel, part(0))) << "the first does not fire";
  EXPECT_TRUE(held(part(1)));
  EXPECT_TRUE(held(part(1)));
  EXPECT_FALSE(table_.occur(FaultPoint::Kernel, part(0))) << "while one is held no other counts";
  EXPECT_EQ(evidence().fired, 0u);
  EXPECT_TRUE(fires(part(1, 1)));
  EXPECT_EQ(evidence().counted, 2u);
  EXPECT_EQ(evidence().waiting, 1u);
}

TEST_F(HeldFaults, NoneIsHeldWhereNotEnoughCoresCanCome) {
  arm();
  EXPECT_FALSE(table_.occur(FaultPoint::Kernel, part(0, 0, 0)));
  EXPECT_TRUE(held(part(0)));
  EXPECT_FALSE(table_.occur(FaultPoint::Kernel, part(0, 0, 0))) << "the other one has exited";
  EXPECT_EQ(evidence().counted, 0u);
  EXPECT_TRUE(fires(part(1, 1)));
}

TEST_F(HeldFaults, OnePartThatEndsMakesRoomForAnother) {
  arm();
  EXPECT_TRUE(held(part(0)));
  table_.let_go(part(1).part);
  EXPECT_FALSE(table_.occur(FaultPoint::Kernel, part(1))) << "it was not this one";
  table_.let_go(part(0).part);
  EXPECT_EQ(evidence().counted, 0u);
  EXPECT_TRUE(held(part(1)));
}

TEST_F(HeldFaults, TwoCoresOfALaunchAreNotHeldForEachOther) {
  arm();
  arm(1, 1);
  EXPECT_TRUE(held(part(0)));
  EXPECT_FALSE(table_.occur(FaultPoint::Kernel, part(1)));
  EXPECT_TRUE(fires(part(0, 1)));
  EXPECT_TRUE(held(part(1)));
}

TEST_F(HeldFaults, APartThatAnotherRowBreaksIsHeldNoMore) {
  arm(1, 1);
  EXPECT_TRUE(held(part(0)));
  ASSERT_TRUE(table_.arm(spec(FaultPoint::Kernel, FaultAction::Illegal), 0).ok());
  EXPECT_TRUE(fires(part(0)));
  EXPECT_EQ(evidence(1).counted, 0u);
  EXPECT_TRUE(held(part(1)));
}

TEST_F(Faults, ASegmentThatALaunchLacksIsNoOccurrence) {
  auto s = spec(FaultPoint::Kernel, FaultAction::FlipSegment);
  s.segment = 3;
  ASSERT_TRUE(table_.arm(s, 0).ok());
  EXPECT_FALSE(table_.occur(FaultPoint::Kernel, {.function = 2, .segments = 0x7}));
  const auto shot = table_.occur(FaultPoint::Kernel, {.function = 2, .segments = 0xf});
  ASSERT_TRUE(shot);
  EXPECT_EQ(shot->segment, 3u);
}

TEST_F(Faults, ARowIsTakenUntilItIsDisarmed) {
  wire::FaultEvidence e{};
  EXPECT_EQ(table_.query(0, e).status, Status::NotArmed);
  EXPECT_EQ(table_.disarm(0, e).status, Status::NotArmed);
  ASSERT_TRUE(table_.arm(abort_spec(), 0).ok());
  EXPECT_EQ(fired(2).size(), 1u);
  EXPECT_EQ(table_.arm(abort_spec(), 0).status, Status::Busy) << "also when it cannot fire any more";
  ASSERT_TRUE(table_.disarm(0, e).ok());
  EXPECT_EQ(e.fired, 1u);
  EXPECT_EQ(e.counted, 2u);
  EXPECT_TRUE(table_.arm(abort_spec(), 0).ok());
  EXPECT_EQ(table_.query(wire::kFaultRows, e).status, Status::OutOfBounds);
  EXPECT_EQ(table_.disarm(~0u, e).status, Status::OutOfBounds);
}

// Both sides ask the one table of pairs; the card refuses exactly what it says.
TEST_F(Faults, ExactlyThePairsThatMakeSenseCanBeArmed) {
  unsigned good = 0;
  for (std::uint16_t point = 0; point < 64; ++point) {
    for (std::uint16_t action = 0; action < 32; ++action) {
      auto s = spec(static_cast<FaultPoint>(point), static_cast<FaultAction>(action));
      s.trigger.function = 1;
      s.argument = 2;
      const auto verdict = FaultTable::judge(s, kFunctions);
      EXPECT_EQ(verdict.ok(), wire::makes_sense(s.point, s.action)) << point << " " << action;
      if (!verdict.ok()) EXPECT_EQ(verdict.field, wire::Field::AdminFault);
      good += verdict.ok() ? 1 : 0;
    }
  }
  EXPECT_EQ(good, 31u);
}

TEST_F(Faults, ASpecThatMakesNoSenseIsRefused) {
  const std::vector<std::pair<Status, std::function<void(FaultSpec&)>>> kCases = {
      {Status::OutOfBounds, [](FaultSpec& s) { s.fault = wire::kFaultRows; }},
      {Status::ReservedBits, [](FaultSpec& s) { s.reserved1 = 1; }},
      {Status::Unsupported, [](FaultSpec& s) { s.trigger.core = 0; }},
      {Status::Unsupported, [](FaultSpec& s) { s.trigger.progress = 2; }},
      {Status::Unsupported, [](FaultSpec& s) { s.trigger.waiting = 1; }},
      {Status::OutOfBounds, [](FaultSpec& s) { s.segment = 1; }},
      {Status::OutOfBounds,
       [](FaultSpec& s) {
         s = spec(FaultPoint::Kernel, FaultAction::FlipSegment);
         s.segment = wire::kSegments;
       }},
      {Status::OutOfBounds,
       [](FaultSpec& s) {
         s = spec(FaultPoint::Kernel, FaultAction::Hang);
         s.trigger.core = fw::kMaxCores;
       }},
      {Status::BadCount,
       [](FaultSpec& s) {
         s = spec(FaultPoint::Kernel, FaultAction::Hang);
         s.trigger.waiting = fw::kMaxCores;
       }},
      {Status::UnknownFunction, [](FaultSpec& s) { s.trigger.function = kFunctions; }},
      {Status::UnknownStream, [](FaultSpec& s) { s.trigger.stream = wire::kStreamsPerFunction; }},
      {Status::BadCount, [](FaultSpec& s) { s.trigger.first = 0; }},
      {Status::BadCount,
       [](FaultSpec& s) {
         s.action = FaultAction::Slow;
         s.argument = 1;
       }},
      {Status::BadCount,
       [](FaultSpec& s) {
         s.action = FaultAction::Slow;
         s.argument = std::numeric_limits<std::uint64_t>::max();
       }},
      {Status::UnknownRegion, [](FaultSpec& s) { s.region_id = 1; }},
      {Status::OutOfBounds, [](FaultSpec& s) { s.offset = 1; }},
      {Status::UnknownFunction,
       [](FaultSpec& s) {
         s.point = FaultPoint::Memory;
         s.action = FaultAction::Corrected;
       }},
  };
  EXPECT_TRUE(FaultTable::judge(abort_spec(), kFunctions).ok());
  for (const auto& [status, change] : kCases) {
    auto s = abort_spec();
    change(s);
    EXPECT_EQ(FaultTable::judge(s, kFunctions).status, status);
  }
}

}  // namespace
