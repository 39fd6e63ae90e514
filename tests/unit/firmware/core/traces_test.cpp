// SPDX-License-Identifier: Apache-2.0
// TRACE: what the card writes into the ring of a function, and that it writes nothing into anybody else's.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "firmware/core/charges.hpp"
#include "firmware/core/traces.hpp"
#include "shared/trace.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Launch;
using fwtest::Program;
using fwtest::RawDriver;
using wire::Outcome;
using wire::Status;
using wire::TraceEntry;
using wire::TraceKind;

class TracesOfTheCard : public Launch {
 protected:
  static wire::AdminReply trace(RawDriver& driver, std::uint32_t on) {
    auto request = driver.admin_request(wire::AdminCommand::Trace);
    request.arguments.trace.on = on;
    return driver.admin(request);
  }
  // Entries of a ring that holds the last `kTraceEntries` of them, in their order.
  static std::vector<TraceEntry> entries(RawDriver& driver) {
    std::vector<TraceEntry> all;
    const auto* ring = reinterpret_cast<const TraceEntry*>(driver.window().data() + wire::kTraceRing.offset);
    for (std::uint64_t n = 1; ring[(n - 1) % wire::kTraceEntries].number == n; ++n)
      all.push_back(ring[(n - 1) % wire::kTraceEntries]);
    return all;
  }
  static std::string kinds(const std::vector<TraceEntry>& entries) {
    std::string text;
    for (const TraceEntry& entry : entries) {
      text += entry.kind == TraceKind::Queued  ? "queued "
              : entry.kind == TraceKind::Slice ? "slice "
              : entry.kind == TraceKind::Mark  ? "mark "
                                               : "? ";
    }
    return text;
  }
};

TEST_F(TracesOfTheCard, NothingIsWrittenBeforeItIsWanted) {
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  EXPECT_TRUE(entries(driver_).empty());
}

TEST_F(TracesOfTheCard, ALaunchIsQueuedAndRunInSlices) {
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  const auto end = run(Program::Exit);
  ASSERT_EQ(end.outcome, Outcome::Ok);
  const auto told = entries(driver_);
  ASSERT_EQ(kinds(told), "queued slice ");
  EXPECT_EQ(told[0].sequence, end.sequence);
  EXPECT_EQ(told[0].stream, end.stream);
  EXPECT_LE(told[0].begin, end.start_time);
  EXPECT_EQ(told[1].sequence, end.sequence);
  EXPECT_GE(told[1].begin, told[0].begin);
  EXPECT_LE(told[1].end, end.end_time);
  EXPECT_EQ(told[1].core, 0);
}

// firmware/core/first_slices.hpp
TEST_F(TracesOfTheCard, ALaunchThatRunsWhereItIsStartedTellsTheSame) {
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Barriers).outcome, Outcome::Ok);
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  card_.card().first_slices.allow(true);
  driver_.submit(block(stream_, Program::Exit));
  card_.run_until_idle();
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 1u);
  auto told = entries(driver_);
  ASSERT_EQ(kinds(told), "queued slice ");
  EXPECT_EQ(told[1].sequence, ended[0].completion.sequence);
  EXPECT_EQ(told[1].begin, ended[0].completion.start_time);
  EXPECT_EQ(told[1].end, ended[0].completion.end_time);
  const auto end = run(Program::Barriers);
  EXPECT_EQ(end.outcome, Outcome::Ok);
  told = entries(driver_);
  ASSERT_EQ(kinds(told), "queued slice queued slice slice slice slice slice slice ");
  EXPECT_EQ(told[3].begin, end.start_time);
  EXPECT_EQ(told.back().sequence, end.sequence);
}

TEST_F(TracesOfTheCard, MarksOfAKernelCarryTheirValues) {
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::TenMarks).outcome, Outcome::Ok);
  std::uint64_t next = 0;
  for (const TraceEntry& entry : entries(driver_)) {
    if (entry.kind != TraceKind::Mark) continue;
    EXPECT_EQ(entry.value, next++);
    EXPECT_EQ(entry.begin, entry.end);
  }
  EXPECT_EQ(next, 10u);
}

TEST_F(TracesOfTheCard, TheOldestAreOverwritten) {
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  TraceEntry entry{};
  entry.kind = TraceKind::Mark;
  for (std::uint64_t i = 1; i <= wire::kTraceEntries + 10; ++i) {
    entry.value = i;
    card_.card().traces.write(2, entry);
  }
  const auto* ring = reinterpret_cast<const TraceEntry*>(driver_.window().data() + wire::kTraceRing.offset);
  for (std::uint64_t i = 0; i < wire::kTraceEntries; ++i) {
    EXPECT_EQ(ring[i].value, i < 10 ? wire::kTraceEntries + 1 + i : i + 1);
    EXPECT_EQ(ring[i].number, ring[i].value);
  }
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  EXPECT_TRUE(entries(driver_).empty()) << "again: from the beginning";
}

TEST_F(TracesOfTheCard, ItEndsWithItsFunctionsReset) {
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  EXPECT_TRUE(card_.card().traces.on(2));
  driver_.set_status(0);
  EXPECT_FALSE(card_.card().traces.on(2));
  ASSERT_TRUE(driver_.bring_up());
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  ASSERT_EQ(trace(driver_, 0).outcome, Outcome::Ok);
  EXPECT_FALSE(card_.card().traces.on(2));
}

