// SPDX-License-Identifier: Apache-2.0
// Kernels that are broken on purpose, and what the card does to those that take too long: warning, kill, count of
// time-outs, ban. Also CANCEL, which needs something that runs.
#include <gtest/gtest.h>

#include "firmware/hal/hart.hpp"
#include "shared/kernel_abi.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Program;
using fwtest::StreamHandle;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

class KernelFaults : public fwtest::Launch {
 protected:
  explicit KernelFaults(unsigned harts = 1, const std::string& more_arguments = {})
      : Launch(harts, 1024 * wire::kMiB, 2, more_arguments) {
    EXPECT_TRUE(management_.bring_up());
    driver_.post_event_buffers(16);
  }

  wire::AdminReply fault(wire::FaultOperation operation, FaultPoint point = FaultPoint::None,
                         FaultAction action = FaultAction::None, std::uint64_t argument = 0) {
    auto request = management_.admin_request(wire::AdminCommand::FaultArm);
    auto& s = request.arguments.fault;
    s.operation = operation;
    s.point = point;
    s.action = action;
    s.trigger.function = 2;
    s.trigger.stream = wire::kAnyStream;
    s.trigger.opcode = wire::kAnyOpcode;
    s.trigger.progress = wire::kAnyProgress;
    s.trigger.core = wire::kAnyCore;
    s.trigger.first = 1;
    s.argument = argument;
    return management_.admin(request);
  }
  void arm(FaultPoint point, FaultAction action, std::uint64_t argument = 0) {
    const auto reply = fault(wire::FaultOperation::Arm, point, action, argument);
    ASSERT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
  }
  wire::FaultEvidence disarm() { return fault(wire::FaultOperation::Disarm).values.fault; }

  wire::AdminReply cancel(const StreamHandle& stream, std::uint64_t sequence) {
    auto request = driver_.admin_request(wire::AdminCommand::Cancel);
    request.arguments.cancel = {stream.id, stream.incarnation, sequence};
    return driver_.admin(request);
  }
  std::vector<wire::DeviceEvent> events_of(wire::EventKind kind) {
    std::vector<wire::DeviceEvent> found;
    for (const auto& event : driver_.events()) {
      if (event.kind == kind) found.push_back(event);
    }
    return found;
  }
  // Lets the cores work until `count` blocks have ended.
  std::vector<fwtest::Ended> finish(std::size_t count) {
    std::vector<fwtest::Ended> all;
    for (int i = 0; i < 2000 && all.size() < count; ++i) {
      card_.run_until_idle();
      for (const auto& end : driver_.collect()) all.push_back(end);
      if (all.size() < count) slice();
    }
    EXPECT_EQ(all.size(), count);
    return all;
  }

  fwtest::RawDriver& management_ = card_.driver(0);
};

// ---- broken kernels -------------------------------------------------------------------------------------------------

TEST_F(KernelFaults, AGoodKernelEndsAsTheFaultSaysAndTheNextOneIsGood) {
  const struct {
    FaultAction action;
    Outcome outcome;
    Status status;
  } kCases[] = {{FaultAction::Hang, Outcome::Timeout, Status::WatchdogExpired},
                {FaultAction::Illegal, Outcome::Fault, Status::IllegalInstruction},
                {FaultAction::Stray, Outcome::Fault, Status::LoadFault}};
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok) << "contexts made before the arming serve as well";
  for (const auto& c : kCases) {
    arm(FaultPoint::Kernel, c.action);
    const auto end = run(Program::Slices);
    EXPECT_EQ(end.outcome, c.outcome) << wire::name(c.action);
    EXPECT_EQ(end.status, c.status) << wire::name(end.status);
    const auto e = disarm();
    EXPECT_EQ(e.fired, 1u);
    EXPECT_EQ(e.function, 2u);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    EXPECT_EQ(run(Program::Slices).outcome, Outcome::Ok);
  }
}

TEST_F(KernelFaults, ALaunchThatBeganBeforeTheArmingIsNoOccurrence) {
  driver_.submit(block(stream_, Program::UntilReleased));
  card_.run_until_idle();
  ASSERT_TRUE(slice());
  arm(FaultPoint::Kernel, FaultAction::Stray);
  ASSERT_TRUE(slice());
  kernels_.released = true;
  EXPECT_EQ(finish(1).at(0).completion.outcome, Outcome::Ok);
  EXPECT_EQ(disarm().counted, 0u);
}

