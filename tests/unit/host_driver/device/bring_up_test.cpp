// SPDX-License-Identifier: Apache-2.0
// Every edge of the bring-up machine: a card that is right but for one thing.
#include "host_driver/device/bring_up.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>

#include "shared/version.hpp"
#include "shared/virtio.hpp"
#include "tests/unit/host_driver/transport/control_peer.hpp"

namespace svp {
namespace {

using test::ControlPeer;
using wire::Message;
using wire::MessageOp;

// A card that does everything right, in the fewest words.
class ModelCard {
 public:
  std::uint32_t status = 0;
  std::uint64_t offered = wire::kOfferedFeatures;
  std::uint64_t accepted = 0;
  wire::DeviceInfo info{wire::kDeviceId, wire::kVendorId, 64, sizeof(wire::DeviceConfig), wire::kQueueCount, 0, 0};
  wire::DeviceConfig config = good_config();
  std::uint32_t config_generation = 1;
  std::vector<std::uint32_t> history;  // of status

  static wire::DeviceConfig good_config() {
    wire::DeviceConfig config{};
    config.abi_version = wire::kAbiVersion;
    config.kind = wire::FunctionKind::Physical;
    config.window_bytes = ControlPeer::kWindowBytes;
    config.generation = 1;
    config.boot_epoch = 1;
    config.streams = wire::kStreamsPerFunction;
    config.stream_credits = wire::kStreamCredits;
    config.max_control_blocks = wire::kControlBlockSlots;
    return config;
  }

  Message operator()(const Message& request) {
    switch (static_cast<MessageOp>(request.header.op)) {
      case MessageOp::GetDeviceInfo: return ControlPeer::answer(request, info);
      case MessageOp::GetDeviceFeatures: return ControlPeer::answer(request, blocks(offered));
      case MessageOp::SetDriverFeatures: {
        const auto wanted = payload<wire::FeatureBlocks>(request);
        accepted = wanted.bits[0] | std::uint64_t{wanted.bits[1]} << 32;
        return ControlPeer::answer(request, wanted);
      }
      case MessageOp::SetDeviceStatus:
        status = payload<wire::StatusValue>(request).status;
        history.push_back(status);
        [[fallthrough]];
      case MessageOp::GetDeviceStatus: return ControlPeer::answer(request, wire::StatusValue{status});
      case MessageOp::GetConfig: {
        const auto range = payload<wire::ConfigRange>(request);
        wire::ConfigData data{config_generation, range.offset, range.bytes, {}};
        std::memcpy(data.data, reinterpret_cast<const std::byte*>(&config) + range.offset, range.bytes);
        return ControlPeer::answer(request, data);
      }
      case MessageOp::SetVirtqueue: {
        const auto set = payload<wire::SetQueue>(request);
        return ControlPeer::answer(request, wire::QueueState{set.index, set.size, set.size, 0, set.descriptors,
                                                             set.driver_area, set.device_area});
      }
      default: return ControlPeer::refusal(request);
    }
  }
  static wire::FeatureBlocks blocks(std::uint64_t bits) {
    return {0, 2, {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)}};
  }
  template <typename T>
  static T payload(const Message& request) {
    T value{};
    EXPECT_TRUE(wire::read_payload(request, value));
    return value;
  }
};

class BringUpTest : public testing::Test {
 protected:
  // Of a card that says nothing.
  BringUpTest() { timeouts.post_progress = std::chrono::milliseconds(60); }  // reached: run_alone() has no peer

  // A peer that answers is given the driver's own timeout: a busy machine must not look like a silent card.
  Expected<FunctionLink> run(ControlPeer::Handler handler) {
    timeouts = Timeouts{};
    peer.serve(std::move(handler));
    return run_alone();
  }
  Expected<FunctionLink> run_alone() {
    ControlChannel channel(peer.window(), doorbells, peer.exit_fd(), timeouts);
    if (held) channel.watch_debugger(held);
    BringUp bring_up(*peer.window(), channel, doorbells, peer.exit_fd(), timeouts, wire::kFeatureEventIdx);
    bring_up.watch_boot(codes_shown);
    auto linked = bring_up.run();
    last = bring_up.step();
    signalled = channel.statistics().doorbells;
    peer.stop();
    return linked;
  }
  // The step is named, and so are the POST code and what to do.
  void expect_failure(const Expected<FunctionLink>& linked, BringUpStep step, std::string_view word) {
    ASSERT_FALSE(linked) << name(step);
    const std::string text = describe(linked.error());
    EXPECT_NE(text.find("step \"" + std::string(name(step)) + "\""), std::string::npos) << text;
    EXPECT_NE(text.find("POST "), std::string::npos) << text;
    EXPECT_NE(text.find(word), std::string::npos) << text;
    EXPECT_FALSE(linked.error().next_step.empty());
    EXPECT_EQ(last, BringUpStep::Failed);
  }

