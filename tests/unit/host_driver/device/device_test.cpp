// SPDX-License-Identifier: Apache-2.0
// Device against the real firmware core on a thread: submitting, waiting, streams, admin, regions.
#include "host_driver/device/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/transport/event_loop.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/device/recorder.hpp"

namespace flex {
namespace {

using test::Counter;
using test::in_seconds;
using test::NativeCard;
using test::nop;
using test::Recorder;

std::size_t submit_nops(Device& device, std::uint32_t stream, CompletionSink& sink, std::size_t count) {
  const auto block = nop();
  const std::vector<ControlBlockRequest> requests(count, {&block, &sink});
  const auto accepted = device.submit(stream, requests);
  if (!accepted) ADD_FAILURE() << describe(accepted.error());
  return accepted.value_or(0);
}

TEST(Device, AttachReadsTheConfigurationOfItsFunction) {
  NativeCard card;
  const auto physical = card.attach(1);
  const auto virtual_one = card.attach(2);
  ASSERT_TRUE(physical && virtual_one);
  EXPECT_EQ(physical->config().kind, wire::FunctionKind::Physical);
  EXPECT_EQ(virtual_one->config().kind, wire::FunctionKind::Virtual);
  EXPECT_EQ(virtual_one->config().function_index, 1u);
}

TEST(Device, ASecondAttachToTheSameFunctionAfterTheFirstStartsAfresh) {
  NativeCard card;
  for (int i = 0; i < 20; ++i) {
    const auto device = card.attach();
    ASSERT_TRUE(device);
    Counter counter;
    submit_nops(*device, 0, counter, 3);
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == 3; }, in_seconds(10)), WaitStatus::Done);
    EXPECT_EQ(counter.failed(), 0u);
  }
}

TEST(Device, ABlockEndsExactlyOnceAndItsFieldsComeBack) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  Recorder recorder;
  const auto block = nop(77);
  const ControlBlockRequest request{&block, &recorder};
  ASSERT_EQ(device->submit(0, {&request, 1}).value(), 1u);
  ASSERT_EQ(device->wait_until([&] { return recorder.count() == 1; }, in_seconds(10)), WaitStatus::Done);
  const auto completion = recorder.all().front();
  EXPECT_EQ(completion.outcome, wire::Outcome::Ok);
  EXPECT_EQ(completion.cookie, 77u);
  EXPECT_EQ(completion.sequence, 1u);
  EXPECT_NE(completion.end_time, 0u);
  EXPECT_EQ(device->outstanding(0), 0u);
}

TEST(Device, WithAndWithoutOptionalFeaturesTheResultIsTheSame) {
  for (const std::uint64_t features :
       {std::uint64_t{0}, wire::kFeatureEventIdx, wire::kFeatureControlBlockCrc, wire::kOptionalFeatures}) {
    NativeCard card;
    DeviceOptions options;
    options.optional_features = features;
    const auto device = card.attach(1, std::move(options));
    ASSERT_TRUE(device);
    EXPECT_EQ(device->features() & wire::kOptionalFeatures, features);
    Counter counter;
    for (std::uint64_t sent = 0; sent < 2000;) {
      sent += submit_nops(*device, 0, counter, std::min<std::size_t>(7, 2000 - sent));
      (void)device->wait_until([&] { return counter.ended() + 64 > sent; }, in_seconds(10));
    }
    EXPECT_EQ(device->wait_until([&] { return counter.ended() == 2000; }, in_seconds(10)), WaitStatus::Done);
    EXPECT_EQ(counter.failed(), 0u);
  }
}

TEST(Device, BlocksOfAStreamEndInTheOrderOfSubmission) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  Recorder recorder;
  std::uint64_t next = 0;
  while (next < 1000) {
    const auto block = nop(next);
    const ControlBlockRequest request{&block, &recorder};
    next += device->submit(0, {&request, 1}).value();
  }
  ASSERT_EQ(device->wait_until([&] { return recorder.count() == 1000; }, in_seconds(20)), WaitStatus::Done);
  const auto all = recorder.all();
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].cookie, i);
    ASSERT_EQ(all[i].sequence, i + 1);
  }
}