TEST_F(KernelFaults, ASlowKernelEndsWellHoweverLongItTakes) {
  arm(FaultPoint::Kernel, FaultAction::Slow, 1'000);
  const auto before = hal::now();
  driver_.submit(block(stream_, Program::Slices));
  std::vector<fwtest::Ended> ended;
  while (ended.empty() && hal::now() < before + 100'000'000) {
    card_.run_until_idle();
    ended = driver_.collect();
    slice();
  }
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Ok) << "slow, but live";
  EXPECT_EQ(disarm().fired, 1u);
}

TEST_F(KernelFaults, AWrongResultIsOneByteOfTheFirstWritableSegment) {
  const auto region = driver_.acquire(8 * wire::kMiB).value();
  arm(FaultPoint::KernelResult, FaultAction::Corrupt, 7);
  auto launch = block(stream_, Program::Exit);
  launch.payload.compute.segments[0] = {region.id, 0, 128, region.generation, wire::kSegmentRead, {}};
  launch.payload.compute.segments[1] = {region.id, 4096, 256, region.generation, wire::kSegmentWrite, {}};
  driver_.seal(launch);
  driver_.submit(launch);
  EXPECT_EQ(finish(1).at(0).completion.outcome, Outcome::Ok);
  EXPECT_EQ(disarm().fired, 1u);
  const auto at = card_.function(2).regions.granted(0).base - hal::region_memory().begin;
  for (std::uint64_t i = 0; i < 8192; ++i) {
    EXPECT_EQ(card_.board().region_memory()[at + i], std::byte{i == 4096 + 7 ? std::uint8_t{0xff} : std::uint8_t{0}});
  }
}

TEST_F(KernelFaults, AnUncorrectableErrorUnderALaunchEndsItBeforeItsFirstSlice) {
  const auto region = driver_.acquire(8 * wire::kMiB).value();
  auto request = management_.admin_request(wire::AdminCommand::FaultArm);
  auto& fault = request.arguments.fault;
  fault.point = FaultPoint::Memory;
  fault.action = FaultAction::Uncorrectable;
  fault.trigger = wire::occurrences(1, 0, 0);
  fault.trigger.function = 2;
  fault.region_id = region.id;
  fault.offset = 4100;
  ASSERT_EQ(management_.admin(request).outcome, Outcome::Ok);
  auto launch = block(stream_, Program::Exit);
  launch.payload.compute.segments[0] = {region.id, 4096, 256, region.generation, wire::kSegmentRead, {}};
  driver_.seal(launch);
  kernels_.slices = 0;
  driver_.submit(launch);
  const auto end = finish(1).at(0).completion;
  EXPECT_EQ(end.outcome, Outcome::Fault);
  EXPECT_EQ(end.status, Status::UncorrectableMemory);
  EXPECT_EQ(end.fault.region_ordinal, 0u);
  EXPECT_EQ(end.fault.offset, 4100u);
  EXPECT_EQ(kernels_.slices.load(), 0u);
  EXPECT_EQ(card_.card().pool.retired_granules(), 1u);
}

