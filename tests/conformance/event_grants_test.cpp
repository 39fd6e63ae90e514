// SPDX-License-Identifier: Apache-2.0
// Waits for streams of other functions (docs/protocol.md §5, §6): by a grant of M, and by nothing else.
#include <random>

#include "host_driver/device/timeline_sharing.hpp"
#include "tests/conformance/attempts.hpp"
#include "tests/conformance/provider.hpp"

namespace svp::conformance {
namespace {

using test::Workbench;
using wire::Field;
using wire::Outcome;
using wire::Status;

class EventGrants : public testing::Test {
 protected:
  static wire::Target target_of(const Device& device) {
    const wire::DeviceConfig& config = device.config();
    return config.kind == wire::FunctionKind::Physical ? wire::kTargetPhysical
                                                       : wire::target_of_virtual(config.function_index);
  }
  static Timeline timeline_of(const Device& device, std::uint32_t stream) {
    return {.function = target_of(device),
            .generation = device.config().generation,
            .stream = stream,
            .incarnation = device.stream_incarnation(stream)};
  }
  static TimelineGrant grant(const Device& owner, std::uint32_t stream, const Device& grantee) {
    return value_or_throw(grant_timeline(provider().management(), timeline_of(owner, stream), target_of(grantee),
                                         grantee.config().generation));
  }
  static wire::ControlBlock wait_by(const TimelineGrant& grant, const Device& owner, std::uint32_t stream,
                                    std::uint64_t value) {
    return test::Blocks::granted_wait(grant.grant, grant.epoch, owner.stream_incarnation(stream), value);
  }

  std::unique_ptr<Device> device_ = provider().open();
  std::unique_ptr<Device> owner_ = provider().open_bystander();
  test::CompletionRecorder ends_;
};

TEST_F(EventGrants, LetAFunctionWaitForAStreamOfAnother) {
  const Workbench owner(*owner_), bench(*device_);
  const TimelineGrant granted = grant(*owner_, 0, *device_);
  const auto wait = wait_by(granted, *owner_, 0, 2);
  const ControlBlockRequest request{&wait, &ends_};
  ASSERT_EQ(device_->submit(0, {&request, 1}).value(), 1u);
  // Other streams go on, and a smaller value is not enough.
  const std::uint32_t other = value_or_throw(device_->open_stream(StreamPriority::Low));
  ASSERT_EQ(owner.run(test::Blocks::event_signal(1)).outcome, Outcome::Ok);
  ASSERT_EQ(bench.run(wait_by(granted, *owner_, 0, 1), other).outcome, Outcome::Ok);
  EXPECT_EQ(ends_.ended(), 0u);
  ASSERT_EQ(owner.run(test::Blocks::event_signal(2)).outcome, Outcome::Ok);
  ASSERT_EQ(device_->wait_until([&] { return ends_.ended() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(ends_.all()[0].outcome, Outcome::Ok);
  expect_healthy(*device_);
}

TEST_F(EventGrants, EndWithTheResetOfTheOwner) {
  const TimelineGrant granted = grant(*owner_, 0, *device_);
  const auto wait = wait_by(granted, *owner_, 0, 1);
  const ControlBlockRequest request{&wait, &ends_};
  ASSERT_EQ(device_->submit(0, {&request, 1}).value(), 1u);
  owner_->close();  // resets the function
  ASSERT_EQ(device_->wait_until([&] { return ends_.ended() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(ends_.all()[0].outcome, Outcome::Aborted);
  EXPECT_EQ(ends_.all()[0].status, Status::GrantRevoked);
  EXPECT_EQ(ends_.all()[0].field, Field::EventGrant);
  ASSERT_TRUE(device_->reset_stream(0));
  EXPECT_EQ(Workbench(*device_).run(Workbench::nop()).outcome, Outcome::Ok);
  expect_healthy(*device_);
}

// Everything that looks like a grant: those of others by their names, one's own from before, and guesses.
TEST_F(EventGrants, CannotBeForgedAndEachAttemptIsCounted) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  const auto other = provider().open_bystander(1);
  const Workbench owner(*owner_), bench(*device_);
  ASSERT_EQ(owner.run(test::Blocks::event_signal(1)).outcome, Outcome::Ok);
  const TimelineGrant of_other = grant(*owner_, 0, *other);
  const TimelineGrant own = grant(*other, 0, *device_);
  std::mt19937_64 random(attack_seed() + 9);
  const std::uint64_t before = provider().violations();
  std::uint64_t attempts = 0;
  for (; attempts < 500; ++attempts) {
    TimelineGrant forged = own;
    forged.epoch += 1 + random() % 3;  // of grants to come
    switch (random() % 4) {
      case 0: forged.epoch = random(); break;
      case 1: forged.epoch ^= std::uint64_t{1} << (32 + random() % 32); break;
      case 2: forged.grant = static_cast<std::uint32_t>(random()); break;
      default: break;
    }
    const auto end = bench.run(wait_by(forged, *owner_, 0, 1));
    ASSERT_EQ(end.outcome, Outcome::Rejected) << forged.grant << ' ' << forged.epoch;
    ASSERT_EQ(end.status, Status::UnknownGrant);
    ASSERT_EQ(end.field, Field::EventGrant);
    ASSERT_TRUE(device_->reset_stream(0));
  }
  EXPECT_EQ(provider().violations(), before + attempts);
  // By the very name that it has there, another one's is not there either.
  for (std::uint64_t epoch = of_other.epoch; epoch < of_other.epoch + 3; ++epoch) {
    const auto end =
        bench.run(wait_by({of_other.grant == own.grant ? own.grant + 1 : of_other.grant, epoch}, *owner_, 0, 1));
    EXPECT_TRUE(end.status == Status::UnknownGrant || end.status == Status::GrantRevoked) << wire::name(end.status);
    ASSERT_TRUE(device_->reset_stream(0));
  }
  // And what is granted works still, for whom it is granted.
  EXPECT_EQ(Workbench(*other).run(wait_by(of_other, *owner_, 0, 1)).outcome, Outcome::Ok);
  expect_healthy(*device_);
}

TEST_F(EventGrants, AreMadeAndRevokedByTheManagementFunctionOnly) {
  const TimelineGrant granted = grant(*owner_, 0, *device_);
  wire::AdminRequest request = test::admin_request(wire::AdminCommand::EventGrant);
  request.arguments.event_grant = {.owner = target_of(*owner_),
                                   .grantee = target_of(*device_),
                                   .stream = 0,
                                   .incarnation = owner_->stream_incarnation(0),
                                   .owner_generation = owner_->config().generation,
                                   .grantee_generation = device_->config().generation};
  wire::AdminRequest revoke = test::admin_request(wire::AdminCommand::EventRevoke);
  revoke.arguments.event_revoke = {.grantee = target_of(*device_), .grant = granted.grant, .epoch = granted.epoch};
  for (const wire::AdminRequest& asked : {request, revoke}) {
    const auto reply = value_or_throw(device_->admin(asked));
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, Status::NotPermitted);
    EXPECT_EQ(reply.field, Field::AdminTarget);
  }
  ASSERT_EQ(value_or_throw(provider().management().admin(revoke)).outcome, Outcome::Ok);
  EXPECT_EQ(Workbench(*device_).run(wait_by(granted, *owner_, 0, 1)).status, Status::GrantRevoked);
  ASSERT_TRUE(device_->reset_stream(0));
}

}  // namespace
}  // namespace svp::conformance