TEST(Device, AStreamGetsItsCreditsAndNotOneMore) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  card.pause();
  Counter counter;
  EXPECT_EQ(submit_nops(*device, 0, counter, 1000), wire::kStreamCredits);
  EXPECT_EQ(submit_nops(*device, 0, counter, 1), 0u);
  EXPECT_EQ(device->outstanding(0), wire::kStreamCredits);
  card.resume();
  ASSERT_EQ(device->wait_until([&] { return counter.ended() == wire::kStreamCredits; }, in_seconds(10)),
            WaitStatus::Done);
  EXPECT_EQ(counter.failed(), 0u);
}

class Refiller final : public CreditSink {
 public:
  Refiller(Device& device, CompletionSink& sink, std::size_t total) : device_(device), sink_(sink), left_(total) {}
  void on_credits(std::uint32_t stream) noexcept override {
    const std::lock_guard lock(mutex_);  // the call may come before the submit() that was cut short has returned
    const auto block = nop();
    const std::vector<ControlBlockRequest> requests(std::min<std::size_t>(left_, 400), {&block, &sink_});
    left_ -= device_.submit(stream, requests).value_or(0);
  }

 private:
  Device& device_;
  CompletionSink& sink_;
  std::mutex mutex_;
  std::size_t left_;
};

// The pending list of the layer above drains by itself: no thread waits.
TEST(Device, CreditsComeBackThroughTheEventLoopWhenNobodyWaits) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  Counter counter;
  Refiller refiller(*device, counter, 5000);
  device->set_credit_sink(0, &refiller);
  refiller.on_credits(0);
  for (const auto end = in_seconds(20); counter.ended() < 5000 && Device::Clock::now() < end;)
    std::this_thread::yield();
  EXPECT_EQ(counter.ended(), 5000u);
  EXPECT_EQ(counter.failed(), 0u);
  EXPECT_GT(device->statistics().loop_reaps, 0u);
  device->set_credit_sink(0, nullptr);
}

TEST(Device, ManyThreadsOnManyStreamsAllFinish) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> bad{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const auto stream = device->open_stream(t % 2 != 0 ? StreamPriority::High : StreamPriority::Low);
      if (!stream) {
        bad.fetch_add(1);
        return;
      }
      Counter counter;
      std::uint64_t sent = 0;
      for (int round = 0; round < 200; ++round) {
        sent += submit_nops(*device, *stream, counter, 1u + static_cast<unsigned>(round) % 5u);
        if (device->wait_until([&] { return counter.ended() == sent; }, in_seconds(20)) != WaitStatus::Done)
          bad.fetch_add(1);
      }
      if (counter.failed() != 0 || !device->close_stream(*stream)) bad.fetch_add(1);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(bad.load(), 0u);
}

TEST(Device, AWaitEndsAtItsDeadline) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  const auto start = Device::Clock::now();
  EXPECT_EQ(device->wait_until([] { return false; }, start + std::chrono::milliseconds(30)), WaitStatus::TimedOut);
  EXPECT_LT(Device::Clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(device->wait_until([] { return false; }, start), WaitStatus::TimedOut) << "in the past";
}

TEST(Device, AWaitForSomethingElseEndsWhenToldToLook) {
  NativeCard card;
  DeviceOptions options;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  std::atomic<bool> flag{false};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back(
        [&] { EXPECT_EQ(device->wait_until([&] { return flag.load(); }, in_seconds(20)), WaitStatus::Done); });
  }
  flag.store(true);
  device->wake_waiters();
  for (auto& waiter : waiters) waiter.join();
}

class Intruder final : public CompletionSink {
 public:
  explicit Intruder(Device& device) : device_(device) {}
  void on_completion(const wire::Completion&) noexcept override {
    waited = device_.wait_until([] { return false; }, in_seconds(10));
    admin_failed = !device_.card_statistics().has_value();
    reset_failed = !device_.reset_stream(0).has_value();
    device_.poll();
    done.store(true);
  }
  WaitStatus waited = WaitStatus::Done;
  bool admin_failed = false;
  bool reset_failed = false;
  std::atomic<bool> done{false};

 private:
  Device& device_;
};

TEST(Device, BlockingInsideASinkIsRefusedAtOnce) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  Intruder intruder(*device);
  submit_nops(*device, 0, intruder, 1);
  ASSERT_EQ(device->wait_until([&] { return intruder.done.load(); }, in_seconds(10)), WaitStatus::Done);
  EXPECT_EQ(intruder.waited, WaitStatus::Refused);
  EXPECT_TRUE(intruder.admin_failed);
  EXPECT_TRUE(intruder.reset_failed);
}