TEST_F(KernelFaults, AHartThatStandsStillGoesOnWhenItsTimeIsOver) {
  arm(FaultPoint::FirmwareHart, FaultAction::Stall, 20'000);
  const auto before = hal::now();
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  EXPECT_GE(hal::now() - before, 20'000u);  // elapsed: a late thread only makes it longer
  EXPECT_EQ(disarm().fired, 1u);
}

// ---- where, and when ------------------------------------------------------------------------------------------------

class GangFaults : public KernelFaults {
 protected:
  static constexpr std::uint64_t kBoth = 3;
  GangFaults() : KernelFaults(2) {}

  void arm_at(FaultAction action, std::uint32_t core, std::uint32_t progress, std::uint32_t waiting) {
    auto request = management_.admin_request(wire::AdminCommand::FaultArm);
    auto& s = request.arguments.fault;
    s.point = FaultPoint::Kernel;
    s.action = action;
    s.trigger = wire::occurrences();
    s.trigger.function = 2;
    s.trigger.core = core;
    s.trigger.progress = progress;
    s.trigger.waiting = waiting;
    const auto reply = management_.admin(request);
    ASSERT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
  }
};

TEST_F(GangFaults, AFaultFiresAtItsOperationOnItsCoreWhileTheOtherWaits) {
  for (const std::uint32_t core : {0u, 1u}) {
    for (std::uint32_t operation = 0; operation + 1 < fwtest::kOperations; ++operation) {
      arm_at(FaultAction::Illegal, core, operation, 1);
      const auto end = run(Program::Operations, kBoth);
      EXPECT_EQ(end.status, Status::IllegalInstruction) << wire::name(end.status);
      EXPECT_EQ(end.fault.core, core);
      EXPECT_EQ(end.fault.waiting, 1u);
      const auto e = disarm();
      EXPECT_EQ(e.fired, 1u);
      EXPECT_EQ(e.counted, 1u);
      EXPECT_EQ(e.hart, core);
      EXPECT_EQ(e.progress, operation);
      EXPECT_EQ(e.waiting, 1u);
      ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    }
  }
}

TEST_F(GangFaults, SomeProgressIsAnyThatTheKernelTells) {
  arm_at(FaultAction::Illegal, wire::kAnyCore, wire::kSomeProgress, 0);
  EXPECT_EQ(run(Program::Slices, kBoth).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Operations, kBoth).status, Status::IllegalInstruction);
  EXPECT_EQ(disarm().progress, 0u);
}

TEST_F(GangFaults, WhereNoOtherCoreCanWaitThereIsNoOccurrence) {
  arm_at(FaultAction::Illegal, wire::kAnyCore, wire::kAnyProgress, 1);
  EXPECT_EQ(run(Program::Slices, 1).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Slices, kBoth).outcome, Outcome::Ok) << "one is held until the other has exited";
  EXPECT_EQ(disarm().counted, 0u);
}

TEST_F(GangFaults, APartThatIsHeldEndsWithItsLaunchAndTheNextOneIsMet) {
  arm_at(FaultAction::Illegal, 1, wire::kAnyProgress, 1);
  driver_.submit(block(stream_, Program::UntilReleased, kBoth));
  card_.run_until_idle();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(slice());
  EXPECT_EQ(cancel(stream_, stream_.next_sequence - 1).outcome, Outcome::Ok);
  EXPECT_EQ(finish(1).at(0).completion.status, Status::Stopped);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Operations, kBoth).status, Status::IllegalInstruction);
  const auto e = disarm();
  EXPECT_EQ(e.counted, 1u);
  EXPECT_EQ(e.waiting, 1u);
}

TEST_F(GangFaults, ATimeOutTellsHowManyWaited) {
  arm_at(FaultAction::Hang, 0, 1, 0);
  const auto end = run(Program::Operations, kBoth);
  EXPECT_EQ(end.status, Status::WatchdogExpired);
  EXPECT_EQ(end.fault.core, 0u);
  EXPECT_EQ(end.fault.waiting, 1u);
}

TEST_F(KernelFaults, ABitOfASegmentIsInvertedAndNoOther) {
  const auto region = driver_.acquire(8 * wire::kMiB).value();
  auto request = management_.admin_request(wire::AdminCommand::FaultArm);
  auto& s = request.arguments.fault;
  s.point = FaultPoint::Kernel;
  s.action = FaultAction::FlipSegment;
  s.trigger = wire::occurrences();
  s.trigger.function = 2;
  s.segment = 3;
  s.argument = 7 * 8 + 2;
  ASSERT_EQ(management_.admin(request).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Slices).outcome, Outcome::Ok);
  EXPECT_EQ(fault(wire::FaultOperation::Query).values.fault.counted, 0u) << "a launch without the segment";
  auto launch = block(stream_, Program::Slices);
  launch.payload.compute.segments[3] = {region.id, 4096, 256, region.generation, wire::kSegmentReadWrite, {}};
  driver_.seal(launch);
  driver_.submit(launch);
  EXPECT_EQ(finish(1).at(0).completion.outcome, Outcome::Ok);
  EXPECT_EQ(disarm().fired, 1u);
  const auto at = card_.function(2).regions.granted(0).base - hal::region_memory().begin;
  for (std::uint64_t i = 0; i < 8192; ++i) {
    EXPECT_EQ(card_.board().region_memory()[at + i], std::byte{i == 4096 + 7 ? std::uint8_t{4} : std::uint8_t{0}});
  }
}

