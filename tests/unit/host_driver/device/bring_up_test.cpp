// SPDX-License-Identifier: Apache-2.0
// Every edge of the bring-up machine: a card that is right but for one thing.
#include "host_driver/device/bring_up.hpp"

#include <gtest/gtest.h>

#include <set>

#include "shared/version.hpp"
#include "shared/virtio.hpp"
#include "tests/unit/host_driver/transport/control_peer.hpp"

namespace flex {
namespace {

using abi::Message;
using abi::MessageOp;
using test::ControlPeer;

// A card that does everything right, in the fewest words.
class ModelCard {
 public:
  std::uint32_t status = 0;
  std::uint64_t offered = abi::kOfferedFeatures;
  std::uint64_t accepted = 0;
  abi::DeviceInfo info{abi::kDeviceId, abi::kVendorId, 64, sizeof(abi::DeviceConfig), abi::kQueueCount, 0, 0};
  abi::DeviceConfig config = good_config();
  std::uint32_t config_generation = 1;
  std::vector<std::uint32_t> history;  // of status

  static abi::DeviceConfig good_config() {
    abi::DeviceConfig config{};
    config.abi_version = abi::kAbiVersion;
    config.kind = abi::FunctionKind::Physical;
    config.window_bytes = ControlPeer::kWindowBytes;
    config.generation = 1;
    config.boot_epoch = 1;
    config.streams = abi::kStreamsPerFunction;
    config.stream_credits = abi::kStreamCredits;
    config.max_control_blocks = abi::kControlBlockSlots;
    return config;
  }

  Message operator()(const Message& request) {
    switch (static_cast<MessageOp>(request.header.op)) {
      case MessageOp::GetDeviceInfo: return ControlPeer::answer(request, info);
      case MessageOp::GetDeviceFeatures: return ControlPeer::answer(request, blocks(offered));
      case MessageOp::SetDriverFeatures: {
        const auto wanted = payload<abi::FeatureBlocks>(request);
        accepted = wanted.bits[0] | std::uint64_t{wanted.bits[1]} << 32;
        return ControlPeer::answer(request, wanted);
      }
      case MessageOp::SetDeviceStatus:
        status = payload<abi::StatusValue>(request).status;
        history.push_back(status);
        [[fallthrough]];
      case MessageOp::GetDeviceStatus: return ControlPeer::answer(request, abi::StatusValue{status});
      case MessageOp::GetConfig: {
        const auto range = payload<abi::ConfigRange>(request);
        abi::ConfigData data{config_generation, range.offset, range.bytes, {}};
        std::memcpy(data.data, reinterpret_cast<const std::byte*>(&config) + range.offset, range.bytes);
        return ControlPeer::answer(request, data);
      }
      case MessageOp::SetVirtqueue: {
        const auto set = payload<abi::SetQueue>(request);
        return ControlPeer::answer(request, abi::QueueState{set.index, set.size, set.size, 0, set.descriptors,
                                                            set.driver_area, set.device_area});
      }
      default: return ControlPeer::refusal(request);
    }
  }
  static abi::FeatureBlocks blocks(std::uint64_t bits) {
    return {0, 2, {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)}};
  }
  template <typename T>
  static T payload(const Message& request) {
    T value{};
    EXPECT_TRUE(abi::read_payload(request, value));
    return value;
  }
};

class BringUpTest : public testing::Test {
 protected:
  BringUpTest() { timeouts.post_progress = std::chrono::milliseconds(60); }