// ---- streams --------------------------------------------------------------------------------------------------------

TEST(Device, AStreamThatIsNotOpenTakesNothing) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  Counter counter;
  const auto block = nop();
  const ControlBlockRequest request{&block, &counter};
  for (const std::uint32_t stream : {5u, wire::kStreamsPerFunction, ~0u}) {
    const auto accepted = device->submit(stream, {&request, 1});
    ASSERT_FALSE(accepted);
    EXPECT_EQ(accepted.error().outcome, wire::Outcome::Rejected);
  }
}

TEST(Device, EverythingOfAStreamIsReportedBeforeItsResetReturns) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  const auto stream = device->open_stream(StreamPriority::Low);
  ASSERT_TRUE(stream);
  for (int round = 0; round < 50; ++round) {
    Recorder recorder;
    card.pause();
    const auto count = submit_nops(*device, *stream, recorder, 10);
    std::thread later([&] { card.resume(); });
    const auto reset = device->reset_stream(*stream);
    later.join();
    ASSERT_TRUE(reset) << describe(reset.error());
    ASSERT_EQ(recorder.count(), count);
    Counter counter;
    submit_nops(*device, *stream, counter, 5);
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == 5; }, in_seconds(10)), WaitStatus::Done);
    ASSERT_EQ(counter.failed(), 0u) << "the new incarnation is clean";
  }
}

TEST(Device, ARejectedBlockPoisonsItsStreamUntilReset) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  Recorder recorder;
  auto bad = nop();
  bad.header.flags = 1;
  const auto good = nop();
  const ControlBlockRequest requests[] = {{&good, &recorder}, {&bad, &recorder}, {&good, &recorder}};
  ASSERT_EQ(device->submit(0, requests).value(), 3u);
  ASSERT_EQ(device->wait_until([&] { return recorder.count() == 3; }, in_seconds(10)), WaitStatus::Done);
  const auto all = recorder.all();
  EXPECT_EQ(all[0].outcome, wire::Outcome::Ok);
  EXPECT_EQ(all[1].outcome, wire::Outcome::Rejected);
  EXPECT_EQ(all[1].field, wire::Field::Flags);
  EXPECT_EQ(all[2].outcome, wire::Outcome::Aborted);
  ASSERT_TRUE(device->reset_stream(0));
  Counter counter;
  submit_nops(*device, 0, counter, 1);
  ASSERT_EQ(device->wait_until([&] { return counter.ended() == 1; }, in_seconds(10)), WaitStatus::Done);
  EXPECT_EQ(counter.failed(), 0u);
  std::vector<wire::DeviceEvent> events;
  (void)device->wait_until([&] { return device->statistics().events != 0; }, in_seconds(10));
  events = device->take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, wire::EventKind::StreamPoisoned);
}

TEST(Device, VerbatimBlocksReachTheCardAsTheyAre) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  Recorder recorder;
  wire::ControlBlock junk{};
  junk.header.magic = 0x12345678;
  junk.header.sticks = 200;
  const ControlBlockRequest request{&junk, &recorder};
  ASSERT_EQ(device->submit_verbatim(0, {&request, 1}).value(), 1u);
  ASSERT_EQ(device->wait_until([&] { return recorder.count() == 1; }, in_seconds(10)), WaitStatus::Done);
  EXPECT_EQ(recorder.all()[0].outcome, wire::Outcome::Rejected);
  EXPECT_EQ(recorder.all()[0].status, wire::Status::BadMagic);
  Counter counter;
  submit_nops(*device, 0, counter, 1);
  ASSERT_EQ(device->wait_until([&] { return counter.ended() == 1; }, in_seconds(10)), WaitStatus::Done);
  EXPECT_EQ(counter.failed(), 0u) << "a block that names no stream touches none";
}

TEST(Device, AllStreamsCanBeOpenedAndTheNextOneIsRefusedWithAReason) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
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

// ---- admin and regions ----------------------------------------------------------------------------------------------