// ---- the compute array ----------------------------------------------------------------------------------------------

TEST_F(KernelFaults, TheArrayIsToldWhatToDoWithTheRequestThatTheFaultCounts) {
  const struct {
    FaultAction action;
    std::uint64_t results;
  } kCases[] = {{FaultAction::FlipResult, 1131}, {FaultAction::Refuse, 1121}};
  for (const auto& c : kCases) {
    auto request = management_.admin_request(wire::AdminCommand::FaultArm);
    auto& s = request.arguments.fault;
    s.point = FaultPoint::Array;
    s.action = c.action;
    s.trigger = wire::occurrences(3);
    s.trigger.function = 2;
    s.argument = 77;
    ASSERT_EQ(management_.admin(request).outcome, Outcome::Ok);
    const auto end = run(Program::AsksArray);
    EXPECT_EQ(end.status, Status::KernelStatus);
    EXPECT_EQ(kernels_.results.load(), c.results) << wire::name(c.action);
    const auto e = disarm();
    EXPECT_EQ(e.counted, 4u);
    EXPECT_EQ(e.fired, 1u);
    EXPECT_EQ(e.progress, fwtest::kMarkedProgress);
    EXPECT_EQ(e.stream, stream_.id);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
}

TEST_F(KernelFaults, TheArrayIsAskedAtTheOperationThatTheFaultNames) {
  for (const std::uint32_t progress : {fwtest::kMarkedProgress, fwtest::kMarkedProgress + 1}) {
    auto request = management_.admin_request(wire::AdminCommand::FaultArm);
    auto& s = request.arguments.fault;
    s.point = FaultPoint::Array;
    s.action = FaultAction::Refuse;
    s.trigger = wire::occurrences(1, 1, 0);
    s.trigger.function = 2;
    s.trigger.progress = progress;
    ASSERT_EQ(management_.admin(request).outcome, Outcome::Ok);
    run(Program::AsksArray);
    EXPECT_EQ(kernels_.results.load(), progress == fwtest::kMarkedProgress ? 2222u : 1111u);
    disarm();
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  }
}

TEST_F(KernelFaults, NobodyIsAskedWithoutAFaultAndACallThatNobodyAskedForIsNoOccurrence) {
  run(Program::AsksArray);
  EXPECT_EQ(kernels_.results.load(), 1111u);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::CallsForOrders).outcome, Outcome::Ok);
  arm(FaultPoint::Array, FaultAction::Refuse);
  EXPECT_EQ(run(Program::CallsForOrders).outcome, Outcome::Ok);
  EXPECT_EQ(disarm().counted, 0u);
}

TEST_F(KernelFaults, AFaultThatIsDisarmedMeanwhileLetsTheArrayServe) {
  arm(FaultPoint::Array, FaultAction::Refuse);
  kernels_.held = true;
  driver_.submit(block(stream_, Program::AsksArray));
  card_.run_until_idle();
  ASSERT_TRUE(slice());
  EXPECT_EQ(disarm().counted, 0u);
  kernels_.held = false;
  finish(1);
  EXPECT_EQ(kernels_.results.load(), 1111u);
}

TEST_F(KernelFaults, AnArrayThatHasFailedEndsTheLaunchAlsoWhenTheFaultIsDisarmedMeanwhile) {
  kernels_.failing_memory = hal::region_memory().begin;
  kernels_.on_failure = [&] { card_.card().faults.disarm_all(); };
  arm(FaultPoint::Array, FaultAction::Uncorrectable);
  EXPECT_EQ(run(Program::AsksArray).status, Status::UncorrectableMemory);
}

