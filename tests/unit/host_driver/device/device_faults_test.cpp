// SPDX-License-Identifier: Apache-2.0
// The driver, told to fail at every place where it can: each time a typed error, nothing leaked, and the next attempt
// works. This program takes the allocation hook: its operator new fails when the driver is told so.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <functional>
#include <set>
#include <vector>

#include "host_driver/base/event_loop.hpp"
#include "host_driver/device/bring_up.hpp"
#include "host_driver/device/device.hpp"
#include "tests/bounds.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/completion_sinks.hpp"
#include "tests/support/process_resources.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using test::Blocks;
using test::CompletionCounter;
using test::CompletionRecorder;
using test::NativeCard;
using test::work_limit;

// Its runtime has an operator new of its own (host_driver/faults/allocation_hook.cpp).
#if defined(__has_feature) && __has_feature(thread_sanitizer)
constexpr bool kAllocationsCanFail = false;
#else
constexpr bool kAllocationsCanFail = true;
#endif

// So many occurrences no attaching has: a loop that reaches it does not end by itself.
constexpr std::uint64_t kFarTooMany = 5000;

void expect_typed(const ErrorInfo& error) {
  EXPECT_FALSE(error.message.empty());
  EXPECT_FALSE(error.next_step.empty());
  EXPECT_FALSE(error.source.empty());
  EXPECT_NE(error.outcome, wire::Outcome::Ok);
}

class DeviceFaults : public testing::Test {
 protected:
  // The n-th occurrence of the point fails; what attaching said.
  Expected<std::unique_ptr<Device>> attach_with(const HostFault& fault) {
    injector_ = std::make_shared<HostFaults>();
    row_ = *injector_->arm(fault);
    return attach();
  }
  Expected<std::unique_ptr<Device>> attach() {
    DeviceOptions options;
    options.loop = loop_;
    options.timeouts.admin = admin_;  // reached: where replies are lost
    options.faults.injector = injector_;
    options.faults.no_spinning = no_spinning_;
    return Device::attach(card_.slot(1), card_.device_options(std::move(options)));
  }
  bool fired() const { return injector_->evidence(row_).fired != 0; }
  void expect_works(Device& device) {
    CompletionCounter counter;
    const auto block = Blocks::nop();
    const ControlBlockRequest request{&block, &counter};
    ASSERT_EQ(device.submit(0, {&request, 1}).value_or(0), 1u);
    EXPECT_EQ(device.wait_until([&] { return counter.ended() == 1; }, work_limit()), WaitStatus::Done);
    EXPECT_EQ(counter.not_ok(), 0u);
  }
  // Attaches with the first, the second, … occurrence failing until one is not reached any more.
  std::uint64_t fail_at_every(HostFault fault) {
    {
      const auto warm = attach();
    }
    const auto before = test::count_own_resources();
    for (fault.trigger.first = 1; fault.trigger.first < kFarTooMany; ++fault.trigger.first) {
      auto device = attach_with(fault);
      if (!fired()) {
        EXPECT_TRUE(device.has_value());
        break;
      }
      if (!device) {
        expect_typed(device.error());
        loop_->flush();  // what it was told to forget, it has forgotten
        EXPECT_EQ(test::count_own_resources(), before)
            << "leaked at occurrence " << fault.trigger.first << ": " << describe(device.error());
      } else {
        expect_works(**device);
      }
      if (HasFailure()) return 0;
      injector_.reset();
    }
    injector_.reset();
    auto device = attach();
    EXPECT_TRUE(device.has_value());
    if (device) expect_works(**device);
    return fault.trigger.first - 1;
  }

  NativeCard card_;
  std::shared_ptr<EventLoop> loop_ = EventLoop::create().value();
  std::shared_ptr<HostFaults> injector_;
  unsigned row_ = 0;
  bool no_spinning_ = false;
  Timeouts::Duration admin_ = Timeouts{}.admin;
};

TEST_F(DeviceFaults, EveryAllocationOfAttachingMayFail) {
  if (!kAllocationsCanFail) GTEST_SKIP() << "the thread sanitizer's operator new stays";
  const std::uint64_t allocations = fail_at_every({.point = fault::Point::Allocation});
  EXPECT_GT(allocations, 10u) << "the hook is not linked";
  RecordProperty("allocations", static_cast<int>(allocations));
}

TEST_F(DeviceFaults, EveryAllocationMayFailFromOneOn) {
  if (!kAllocationsCanFail) GTEST_SKIP() << "the thread sanitizer's operator new stays";
  for (std::uint64_t first : {1, 2, 5, 10, 20}) {
    auto device = attach_with({.point = fault::Point::Allocation, .trigger = wire::occurrences(first, 1, 0)});
    EXPECT_TRUE(fired());
    ASSERT_FALSE(device.has_value());
    EXPECT_EQ(device.error().outcome, wire::Outcome::Rejected);
  }
}