TEST(Device, AdminCommandsFromManyThreadsEachGetTheirOwnReply) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 40; ++t) {  // more than there are slots
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) good += device->card_statistics().has_value();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good.load(), 800);
}

TEST(Device, AnUnknownCommandIsAReplyNotAnError) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  wire::AdminRequest request{};
  request.command = static_cast<wire::AdminCommand>(999);
  const auto reply = device->admin(request);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->outcome, wire::Outcome::Rejected);
  EXPECT_EQ(reply->status, wire::Status::BadOpcode);
}

TEST(Device, ALostReplyIsIndeterminateAndItsSlotComesBackWithTheReply) {
  NativeCard card;
  DeviceOptions options;
  options.timeouts.admin = std::chrono::milliseconds(20);
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  card.pause();
  for (unsigned i = 0; i < wire::kAdminSlots + 3; ++i) {
    const auto reply = device->card_statistics();
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().outcome, wire::Outcome::Indeterminate);
  }
  card.resume();
  (void)device->wait_until([&] { return device->card_statistics().has_value(); }, in_seconds(10));
  EXPECT_TRUE(device->card_statistics());
  EXPECT_EQ(device->health(), Health::Alive);
}

TEST(Device, RegionsAreGrantedToBothKindsOfFunctionsAndComeBack) {
  NativeCard card;
  for (const unsigned slot : {1u, 2u}) {
    const auto device = card.attach(slot);
    ASSERT_TRUE(device);
    const auto tensor = device->acquire_region(RegionType::Tensor, 16 << 20);
    ASSERT_TRUE(tensor) << describe(tensor.error());
    EXPECT_EQ(tensor->bytes, std::uint64_t{16} << 20);
    const auto program = device->acquire_region(RegionType::Program, 2 << 20);
    ASSERT_TRUE(program);
    EXPECT_EQ(program->ordinal, wire::kProgramRegion);
    ASSERT_TRUE(device->release_region(*tensor));
    EXPECT_FALSE(device->release_region(*tensor)) << "twice";
    const auto too_much = device->acquire_region(RegionType::Tensor, std::uint64_t{8} << 30);
    ASSERT_FALSE(too_much);
    EXPECT_EQ(too_much.error().outcome, wire::Outcome::Rejected);
    EXPECT_NE(too_much.error().message.find("free "), std::string::npos) << describe(too_much.error());
  }
}

TEST(Device, TheAllocatorTakesItsRegionsFromTheCard) {
  NativeCard card;
  const auto device = card.attach();
  ASSERT_TRUE(device);
  FlexAllocator allocator(device->region_source(), {.region_bytes = {std::uint64_t{1} << 30, 64 << 20}});
  const auto index = allocator.allocate(1000);
  EXPECT_EQ(allocator.resolve(index).block_bytes, 1024u);
  EXPECT_EQ(allocator.statistics().regions.front().region.bytes, std::uint64_t{64} << 20);
}

// ---- data -----------------------------------------------------------------------------------------------------------

TEST(Device, BytesGoToACardRegionAndComeBackUnchanged) {
  NativeCard card;
  const auto device = card.attach(2);
  ASSERT_TRUE(device);
  const auto region = device->acquire_region(RegionType::Tensor, 4 << 20);
  ASSERT_TRUE(region);
  constexpr std::uint64_t kBytes = 300 * 1024;
  const auto memory = device->host_memory();
  for (std::size_t i = 0; i < kBytes; ++i) memory[i] = static_cast<std::byte>(i * 31 >> 3);
  wire::ControlBlock to{};
  to.header.opcode = wire::Opcode::Dma;
  to.payload.dma.source = {0, device->host_memory_offset(), 0, wire::EndpointKind::HostMemory, {}};
  to.payload.dma.destination = {region->base.region_id, 1024, region->generation, wire::EndpointKind::Region, {}};
  to.payload.dma.bytes = kBytes;
  wire::ControlBlock from = to;
  std::swap(from.payload.dma.source, from.payload.dma.destination);
  from.payload.dma.destination.offset += 1 << 20;
  Recorder recorder;
  const ControlBlockRequest requests[] = {{&to, &recorder}, {&from, &recorder}};
  ASSERT_EQ(device->submit(0, requests).value(), 2u);
  ASSERT_EQ(device->wait_until([&] { return recorder.count() == 2; }, in_seconds(10)), WaitStatus::Done);
  for (const auto& completion : recorder.all()) {
    EXPECT_EQ(completion.outcome, wire::Outcome::Ok)
        << wire::name(completion.status) << " " << wire::name(completion.field);
    EXPECT_EQ(completion.bytes, kBytes);
  }
  EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + kBytes, memory.begin() + (1 << 20)));
}