TEST_F(KernelFaults, MemoryThatTheArrayCanNotReadEndsTheLaunchAndIsRetired) {
  const auto region = driver_.acquire(8 * wire::kMiB).value();
  const auto base = card_.function(2).regions.granted(0).base;
  for (const bool of_region : {true, false}) {
    kernels_.failing_memory = of_region ? base + 4224 : base + 8 * wire::kMiB;
    arm(FaultPoint::Array, FaultAction::Uncorrectable);
    auto launch = block(stream_, Program::AsksArray);
    launch.payload.compute.segments[0] = {region.id, 4096, 256, region.generation, wire::kSegmentRead, {}};
    driver_.seal(launch);
    driver_.submit(launch);
    const auto end = finish(1).at(0).completion;
    EXPECT_EQ(end.outcome, Outcome::Fault);
    EXPECT_EQ(end.status, Status::UncorrectableMemory);
    EXPECT_EQ(end.fault.region_ordinal, of_region ? 0u : wire::kNoRegionOrdinal);
    if (of_region) EXPECT_EQ(end.fault.offset, 4224u);
    EXPECT_EQ(end.fault.argument, wire::to_progress(fwtest::kMarkedProgress));
    EXPECT_EQ(disarm().fired, 1u);
    EXPECT_EQ(card_.card().pool.retired_granules(), 1u) << "of the second case nothing is the function's";
    EXPECT_EQ(events_of(wire::EventKind::MemoryRetired).size(), of_region ? 1u : 0u);
    ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
    EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
  }
}

// ---- the watchdog ---------------------------------------------------------------------------------------------------

TEST_F(KernelFaults, TheWatchdogWarnsOnceAtHalfOfWhatItGives) {
  run(Program::Slices);
  EXPECT_TRUE(events_of(wire::EventKind::WatchdogWarning).empty()) << "not of one that is live";
  EXPECT_EQ(run(Program::Endless).outcome, Outcome::Timeout);
  const auto events = events_of(wire::EventKind::WatchdogWarning);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].stream, stream_.id);
}

TEST_F(KernelFaults, ATimeOutTellsWhatTheKernelWasAtAlsoWhenACallEndedItsLastSlice) {
  const auto end = run(Program::Marks);
  EXPECT_EQ(end.status, Status::WatchdogExpired);
  EXPECT_EQ(end.fault.argument, wire::to_progress(fwtest::kMarkedProgress));
}

TEST_F(KernelFaults, TheWarningComesBeforeTheKill) {
  auto launch = block(stream_, Program::Endless);
  launch.header.budget = 1'000;
  driver_.seal(launch);
  driver_.submit(launch);
  card_.run_until_idle();
  for (int i = 0; i < 1'100; ++i) slice();
  card_.start_loop();
  std::vector<wire::DeviceEvent> events;
  for (const auto end = hal::now() + 50'000'000; events.empty() && hal::now() < end; std::this_thread::yield()) {
    events = events_of(wire::EventKind::WatchdogWarning);
  }
  card_.stop_loop();
  ASSERT_EQ(events.size(), 1u);
}

class StreamBans : public KernelFaults {
 protected:
  explicit StreamBans(const std::string& more = {}) : KernelFaults(1, "strikes=2" + more) {}
};

TEST_F(StreamBans, TheLastTimeOutBansItsStreamUntilTheFunctionIsReset) {
  EXPECT_EQ(run(Program::Endless).outcome, Outcome::Timeout);
  EXPECT_TRUE(events_of(wire::EventKind::StreamBanned).empty());
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::ExitWithFive).outcome, Outcome::Fault) << "a fault is no time-out";
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Endless).outcome, Outcome::Timeout);
  EXPECT_EQ(events_of(wire::EventKind::StreamBanned).size(), 1u);
  auto reset = driver_.admin(driver_.stream_request(wire::AdminCommand::StreamReset, stream_));
  EXPECT_EQ(reset.outcome, Outcome::Rejected);
  EXPECT_EQ(reset.status, Status::StreamBanned);
  const auto end = driver_.run(driver_.nop(stream_));
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.status, Status::StreamBanned);
  StreamHandle other = driver_.open_stream().value();
  EXPECT_EQ(driver_.run(driver_.nop(other)).outcome, Outcome::Ok) << "the others of the function go on";
  ASSERT_TRUE(driver_.bring_up());
  stream_ = {};
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok);
}

