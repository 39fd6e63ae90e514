// SPDX-License-Identifier: Apache-2.0
// Streams: open, reset, close, and the poison of a bad block (docs/protocol.md §5, §6).

#include "tests/conformance/provider.hpp"

namespace svp::conformance {
namespace {

using test::Blocks;
using test::CompletionCounter;
using test::CompletionRecorder;
using test::submit_nops;

TEST(Streams, AStreamThatIsNotOpenTakesNothing) {
  const auto device = provider().open();
  CompletionCounter counter;
  const auto block = Blocks::nop();
  const ControlBlockRequest request{&block, &counter};
  for (const std::uint32_t stream : {5u, wire::kStreamsPerFunction, ~0u}) {
    const auto accepted = device->submit(stream, {&request, 1});
    ASSERT_FALSE(accepted);
    EXPECT_EQ(accepted.error().outcome, wire::Outcome::Rejected);
  }
}

TEST(Streams, ARejectedBlockPoisonsItsStreamUntilReset) {
  const auto device = provider().open();
  CompletionRecorder recorder;
  auto bad = Blocks::nop();
  bad.header.flags = 1;
  const auto good = Blocks::nop();
  const ControlBlockRequest requests[] = {{&good, &recorder}, {&bad, &recorder}, {&good, &recorder}};
  ASSERT_EQ(device->submit(0, requests).value(), 3u);
  ASSERT_EQ(device->wait_until([&] { return recorder.ended() == 3; }, test::soon()), WaitStatus::Done);
  const auto all = recorder.all();
  EXPECT_EQ(all[0].outcome, wire::Outcome::Ok);
  EXPECT_EQ(all[1].outcome, wire::Outcome::Rejected);
  EXPECT_EQ(all[1].field, wire::Field::Flags);
  EXPECT_EQ(all[2].outcome, wire::Outcome::Aborted);
  ASSERT_TRUE(device->reset_stream(0));
  CompletionCounter counter;
  value_or_throw(submit_nops(*device, 0, counter, 1));
  ASSERT_EQ(device->wait_until([&] { return counter.ended() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(counter.not_ok(), 0u);
  std::vector<wire::DeviceEvent> events;
  (void)device->wait_until([&] { return device->statistics().events != 0; }, test::soon());
  events = device->take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, wire::EventKind::StreamPoisoned);
}

TEST(Streams, VerbatimBlocksReachTheCardAsTheyAre) {
  const auto device = provider().open();
  CompletionRecorder recorder;
  wire::ControlBlock junk{};
  junk.header.magic = 0x12345678;
  junk.header.sticks = 200;
  const ControlBlockRequest request{&junk, &recorder};
  ASSERT_EQ(device->submit_verbatim(0, {&request, 1}).value(), 1u);
  ASSERT_EQ(device->wait_until([&] { return recorder.ended() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(recorder.all()[0].outcome, wire::Outcome::Rejected);
  EXPECT_EQ(recorder.all()[0].status, wire::Status::BadMagic);
  CompletionCounter counter;
  value_or_throw(submit_nops(*device, 0, counter, 1));
  ASSERT_EQ(device->wait_until([&] { return counter.ended() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(counter.not_ok(), 0u) << "a block that names no stream touches none";
}

TEST(Streams, AllStreamsCanBeOpenedAndTheNextOneIsRefusedWithAReason) {
  const auto device = provider().open();
  std::vector<std::uint32_t> streams;
  for (unsigned i = 1; i < wire::kStreamsPerFunction; ++i)
    streams.push_back(device->open_stream(StreamPriority::Low).value());
  const auto refused = device->open_stream(StreamPriority::Low);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("stream table full"), std::string::npos) << describe(refused.error());
  ASSERT_TRUE(device->close_stream(streams[3]));
  EXPECT_FALSE(device->close_stream(streams[3]));
  EXPECT_EQ(device->open_stream(StreamPriority::High).value(), streams[3]);
}

TEST(Streams, AReopenedStreamHasANewIncarnationAndItsOldBlocksAreStale) {
  const auto device = provider().open();
  test::Workbench bench(*device);
  const auto first = value_or_throw(device->open_stream(StreamPriority::Low));
  const std::uint32_t incarnation = device->stream_incarnation(first);
  value_or_throw(device->close_stream(first));
  const auto second = value_or_throw(device->open_stream(StreamPriority::Low));
  ASSERT_EQ(second, first) << "the lowest free number";
  EXPECT_GT(device->stream_incarnation(second), incarnation);
  auto old = Blocks::nop();
  old.header.magic = wire::kControlBlockMagic;
  old.header.sticks = 1;
  old.header.stream = second;
  old.header.incarnation = incarnation;
  old.header.generation = device->config().generation;
  old.header.sequence = 1;
  CompletionRecorder recorder;
  const ControlBlockRequest request{&old, &recorder};
  ASSERT_EQ(value_or_throw(device->submit_verbatim(second, {&request, 1})), 1u);
  ASSERT_EQ(device->wait_until([&] { return recorder.ended() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(recorder.all()[0].outcome, wire::Outcome::Rejected);
  EXPECT_EQ(recorder.all()[0].status, wire::Status::StaleIncarnation);
  EXPECT_EQ(bench.run(Blocks::nop(), second).outcome, wire::Outcome::Ok) << "it touched the new stream";
}

TEST(Streams, StreamZeroCannotBeClosed) {
  const auto device = provider().open();
  const auto closed = device->close_stream(0);
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().message.find(wire::name(wire::Status::NotPermitted)), std::string::npos)
      << describe(closed.error());
}

TEST(Streams, AResetClearsThePoisonOfItsStreamOnly) {
  const auto device = provider().open();
  test::Workbench bench(*device);
  const auto faulting = value_or_throw(device->open_stream(StreamPriority::Low));
  const auto too = value_or_throw(device->open_stream(StreamPriority::High));
  const auto bystander = value_or_throw(device->open_stream(StreamPriority::Low));
  auto bad = Blocks::nop();
  bad.header.flags = 1;
  EXPECT_EQ(bench.run(bad, faulting).outcome, wire::Outcome::Rejected);
  EXPECT_EQ(bench.run(bad, too).outcome, wire::Outcome::Rejected);
  EXPECT_EQ(bench.run(Blocks::nop(), bystander).outcome, wire::Outcome::Ok);
  value_or_throw(device->reset_stream(faulting));
  EXPECT_EQ(bench.run(Blocks::nop(), faulting).outcome, wire::Outcome::Ok);
  EXPECT_EQ(bench.run(Blocks::nop(), too).outcome, wire::Outcome::Aborted);
  EXPECT_EQ(bench.run(Blocks::nop(), bystander).outcome, wire::Outcome::Ok);
}

// A transfer of many steps: its stream is reset in its middle, or, on a busy machine, just before or behind it.
TEST(Streams, AResetEndsWhatRunsAndWhatWaits) {
  const auto device = provider().open();
  test::Workbench bench(*device);
  const auto stream = value_or_throw(device->open_stream(StreamPriority::Low));
  const auto region = value_or_throw(device->acquire_region(RegionType::Tensor, 64 * wire::kMiB));
  const auto fill = test::Workbench::fill({region.base.region_id, 0, region.generation, wire::EndpointKind::Region, {}},
                                          64 * wire::kMiB, 7);
  for (int round = 0; round < 5; ++round) {
    CompletionRecorder recorder;
    const std::vector<ControlBlockRequest> requests(4, {&fill, &recorder});
    ASSERT_EQ(value_or_throw(device->submit(stream, requests)), 4u);
    value_or_throw(device->reset_stream(stream));
    const auto ends = recorder.all();
    ASSERT_EQ(ends.size(), 4u) << "everything is reported before the reset returns";
    bool stopped = false;
    for (const auto& end : ends) {
      if (end.outcome == wire::Outcome::Ok) {
        EXPECT_FALSE(stopped) << "it ran behind one that was stopped";
        continue;
      }
      // Begun and stopped; or never begun, whether it lay in the ring still or had been taken from it.
      const bool begun = !stopped && end.start_time != 0;
      EXPECT_EQ(end.outcome, begun ? wire::Outcome::Fault : wire::Outcome::Aborted);
      EXPECT_EQ(end.status, wire::Status::Stopped) << wire::name(end.status);
      stopped = true;
    }
    EXPECT_TRUE(stopped) << "four transfers of 64 MiB were over before the reset";
    EXPECT_EQ(bench.run(Blocks::nop(), stream).outcome, wire::Outcome::Ok);
  }
}

}  // namespace
}  // namespace svp::conformance
