// SPDX-License-Identifier: Apache-2.0
// The attacks on a card that runs kernels: launches with spoilt blocks and segment tables around a good image, while a
// neighbour's kernels compute. Its results are those of the golden model, bit for bit.
#include <cstring>

#include "shared/memory_order.hpp"
#include "tests/conformance/adding_neighbour.hpp"
#include "tests/conformance/attacker.hpp"
#include "tests/conformance/given_grants.hpp"
#include "tests/conformance/kernel_provider.hpp"
#include "tests/validation/raw/unawaited.hpp"

namespace svp::conformance {
namespace {

TEST(AttacksBesideKernels, SpoiltLaunchesEndTypedAndTheNeighboursKernelsComputeRight) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  AddingNeighbour neighbour;
  {
    Attacker attacker({}, kernel_provider().kernel_image("empty"));
    ASSERT_TRUE(attacker.begin());
    neighbour.start();
    constexpr wire::Opcode kExecuted[] = {wire::Opcode::Compute, wire::Opcode::Prepared};
    attacker.control_blocks_until(attack_seed() + 6, 2000, kExecuted);
    EXPECT_GT(attacker.refused(), attacker.attempts() / 3);
    const auto stats = attacker.driver().admin(attacker.driver().admin_request(wire::AdminCommand::Stats)).values.stats;
    EXPECT_GT(stats.launches, 0u) << "no attempt was good enough to be launched";
    attacker.expect_works();
  }
  neighbour.stop();
  provider().expect_alive();
}

class StreamsUnderKernels : public testing::Test {
 protected:
  void SetUp() override {
    epoch_ = driver_.header().boot_epoch;
    neighbour_.start();
  }
  void TearDown() override {
    neighbour_.stop();
    EXPECT_EQ(driver_.header().boot_epoch, epoch_) << "the firmware restarted";
    ASSERT_TRUE(driver_.bring_up());
    fwtest::StreamHandle stream;
    EXPECT_EQ(driver_.run(driver_.nop(stream)).outcome, wire::Outcome::Ok);
    EXPECT_EQ(driver_.set_status(0), 0u);
    provider().expect_alive();
  }
  // Of stream 0.
  static Timeline timeline_of(const Device& owner) {
    const wire::DeviceConfig& config = owner.config();
    const bool physical = config.kind == wire::FunctionKind::Physical;
    return {.function = physical ? wire::kTargetPhysical : wire::target_of_virtual(config.function_index),
            .generation = config.generation,
            .stream = 0,
            .incarnation = owner.stream_incarnation(0)};
  }
  void wait_started(const fwtest::StreamHandle& stream, std::uint64_t sequence) {
    const auto* started = driver_.at<std::uint64_t>(wire::kStartedSequences.offset) + stream.id;
    for (const auto limit = test::soon(); wire::load_acquire(*started) != sequence;) {
      ASSERT_LT(Device::Clock::now(), limit) << "the kernel did not start";
      slot_.pump();
    }
  }

  AddingNeighbour neighbour_;
  BareSlot slot_{provider().slot()};
  fwtest::RawDriver driver_{slot_.window(), [this] { slot_.pump(); }};
  std::uint64_t epoch_ = 0;
};

TEST_F(StreamsUnderKernels, UnawaitedRequestsAreAnsweredAndReachNobodyElse) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  raw::UnawaitedRequests tenant(driver_,
                                {{kernel_provider().kernel_image("spin")}, {kernel_provider().kernel_image("empty")}},
                                attack_seed() + 8);
  tenant.begin();
  const auto owner = provider().open_bystander(1);
  const test::Workbench signals(*owner);
  GivenGrants grants(timeline_of(*owner), driver_);
  std::uint64_t signalled = 0;
  constexpr int kSteps = 10'000;
  for (int i = 0; i < kSteps || (tenant.granted_waits_ok() == 0 && i < 10 * kSteps); ++i) {
    if (i % 100 == 0) ASSERT_EQ(signals.run(test::Blocks::event_signal(++signalled)).outcome, wire::Outcome::Ok);
    grants.step(tenant);
    tenant.step();
  }
  tenant.drain();
  print_counts(tenant);
  EXPECT_GT(grants.revoked(), 0u);
  EXPECT_GT(tenant.granted_waits_ok(), 0u);
  EXPECT_GT(tenant.blocks_ok(), 0u);
  EXPECT_GT(tenant.queue_resets(), 0u);
  EXPECT_GT(tenant.requests(), 0u);
}

// A kernel that has to be stopped keeps the close waiting: blocks of the next incarnation come meanwhile.
TEST_F(StreamsUnderKernels, ACloseLeavesNothingOfTheNextIncarnationBehind) {
  constexpr int kRounds = 20;
  constexpr unsigned kCopies = 500;  // more than the card fetches while the kernel is being stopped
  ASSERT_TRUE(driver_.bring_up());
  const auto image = kernel_provider().kernel_image("spin");
  const auto program = driver_.acquire(2 * wire::kMiB, wire::RegionType::Program).value();
  fwtest::StreamHandle loader;
  std::memcpy(slot_.window().data() + wire::kHostMemoryOffset, image.data(), image.size());
  ASSERT_EQ(driver_
                .run(driver_.dma(loader, fwtest::RawDriver::host(wire::kHostMemoryOffset),
                                 fwtest::RawDriver::device(program, 0), image.size()))
                .outcome,
            wire::Outcome::Ok);
  for (int round = 0; round < kRounds; ++round) {
    auto victim = driver_.open_stream();
    ASSERT_TRUE(victim) << "round " << round;
    driver_.submit(driver_.compute(*victim, program, 0, image.size(), 0));
    wait_started(*victim, 1);
    const auto close = driver_.send_admin(driver_.stream_request(wire::AdminCommand::StreamClose, *victim));
    for (unsigned i = 0; i < kCopies; ++i) {
      fwtest::StreamHandle next{victim->id, victim->incarnation + 1, 1};
      driver_.submit(driver_.compute(next, program, 0, image.size(), 0));
      if (i == kCopies / 4) slot_.pump();
    }
    const auto closed = driver_.wait_admin(close);
    ASSERT_TRUE(closed);
    EXPECT_EQ(closed->outcome, wire::Outcome::Ok);
    for (const auto& end : driver_.wait_for(kCopies + 1)) {
      if (end.completion.incarnation != victim->incarnation) EXPECT_EQ(end.completion.outcome, wire::Outcome::Rejected);
    }
    ASSERT_TRUE(driver_.reset_queue(wire::kControlBlockQueue)) << "round " << round;
    ASSERT_TRUE(driver_.set_queue(wire::kControlBlockQueue));
  }
}

}  // namespace
}  // namespace svp::conformance