TEST_F(DeviceFaults, EverySystemCallOfAttachingMayFail) {
  EXPECT_GT(fail_at_every({.point = fault::Point::SystemCall, .argument = EMFILE}), 3u);
}

TEST_F(DeviceFaults, EveryStepOfBringUpMayFail) {
  const std::uint64_t steps = fail_at_every({.point = fault::Point::BringUpStep});
  EXPECT_EQ(steps, static_cast<std::uint64_t>(BringUpStep::Ready));
}

TEST_F(DeviceFaults, AFailedStepIsNamed) {
  const auto device = attach_with({.point = fault::Point::BringUpStep,
                                   .trigger = wire::occurrences(static_cast<unsigned>(BringUpStep::ReadConfig) + 1)});
  ASSERT_FALSE(device.has_value());
  EXPECT_NE(device.error().message.find(name(BringUpStep::ReadConfig)), std::string::npos) << device.error().message;
}

TEST_F(DeviceFaults, ALoopThatHasNoMemoryOrDescriptorsIsATypedError) {
  loop_.reset();
  const auto before = test::count_own_resources();
  for (const fault::Point point : {fault::Point::Allocation, fault::Point::SystemCall}) {
    for (std::uint64_t first = 1; first < kFarTooMany; ++first) {
      auto device = attach_with({.point = point, .trigger = wire::occurrences(first), .argument = ENFILE});
      const bool reached = fired();
      if (!device) expect_typed(device.error());
      device = std::unexpected(ErrorInfo{});
      injector_.reset();
      ASSERT_EQ(test::count_own_resources(), before) << first;
      if (!reached) break;
    }
  }
}

// Opening and resetting streams, acquiring regions: an allocation fails, and the device works on.
TEST_F(DeviceFaults, EveryAllocationOfAnAdminCallMayFail) {
  if (!kAllocationsCanFail) GTEST_SKIP() << "the thread sanitizer's operator new stays";
  injector_ = std::make_shared<HostFaults>();
  auto device = attach();
  ASSERT_TRUE(device.has_value());
  const std::function<Expected<void>()> calls[] = {[&]() -> Expected<void> {
                                                     auto stream = (*device)->open_stream(StreamPriority::Low);
                                                     if (!stream) return std::unexpected(stream.error());
                                                     return (*device)->close_stream(*stream);
                                                   },
                                                   [&] { return (*device)->reset_stream(0); },
                                                   [&]() -> Expected<void> {
                                                     auto region =
                                                         (*device)->acquire_region(RegionType::Tensor, 2 * wire::kMiB);
                                                     if (!region) return std::unexpected(region.error());
                                                     return (*device)->release_region(*region);
                                                   }};
  for (const auto& call : calls) {
    // An opened stream whose closing fails stays open; there are enough of them.
    for (std::uint64_t first = 1; first < 20; ++first) {
      const unsigned row = *injector_->arm({.point = fault::Point::Allocation, .trigger = wire::occurrences(first)});
      const auto done = call();
      if (!done) {
        expect_typed(done.error());
        EXPECT_EQ(done.error().source, "host memory");
      }
      const bool reached = injector_->evidence(row).fired != 0;
      injector_->disarm(row);
      expect_works(**device);
      if (!reached) break;
      if (first == HostFaults::kRows - 2) break;
    }
    device->reset();
    injector_ = std::make_shared<HostFaults>();
    device = attach();
    ASSERT_TRUE(device.has_value());
  }
}

// ---- replies --------------------------------------------------------------------------------------------------------

TEST_F(DeviceFaults, AReplyThatIsLostIsIndeterminateAndItsSlotIsNotUsedAgain) {
  HostFault lose{.point = fault::Point::AdminReply, .trigger = wire::occurrences(1, 1, 0)};
  lose.trigger.opcode = static_cast<std::uint32_t>(wire::AdminCommand::Stats);
  admin_ = std::chrono::milliseconds(200);
  auto device = attach_with(lose);
  ASSERT_TRUE(device.has_value());
  for (unsigned i = 0; i < 3; ++i) {
    const auto lost = (*device)->card_statistics();
    ASSERT_FALSE(lost.has_value());
    EXPECT_EQ(lost.error().outcome, wire::Outcome::Indeterminate) << describe(lost.error());
    expect_typed(lost.error());
  }
  // Sooner or later within the short bound.
  const auto opened = [&] { return (*device)->open_stream(StreamPriority::Low).has_value(); };
  EXPECT_EQ((*device)->wait_until(opened, work_limit()), WaitStatus::Done) << "others are answered";
  expect_works(**device);
  for (unsigned i = 3; i < wire::kAdminSlots; ++i) (void)(*device)->card_statistics();
  const auto none_left = (*device)->open_stream(StreamPriority::Low);
  ASSERT_FALSE(none_left.has_value());
  EXPECT_NE(none_left.error().message.find("no free slot"), std::string::npos) << describe(none_left.error());
  device->reset();
  injector_->disarm_all();
  admin_ = Timeouts{}.admin;
  device = attach();
  ASSERT_TRUE(device.has_value());
  EXPECT_TRUE((*device)->card_statistics().has_value()) << "the function's reset has given them back";
}