  Expected<FunctionLink> run(ControlPeer::Handler handler) {
    peer.serve(std::move(handler));
    return run_alone();
  }
  Expected<FunctionLink> run_alone() {
    ControlChannel channel(peer.window(), bells, peer.exit_fd(), timeouts);
    BringUp bring_up(*peer.window(), channel, bells, peer.exit_fd(), timeouts, abi::kFeatureEventIdx);
    auto linked = bring_up.run();
    last = bring_up.step();
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

  ControlPeer peer;
  Bells bells{peer.slot(), FaultHooks{}};
  Timeouts timeouts;
  ModelCard card;
  BringUpStep last = BringUpStep::WaitForCard;
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

TEST_F(BringUpTest, AGoodCardIsBroughtUpInTheOrderOfTheStandard) {
  const auto linked = run(std::ref(card));
  ASSERT_TRUE(linked) << describe(linked.error());
  EXPECT_EQ(last, BringUpStep::Ready);
  EXPECT_EQ(card.history, (std::vector<std::uint32_t>{0, 1, 3, 11, 15}));
  EXPECT_EQ(card.accepted, abi::kMandatoryFeatures | abi::kFeatureEventIdx);
  ASSERT_EQ(linked->queues.size(), abi::kQueueCount);
  EXPECT_EQ(linked->queues[abi::kEventQueue].in_flight(), abi::kEventQueueSize) << "buffers for events are posted";
}

TEST_F(BringUpTest, ACardThatNeverSetsUpItsWindowIsGivenUp) {
  peer.header().magic = 0;
  expect_failure(run_alone(), BringUpStep::WaitForCard, "window");
}
TEST_F(BringUpTest, ACardThatHangsDuringBootIsGivenUpWithItsPostCode) {
  peer.show_post(abi::PostCode::Cores);
  expect_failure(run_alone(), BringUpStep::WaitForCard, "cores");
}
TEST_F(BringUpTest, ACardWhoseBootFailedIsNotWaitedFor) {
  timeouts.post_progress = std::chrono::seconds(60);
  peer.show_post(abi::PostCode::Failed);
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
  EXPECT_NE(linked.error().message.find("version " + std::to_string(abi::kAbiVersion)), std::string::npos);
}
TEST_F(BringUpTest, AnUnboundSlotIsRefused) {
  peer.header().kind = abi::FunctionKind::Unbound;
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
                     answer = ControlPeer::answer(request, abi::StatusValue{abi::kStatusNeedsReset});
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
      final_status = ModelCard::payload<abi::StatusValue>(request).status;
      if (final_status == GetParam().refused) return ControlPeer::refusal(request);
    }
    return card(request);
  });
  expect_failure(linked, GetParam().step, "refused");
  EXPECT_NE(final_status & abi::kStatusFailed, 0u);
}
TEST_P(BringUpStatus, AStatusThatDoesNotStickEndsItsStep) {
  const auto linked = run([&](const Message& request) -> std::optional<Message> {
    const Message answer = card(request);
    const bool set = static_cast<MessageOp>(request.header.op) == MessageOp::SetDeviceStatus;
    if (set && card.status == GetParam().refused)
      return ControlPeer::answer(request, abi::StatusValue{card.status | abi::kStatusNeedsReset});
    return answer;
  });
  expect_failure(linked, GetParam().step, "attach again");
}
INSTANTIATE_TEST_SUITE_P(EachStep, BringUpStatus,
                         testing::Values(StatusCase{1, BringUpStep::Acknowledge}, StatusCase{3, BringUpStep::Driver},
                                         StatusCase{11, BringUpStep::FeaturesOk},
                                         StatusCase{15, BringUpStep::DriverOk}));

TEST_F(BringUpTest, MissingMandatoryFeaturesAreNamed) {
  card.offered = abi::kOfferedFeatures & ~abi::kFeatureRingPacked;
  expect_failure(run(std::ref(card)), BringUpStep::Features, std::to_string(abi::kFeatureRingPacked));
}
TEST_F(BringUpTest, WhatTheCardDoesNotOfferIsNotAskedFor) {
  card.offered = abi::kMandatoryFeatures;
  const auto linked = run(std::ref(card));
  ASSERT_TRUE(linked);
  EXPECT_EQ(linked->features, abi::kMandatoryFeatures);
}
TEST_F(BringUpTest, FeaturesThatTheCardTakesBackAreNoticed) {
  expect_failure(run([&](const Message& request) -> std::optional<Message> {
                   if (static_cast<MessageOp>(request.header.op) == MessageOp::GetDeviceStatus) {
                     return ControlPeer::answer(request, abi::StatusValue{3});
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
TEST_F(BringUpTest, AQueueThatIsSetUpElsewhereIsNoticed) {
  expect_failure(run([&](const Message& request) -> std::optional<Message> {
                   Message answer = card(request);
                   if (static_cast<MessageOp>(request.header.op) == MessageOp::SetVirtqueue) {
                     auto state = ModelCard::payload<abi::QueueState>(answer);
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
      ControlPeer silent;
      Bells its_bells(silent.slot(), FaultHooks{});
      ModelCard model;
      timeouts.post_progress = std::chrono::milliseconds(5);
      timeouts.function_reset = std::chrono::milliseconds(5);
      int left = talkative;
      silent.serve([&](const Message& request) -> std::optional<Message> {
        if (left-- > 0) return model(request);
        if (dies && left == -1) silent.die();
        return std::nullopt;
      });
      ControlChannel channel(silent.window(), its_bells, silent.exit_fd(), timeouts);
      BringUp bring_up(*silent.window(), channel, its_bells, silent.exit_fd(), timeouts, 0);
      const auto linked = bring_up.run();
      if (linked) continue;  // had said everything before
      EXPECT_EQ(bring_up.step(), BringUpStep::Failed);
      EXPECT_TRUE(linked.error().outcome == abi::Outcome::Indeterminate ||
                  linked.error().outcome == abi::Outcome::Lost);
    }
  }
}

}  // namespace
}  // namespace flex