// ---- CANCEL ---------------------------------------------------------------------------------------------------------

TEST_F(KernelFaults, ACancelledBlockThatHasNotStartedEndsAbortedAndItsSuccessorsGoOn) {
  driver_.submit(block(stream_, Program::UntilReleased));  // 1
  const std::uint64_t first = stream_.next_sequence - 1;
  for (int i = 0; i < 3; ++i) driver_.submit(driver_.nop(stream_));
  card_.run_until_idle();
  for (const std::uint64_t which : {first + 3, first + 1}) {  // the tail, then one in the middle
    EXPECT_EQ(cancel(stream_, which).outcome, Outcome::Ok);
    const auto ended = driver_.collect();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].completion.sequence, which);
    EXPECT_EQ(ended[0].completion.outcome, Outcome::Aborted);
    EXPECT_EQ(ended[0].completion.status, Status::Stopped);
    const auto twice = cancel(stream_, which);
    EXPECT_EQ(twice.outcome, Outcome::Rejected);
    EXPECT_EQ(twice.status, Status::AlreadyEnded);
  }
  driver_.submit(driver_.nop(stream_));
  kernels_.released = true;
  const auto rest = finish(3);
  for (const auto& end : rest) EXPECT_EQ(end.completion.outcome, Outcome::Ok);
  EXPECT_EQ(cancel(stream_, first).status, Status::AlreadyEnded) << "finished";
  EXPECT_EQ(cancel(stream_, 1'000'000).status, Status::AlreadyEnded) << "never was";
}

TEST_F(KernelFaults, ACancelledKernelIsStoppedAndPoisonsItsStream) {
  driver_.submit(block(stream_, Program::UntilReleased));
  const std::uint64_t sequence = stream_.next_sequence - 1;
  driver_.submit(driver_.nop(stream_));
  card_.run_until_idle();
  ASSERT_TRUE(slice());
  EXPECT_EQ(cancel(stream_, sequence).outcome, Outcome::Ok);
  EXPECT_EQ(cancel(stream_, sequence).status, Status::AlreadyEnded) << "it is ending";
  const auto ended = finish(2);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[0].completion.status, Status::Stopped);
  EXPECT_EQ(ended[1].completion.outcome, Outcome::Aborted);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  EXPECT_EQ(run(Program::Exit).outcome, Outcome::Ok);
}

TEST_F(KernelFaults, ACancelledTransferIsStopped) {
  const auto region = driver_.acquire(8 * wire::kMiB).value();
  arm(FaultPoint::DmaStep, FaultAction::Stall);
  driver_.submit(driver_.fill(stream_, region, 0, wire::kMiB, 1));
  const std::uint64_t sequence = stream_.next_sequence - 1;
  card_.run_until_idle();
  EXPECT_EQ(cancel(stream_, sequence).outcome, Outcome::Ok);
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[0].completion.status, Status::Stopped);
  EXPECT_EQ(cancel(stream_, sequence).status, Status::AlreadyEnded);
}

TEST_F(KernelFaults, CancelNamesAStreamAsItIsNow) {
  auto stale = stream_;
  ++stale.incarnation;
  EXPECT_EQ(cancel(stale, 1).status, Status::StaleIncarnation);
  auto unknown = stream_;
  unknown.id = 77;
  EXPECT_EQ(cancel(unknown, 1).status, Status::UnknownStream);
}

// The card may read the command before it has read the block.
TEST_F(KernelFaults, ABlockThatIsStillInTheRingIsCancelledToo) {
  StreamHandle other = driver_.open_stream().value();
  for (unsigned i = 0; i < 100; ++i) driver_.submit(driver_.nop(i % 2 == 0 ? stream_ : other));
  driver_.submit(block(stream_, Program::UntilReleased));
  const std::uint64_t sequence = stream_.next_sequence - 1;
  const auto reply = cancel(stream_, sequence);
  EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status);
  const auto ended = finish(101);
  unsigned stopped = 0;
  for (const auto& end : ended) stopped += end.completion.status == Status::Stopped ? 1 : 0;
  EXPECT_EQ(stopped, 1u);
}

}  // namespace