// ---- completions ----------------------------------------------------------------------------------------------------

struct BadCompletion {
  const char* name;
  HostFault fault;
};

class FaultyCompletion : public DeviceFaults, public testing::WithParamInterface<BadCompletion> {};

// Every block ends exactly once, the device says why, and a new one works.
TEST_P(FaultyCompletion, EndsEverythingOnceAndTyped) {
  auto device = attach_with(GetParam().fault);
  ASSERT_TRUE(device.has_value());
  CompletionRecorder recorder;
  const auto block = Blocks::nop();
  const std::vector<ControlBlockRequest> requests(10, {&block, &recorder});
  ASSERT_EQ((*device)->submit(0, requests).value_or(0), requests.size());
  (void)(*device)->wait_until([&] { return recorder.ended() == requests.size() || (*device)->failure(); },
                              work_limit());
  (*device)->poll();
  ASSERT_TRUE((*device)->failure().has_value());
  expect_typed(*(*device)->failure());
  EXPECT_EQ((*device)->health(), Health::Dead);
  device->reset();
  EXPECT_TRUE(fired());
  ASSERT_EQ(recorder.ended(), requests.size());
  std::set<std::uint64_t> sequences;
  for (const auto& completion : recorder.all()) EXPECT_TRUE(sequences.insert(completion.sequence).second);
  injector_->disarm_all();
  device = attach();
  ASSERT_TRUE(device.has_value());
  expect_works(**device);
}