// ---- bells ----------------------------------------------------------------------------------------------------------

struct DropCase {
  double to_card;
  double from_card;
};
class LostBells : public testing::TestWithParam<DropCase> {};

TEST_P(LostBells, MakeItSlowerAndLoseNothing) {
  NativeCard card;
  DeviceOptions options;
  options.faults.drop_bells_to_card = GetParam().to_card;
  options.faults.drop_bells_from_card = GetParam().from_card;
  options.faults.no_spinning = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  Counter counter;
  for (std::uint64_t round = 1; round <= 60; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(round * 37 % 400));  // think time, so that the card sleeps
    submit_nops(*device, 0, counter, 1);
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == round; }, in_seconds(10)), WaitStatus::Done);
  }
  EXPECT_EQ(counter.failed(), 0u);
  EXPECT_EQ(device->health(), Health::Alive);
}
INSTANTIATE_TEST_SUITE_P(EachWay, LostBells,
                         testing::Values(DropCase{1, 0}, DropCase{0, 1}, DropCase{1, 1}, DropCase{0.5, 0.5},
                                         DropCase{0.01, 0.01}),
                         [](const auto& info) { return "Case" + std::to_string(info.index); });

// Neither side has a timer: a single lost wake-up would stall until the deadline.
TEST(Device, SleepingRoundTripsNeedNoTimer) {
  NativeCard card({.boot_arguments = "timers=0"});
  DeviceOptions options;
  options.faults.no_spinning = true;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  Counter counter;
  std::uint64_t state = 1;
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto end = Device::Clock::now() + std::chrono::nanoseconds(state >> 50);  // up to 16 µs
    while (Device::Clock::now() < end) {
    }
    submit_nops(*device, 0, counter, 1);
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == round; }, in_seconds(10)), WaitStatus::Done) << round;
  }
  EXPECT_EQ(counter.failed(), 0u);
}

TEST(Device, ProgressWithoutAWaiterNeedsNoTimer) {
  NativeCard card({.boot_arguments = "timers=0"});
  DeviceOptions options;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  Counter counter;
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    submit_nops(*device, 0, counter, 1);
    for (const auto end = in_seconds(10); counter.ended() != round;) {
      ASSERT_LT(Device::Clock::now(), end) << round;
      std::this_thread::yield();
    }
  }
}

// Waiting now and then, so that the reaping moves between the waiter and the event loop all the time.
TEST(Device, HandingOverBetweenWaiterAndEventLoopLosesNothing) {
  NativeCard card({.boot_arguments = "timers=0"});
  DeviceOptions options;
  options.faults.no_timers = true;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  Counter counter;
  std::uint64_t sent = 0;
  for (std::uint64_t round = 1; round <= 3000; ++round) {
    sent += submit_nops(*device, 0, counter, 1 + round % 3);
    if (round % 2 == 0) {
      const auto target = sent - round % 3;
      ASSERT_EQ(device->wait_until([&] { return counter.ended() >= target; }, in_seconds(10)), WaitStatus::Done)
          << round;
    }
    for (const auto end = in_seconds(10); counter.ended() + 100 < sent;) ASSERT_LT(Device::Clock::now(), end) << round;
  }
  for (const auto end = in_seconds(10); counter.ended() != sent;) ASSERT_LT(Device::Clock::now(), end);
}

TEST(Device, AnIdleDeviceDoesNotWakeUp) {
  NativeCard card;
  DeviceOptions options;
  options.loop = EventLoop::create().value();
  const auto loop = options.loop;
  const auto device = card.attach(1, std::move(options));
  ASSERT_TRUE(device);
  Counter counter;
  submit_nops(*device, 0, counter, 1);
  ASSERT_EQ(device->wait_until([&] { return counter.ended() == 1; }, in_seconds(10)), WaitStatus::Done);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const auto before = loop->wakeups();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LE(loop->wakeups() - before, 1u);
}

}  // namespace
}  // namespace flex