TEST_F(TracesOfTheCard, BadRequestsAreRefused) {
  const auto bad = trace(driver_, 2);
  EXPECT_EQ(bad.status, Status::BadType);
  EXPECT_EQ(bad.field, wire::Field::AdminTrace);
  EXPECT_FALSE(card_.card().traces.on(2));
  RawDriver& manager = card_.driver(0);
  ASSERT_TRUE(manager.bring_up());
  EXPECT_EQ(trace(manager, 1).status, Status::NotPermitted) << "M runs nothing";
}

// A core that hart 0 does not look after for long: what finds no room is told, and nothing is told twice.
TEST_F(TracesOfTheCard, EntriesOfOtherCoresAreMovedByHartZeroAndLostOnesAreCounted) {
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  auto& traces = card_.card().traces;
  TraceEntry entry{};
  entry.kind = TraceKind::Slice;
  constexpr std::uint64_t kNoted = 400;  // more than a core's queue has room for
  for (std::uint64_t i = 1; i <= kNoted; ++i) {
    entry.sequence = i;
    traces.note(5, 2, entry);
    traces.note(5, 1, entry);  // of a function that wants none
  }
  EXPECT_TRUE(entries(driver_).empty());
  traces.drain();
  const auto told = entries(driver_);
  ASSERT_FALSE(told.empty());
  std::uint64_t slices = 0;
  for (const TraceEntry& one : told) {
    if (one.kind == TraceKind::Slice) EXPECT_EQ(one.sequence, ++slices);
  }
  EXPECT_EQ(told.back().kind, TraceKind::Lost);
  EXPECT_EQ(slices + told.back().value, kNoted);
  traces.drain();
  EXPECT_EQ(entries(driver_).size(), told.size());
}

// Another function's window stays as it is.
TEST_F(TracesOfTheCard, OthersSeeNothing) {
  RawDriver& other = card_.driver(1);
  ASSERT_TRUE(other.bring_up());
  const auto* ring = reinterpret_cast<const std::uint64_t*>(other.window().data() + wire::kTraceRing.offset);
  ASSERT_EQ(trace(driver_, 1).outcome, Outcome::Ok);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  EXPECT_EQ(entries(driver_).size(), 10u);
  for (std::uint64_t i = 0; i < wire::kTraceRing.bytes / 8; ++i) ASSERT_EQ(ring[i], 0u);
}

class TracesOfOwners : public Launch {
 protected:
  TracesOfOwners() : Launch(2) {}  // two harts
};

// What a core has left of the last owner's kernels, marks with their values among it, is not the next one's.
TEST_F(TracesOfOwners, TheNextOwnerSeesNothingOfTheLastOne) {
  auto request = driver_.admin_request(wire::AdminCommand::Trace);
  request.arguments.trace.on = 1;
  ASSERT_EQ(driver_.admin(request).outcome, Outcome::Ok);
  driver_.submit(block(stream_, Program::Marks, 2));  // on core 1
  card_.run_until_idle();
  while (slice()) card_.run_until_idle();
  ASSERT_GT(card_.card().traces.queued(1), 0u) << "nothing of the last owner's could come";
  ASSERT_EQ(driver_.set_status(0), 0u);
  ASSERT_TRUE(driver_.bring_up());
  request = driver_.admin_request(wire::AdminCommand::Trace);
  request.arguments.trace.on = 1;
  ASSERT_EQ(driver_.admin(request).outcome, Outcome::Ok);
  card_.card().traces.drain();
  const auto* ring = reinterpret_cast<const TraceEntry*>(driver_.window().data() + wire::kTraceRing.offset);
  for (std::uint64_t i = 0; i < wire::kTraceEntries; ++i) ASSERT_EQ(ring[i].number, 0u) << "place " << i;
}

// ---- what it costs

TEST_F(TracesOfTheCard, ARingIsEmptiedInPartsAndEachIsCharged) {
  for (int i = 0; i < 4; ++i) {
    auto request = driver_.admin_request(wire::AdminCommand::Trace);
    request.arguments.trace.on = 1;
    driver_.send_admin(request);
  }
  unsigned iterations = 0;
  for (; !card_.card().traces.on(2); ++iterations) {
    ASSERT_LT(iterations, 100u);
    const std::uint64_t charged = card_.function(2).charged();
    fw::run_iteration(card_.card());
    const std::uint64_t commands = iterations == 0 ? 4 * fw::charge_of(wire::AdminCommand::Trace) : 0;
    ASSERT_EQ(card_.function(2).charged() - charged, commands + fw::Traces::kEmptyingCost)
        << "iteration " << iterations;
  }
  EXPECT_EQ(iterations, wire::kTraceEntries / fw::Traces::kEmptiedEntries);
}

TEST_F(TracesOfTheCard, ATraceThatEndsWhileItsRingIsEmptiedStaysOff) {
  std::vector<std::uint16_t> slots;
  for (const std::uint32_t on : {1, 0}) {
    auto request = driver_.admin_request(wire::AdminCommand::Trace);
    request.arguments.trace.on = on;
    slots.push_back(driver_.send_admin(request));
  }
  for (const std::uint16_t slot : slots) {
    const auto reply = driver_.wait_admin(slot);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->outcome, Outcome::Ok);
  }
  EXPECT_FALSE(card_.card().traces.on(2));
  EXPECT_FALSE(card_.card().traces.emptying(2));
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  EXPECT_TRUE(entries(driver_).empty());
}

}  // namespace