INSTANTIATE_TEST_SUITE_P(Table, FaultyCompletion,
                         testing::Values(BadCompletion{"Outcome",
                                                       {.point = fault::Point::Completion,
                                                        .action = fault::Action::Corrupt,
                                                        .trigger = wire::occurrences(4),
                                                        .argument = 0}},
                                         BadCompletion{"Stream",
                                                       {.point = fault::Point::Completion,
                                                        .action = fault::Action::Corrupt,
                                                        .trigger = wire::occurrences(4),
                                                        .argument = offsetof(wire::Completion, stream)}},
                                         BadCompletion{"Generation",
                                                       {.point = fault::Point::Completion,
                                                        .action = fault::Action::Corrupt,
                                                        .trigger = wire::occurrences(4),
                                                        .argument = offsetof(wire::Completion, generation)}},
                                         BadCompletion{"Duplicate",
                                                       {.point = fault::Point::Completion,
                                                        .action = fault::Action::Duplicate,
                                                        .trigger = wire::occurrences(4)}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(DeviceFaults, ALostCompletionIsOutstandingUntilTheDeviceEndsAndThenEndsOnce) {
  auto device = attach_with(
      {.point = fault::Point::Completion, .action = fault::Action::Suppress, .trigger = wire::occurrences(2)});
  ASSERT_TRUE(device.has_value());
  CompletionRecorder recorder;
  const auto block = Blocks::nop();
  const std::vector<ControlBlockRequest> requests(5, {&block, &recorder});
  ASSERT_EQ((*device)->submit(0, requests).value_or(0), requests.size());
  EXPECT_EQ((*device)->wait_until([&] { return recorder.ended() == 4; }, work_limit()), WaitStatus::Done);
  EXPECT_EQ((*device)->outstanding(0), 1u);
  device->reset();
  ASSERT_EQ(recorder.ended(), 5u);
  EXPECT_NE(recorder.all().back().outcome, wire::Outcome::Ok);
  EXPECT_EQ(recorder.all().back().sequence, 2u);
}

// ---- doorbells, FIFO, window ----------------------------------------------------------------------------------------

class FaultyTransport : public DeviceFaults, public testing::WithParamInterface<BadCompletion> {};

TEST_P(FaultyTransport, LosesNothing) {
  no_spinning_ = true;  // who spins waits for no doorbell
  auto device = attach_with(GetParam().fault);
  ASSERT_TRUE(device.has_value());
  for (int i = 0; i < 50; ++i) {
    CompletionCounter counter;
    const auto block = Blocks::nop();
    const ControlBlockRequest request{&block, &counter};
    ASSERT_EQ((*device)->submit(0, {&request, 1}).value_or(0), 1u);
    ASSERT_EQ((*device)->wait_until([&] { return counter.ended() == 1; }, work_limit()), WaitStatus::Done);
    ASSERT_EQ(counter.not_ok(), 0u);
  }
  EXPECT_TRUE((*device)->card_statistics().has_value());
  EXPECT_TRUE(fired());
}

HostFault always(fault::Point point, fault::Action action, std::uint64_t argument = 0) {
  return {.point = point, .action = action, .trigger = wire::occurrences(1, 1, 0), .argument = argument};
}

INSTANTIATE_TEST_SUITE_P(
    Table, FaultyTransport,
    testing::Values(BadCompletion{"ToCardDuplicated", always(fault::Point::DoorbellToCard, fault::Action::Duplicate)},
                    BadCompletion{"ToCardDelayed", always(fault::Point::DoorbellToCard, fault::Action::Delay, 500)},
                    BadCompletion{"ToCardLost", always(fault::Point::DoorbellToCard, fault::Action::Suppress)},
                    BadCompletion{"ToHostDuplicated", always(fault::Point::DoorbellToHost, fault::Action::Duplicate)},
                    BadCompletion{"ToHostDelayed", always(fault::Point::DoorbellToHost, fault::Action::Delay, 500)},
                    BadCompletion{"ToHostLost", always(fault::Point::DoorbellToHost, fault::Action::Suppress)},
                    BadCompletion{"MessagesStalled", always(fault::Point::ControlFifo, fault::Action::Stall, 500)}),
    [](const auto& info) { return std::string(info.param.name); });

class BadMessage : public DeviceFaults, public testing::WithParamInterface<std::uint64_t> {};

// One byte of one of the card's first answers is wrong. A typed error, or an answer that was right enough; never a
// hang. A wrong token is an answer that never comes, so the bounds are short; when the card had no CPU for so long, and
// the message was not reached, they are doubled.
TEST_P(BadMessage, IsATypedErrorOrHarmless) {
  bool fired = false;
  std::chrono::milliseconds bound{100};  // doubled below, up to kWork
  for (; !fired && bound < test_bounds::kWork; bound *= 2) {
    DeviceOptions options;
    options.loop = loop_;
    options.timeouts.post_progress = bound;       // reached: then it is doubled, until the message was reached
    options.timeouts.function_reset = 2 * bound;  // reached: for the same reason
    injector_ = std::make_shared<HostFaults>();
    const unsigned row = *injector_->arm({.point = fault::Point::ControlFifo,
                                          .action = fault::Action::Corrupt,
                                          .trigger = wire::occurrences(GetParam() / 64 + 1),
                                          .argument = GetParam() % 64});
    options.faults.injector = injector_;
    const auto device = Device::attach(card_.slot(1), card_.device_options(std::move(options)));
    fired = injector_->evidence(row).fired == 1;
    ASSERT_TRUE(fired || !device) << "the card was attached without the fault";
    if (!device) expect_typed(device.error());
    injector_.reset();
  }
  EXPECT_TRUE(fired);
}

// Every byte of a message, of each of the first four.
INSTANTIATE_TEST_SUITE_P(EveryByte, BadMessage, testing::Range<std::uint64_t>(0, 256, 3));

TEST_F(DeviceFaults, ALostAnswerEndsAttachingWithinItsBound) {
  DeviceOptions options;
  options.loop = loop_;
  options.timeouts.post_progress = std::chrono::milliseconds(100);  // reached: an answer is lost
  injector_ = std::make_shared<HostFaults>();
  (void)injector_->arm(
      {.point = fault::Point::ControlFifo, .action = fault::Action::Suppress, .trigger = wire::occurrences(3)});
  options.faults.injector = injector_;
  const auto device = Device::attach(card_.slot(1), card_.device_options(std::move(options)));
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().outcome, wire::Outcome::Indeterminate);
}

TEST_F(DeviceFaults, AFlippedBitOfTheUsedRingIsFoundByWhoReadsIt) {
  // The id of the used element that is about to be taken: bytes 12 and 13 of the ring's first descriptor.
  const std::uint64_t id = wire::kQueueLayouts[wire::kControlBlockQueue].descriptors + 12;
  auto device =
      attach_with({.point = fault::Point::Window, .action = fault::Action::Corrupt, .argument = 0x80, .offset = id});
  ASSERT_TRUE(device.has_value());
  CompletionRecorder recorder;
  const auto block = Blocks::nop();
  const ControlBlockRequest request{&block, &recorder};
  ASSERT_EQ((*device)->submit(0, {&request, 1}).value_or(0), 1u);
  (void)(*device)->wait_until([&] { return recorder.ended() == 1; }, work_limit());
  EXPECT_TRUE(fired());
  ASSERT_EQ(recorder.ended(), 1u);
  EXPECT_EQ(recorder.all()[0].outcome, wire::Outcome::Indeterminate);
}

}  // namespace
}  // namespace svp