  ModelCard card;
  ControlPeer peer;  // after what its thread uses
  Doorbells doorbells{peer.slot(), FaultHooks{}};
  Timeouts timeouts;
  std::function<bool()> held;
  std::function<std::uint64_t()> codes_shown;
  BringUpStep last = BringUpStep::WaitForCard;
  std::uint64_t signalled = 0;
};

TEST(BringUpSteps, EveryStepHasANameOfItsOwnAndTwoEdges) {
  std::set<std::string_view> names;
  for (unsigned i = 0; i < kBringUpSteps; ++i) {
    const auto step = static_cast<BringUpStep>(i);
    EXPECT_TRUE(names.insert(name(step)).second);
    if (step >= BringUpStep::Ready) {
      EXPECT_EQ(next_step(step, true), step);
      EXPECT_EQ(next_step(step, false), step);
    } else {
      EXPECT_EQ(static_cast<unsigned>(next_step(step, true)), i + 1);
      EXPECT_EQ(next_step(step, false), BringUpStep::Failed);
    }
  }
  EXPECT_EQ(name(static_cast<BringUpStep>(99)), "unknown step");
}

// More looks than fit into the time that a card which runs may be silent.
TEST_F(BringUpTest, TheTimeInWhichADebuggerHoldsTheCardDoesNotCount) {
  int looks = 0;
  held = [&] { return ++looks <= 100; };
  const auto linked = run_alone();
  EXPECT_FALSE(linked) << "a card that runs and says nothing is given up";
  EXPECT_GT(looks, 100);
}

// A machine that gives a boot little time: no window within the time-out, but more POST codes on the console.
TEST_F(BringUpTest, ABootThatOnlyTheConsoleShowsIsWaitedFor) {
  peer.header().magic = 0;
  unsigned asked = 0;
  codes_shown = [&] { return std::min(++asked, 4u); };
  expect_failure(run_alone(), BringUpStep::WaitForCard, "has not set up this window");
  EXPECT_EQ(asked, 5u) << "begin, three waits that began anew, the last";

  asked = 0;
  codes_shown = [&] { return ++asked; };
  expect_failure(run_alone(), BringUpStep::WaitForCard, "has not set up this window");
  EXPECT_EQ(asked, 1 + BringUp::kMostBootWaits) << "it shows codes for ever";
}

TEST_F(BringUpTest, AGoodCardIsBroughtUpInTheOrderOfTheStandard) {
  const auto linked = run(std::ref(card));
  ASSERT_TRUE(linked) << describe(linked.error());
  EXPECT_EQ(last, BringUpStep::Ready);
  EXPECT_EQ(card.history, (std::vector<std::uint32_t>{0, 1, 3, 11, 15}));
  EXPECT_EQ(card.accepted, wire::kMandatoryFeatures | wire::kFeatureEventIdx);
  EXPECT_LE(signalled, 6u) << "sixteen requests in six round trips";
  ASSERT_EQ(linked->queues.size(), wire::kQueueCount);
  EXPECT_EQ(linked->queues[wire::kEventQueue].in_flight(), wire::kEventQueueSize) << "buffers for events are posted";
}

TEST_F(BringUpTest, ACardThatNeverSetsUpItsWindowIsGivenUp) {
  peer.header().magic = 0;
  expect_failure(run_alone(), BringUpStep::WaitForCard, "window");
}
TEST_F(BringUpTest, ACardThatHangsDuringBootIsGivenUpWithItsPostCode) {
  peer.show_post(wire::PostCode::Cores);
  expect_failure(run_alone(), BringUpStep::WaitForCard, "cores");
}
TEST_F(BringUpTest, ACardWhoseBootFailedIsNotWaitedFor) {
  timeouts.post_progress = std::chrono::seconds(60);
  peer.show_post(wire::PostCode::Failed);
  expect_failure(run_alone(), BringUpStep::WaitForCard, "console");
}
TEST_F(BringUpTest, ACardThatDiesDuringBootIsNotWaitedFor) {
  timeouts.post_progress = std::chrono::seconds(60);
  peer.header().magic = 0;
  peer.die();
  expect_failure(run_alone(), BringUpStep::WaitForCard, "died");
}
TEST_F(BringUpTest, AnotherAbiVersionNamesBoth) {
  peer.header().abi_version = 4711;
  const auto linked = run_alone();
  expect_failure(linked, BringUpStep::CheckAbi, "4711");
  EXPECT_NE(linked.error().message.find("version " + std::to_string(wire::kAbiVersion)), std::string::npos);
}
TEST_F(BringUpTest, AnUnboundSlotIsRefused) {
  peer.header().kind = wire::FunctionKind::Unbound;
  expect_failure(run_alone(), BringUpStep::CheckAbi, "bound");
}
TEST_F(BringUpTest, AForeignDeviceIsRefused) {
  card.info.device_id = 1;
  expect_failure(run(std::ref(card)), BringUpStep::Identify, "not ours");
}
TEST_F(BringUpTest, AResetThatDoesNotReachZeroIsAFailure) {
  expect_failure(run([&](const Message& request) -> std::optional<Message> {
                   Message answer = card(request);
                   if (static_cast<MessageOp>(request.header.op) == MessageOp::SetDeviceStatus) {
                     answer = ControlPeer::answer(request, wire::StatusValue{wire::kStatusNeedsReset});
                   }
                   return answer;
                 }),
                 BringUpStep::Reset, "64");
}

// Each status that the card does not take.
struct StatusCase {
  std::uint32_t refused;
  BringUpStep step;
};
class BringUpStatus : public BringUpTest, public testing::WithParamInterface<StatusCase> {};
TEST_P(BringUpStatus, ARefusedStatusEndsItsStepAndTheCardIsTold) {
  std::uint32_t final_status = 0;
  const auto linked = run([&](const Message& request) -> std::optional<Message> {
    if (static_cast<MessageOp>(request.header.op) == MessageOp::SetDeviceStatus) {
      final_status = ModelCard::payload<wire::StatusValue>(request).status;
      if (final_status == GetParam().refused) return ControlPeer::refusal(request);
    }
    return card(request);
  });
  expect_failure(linked, GetParam().step, "refused");
  EXPECT_NE(final_status & wire::kStatusFailed, 0u);
}
TEST_P(BringUpStatus, AStatusThatDoesNotStickEndsItsStep) {
  const auto linked = run([&](const Message& request) -> std::optional<Message> {
    const Message answer = card(request);
    const bool set = static_cast<MessageOp>(request.header.op) == MessageOp::SetDeviceStatus;
    if (set && card.status == GetParam().refused)
      return ControlPeer::answer(request, wire::StatusValue{card.status | wire::kStatusNeedsReset});
    return answer;
  });
  expect_failure(linked, GetParam().step, "attach again");
}
INSTANTIATE_TEST_SUITE_P(EachStep, BringUpStatus,
                         testing::Values(StatusCase{1, BringUpStep::Acknowledge}, StatusCase{3, BringUpStep::Driver},
                                         StatusCase{11, BringUpStep::FeaturesOk},
                                         StatusCase{15, BringUpStep::DriverOk}));

TEST_F(BringUpTest, MissingMandatoryFeaturesAreNamed) {
  card.offered = wire::kOfferedFeatures & ~wire::kFeatureRingPacked;
  expect_failure(run(std::ref(card)), BringUpStep::Features, std::to_string(wire::kFeatureRingPacked));
}
TEST_F(BringUpTest, WhatTheCardDoesNotOfferIsNotAskedFor) {
  card.offered = wire::kMandatoryFeatures;
  const auto linked = run(std::ref(card));
  ASSERT_TRUE(linked);
  EXPECT_EQ(linked->features, wire::kMandatoryFeatures);
}
TEST_F(BringUpTest, FeaturesThatTheCardTakesBackAreNoticed) {
  expect_failure(run([&](const Message& request) -> std::optional<Message> {
                   if (static_cast<MessageOp>(request.header.op) == MessageOp::GetDeviceStatus) {
                     return ControlPeer::answer(request, wire::StatusValue{3});
                   }
                   return card(request);
                 }),
                 BringUpStep::FeaturesOk, "fewer");
}
TEST_F(BringUpTest, AConfigurationThatChangesWhileItIsReadIsReadAgain) {
  int reads = 0;
  const auto linked = run([&](const Message& request) -> std::optional<Message> {
    if (static_cast<MessageOp>(request.header.op) == MessageOp::GetConfig && ++reads < 8) ++card.config_generation;
    return card(request);
  });
  EXPECT_TRUE(linked);
}
TEST_F(BringUpTest, AConfigurationThatNeverStandsStillIsGivenUp) {
  expect_failure(run([&](const Message& request) -> std::optional<Message> {
                   ++card.config_generation;
                   return card(request);
                 }),
                 BringUpStep::ReadConfig, "changed");
}
TEST_F(BringUpTest, AConfigurationThatCannotBeIsRefused) {
  card.config.window_bytes *= 2;
  expect_failure(run(std::ref(card)), BringUpStep::ReadConfig, "window");
}
TEST_F(BringUpTest, AShareLargerThanTheCardsMemoryIsRefused) {
  card.config.memory_bytes = 8 * wire::kGranuleBytes;
  card.config.share_bytes = 9 * wire::kGranuleBytes;
  expect_failure(run(std::ref(card)), BringUpStep::ReadConfig, "share");
}
TEST_F(BringUpTest, AShareLargerThanTheQuotaIsRefused) {
  card.config.memory_bytes = 8 * wire::kGranuleBytes;
  card.config.quota_bytes = 2 * wire::kGranuleBytes;
  card.config.share_bytes = 3 * wire::kGranuleBytes;
  expect_failure(run(std::ref(card)), BringUpStep::ReadConfig, "share");
}
TEST_F(BringUpTest, AShareOfPartsOfGranulesIsRefused) {
  card.config.memory_bytes = 8 * wire::kGranuleBytes;
  card.config.share_bytes = wire::kGranuleBytes / 2;
  expect_failure(run(std::ref(card)), BringUpStep::ReadConfig, "share");
}
TEST_F(BringUpTest, ABudgetLargerThanTheShareIsRefused) {
  card.config.memory_bytes = 8 * wire::kGranuleBytes;
  card.config.share_bytes = 2 * wire::kGranuleBytes;
  card.config.budget_bytes = 3 * wire::kGranuleBytes;
  expect_failure(run(std::ref(card)), BringUpStep::ReadConfig, "budget");
}
TEST_F(BringUpTest, ABudgetOfPartsOfGranulesIsRefused) {
  card.config.memory_bytes = 8 * wire::kGranuleBytes;
  card.config.share_bytes = 2 * wire::kGranuleBytes;
  card.config.budget_bytes = wire::kGranuleBytes / 2;
  expect_failure(run(std::ref(card)), BringUpStep::ReadConfig, "budget");
}
TEST_F(BringUpTest, AQueueThatIsSetUpElsewhereIsNoticed) {
  expect_failure(run([&](const Message& request) -> std::optional<Message> {
                   Message answer = card(request);
                   if (static_cast<MessageOp>(request.header.op) == MessageOp::SetVirtqueue) {
                     auto state = ModelCard::payload<wire::QueueState>(answer);
                     state.descriptors += 64;
                     answer = ControlPeer::answer(request, state);
                   }
                   return answer;
                 }),
                 BringUpStep::SetUpQueues, "admin");
}

// The card falls silent after n messages, or dies: some step fails, none hangs.
TEST_F(BringUpTest, SilenceAtAnyMomentIsATypedFailure) {
  for (int talkative = 0; talkative < 18; ++talkative) {
    for (const bool dies : {false, true}) {
      ModelCard model;
      int left = talkative;
      ControlPeer silent;  // after what its thread uses
      Doorbells its_doorbells(silent.slot(), FaultHooks{});
      timeouts.post_progress = std::chrono::milliseconds(5);   // reached: earlier than meant is a failure likewise
      timeouts.function_reset = std::chrono::milliseconds(5);  // reached: for the same reason
      silent.serve([&](const Message& request) -> std::optional<Message> {
        if (left-- > 0) return model(request);
        if (dies && left == -1) silent.die();
        return std::nullopt;
      });
      ControlChannel channel(silent.window(), its_doorbells, silent.exit_fd(), timeouts);
      BringUp bring_up(*silent.window(), channel, its_doorbells, silent.exit_fd(), timeouts, 0);
      const auto linked = bring_up.run();
      if (linked) continue;  // had said everything before
      EXPECT_EQ(bring_up.step(), BringUpStep::Failed);
      EXPECT_TRUE(linked.error().outcome == wire::Outcome::Indeterminate ||
                  linked.error().outcome == wire::Outcome::Lost);
    }
  }
}

}  // namespace
}  // namespace svp
