// SPDX-License-Identifier: Apache-2.0
// Property-based attacks on a function's neighbours (issue "Functions and tenants"): more than ten thousand random
// attempts per run, each of which ends typed, while the other functions hold canaries and work. SPYRE_SEED repeats a
// run.
#include <algorithm>
#include <cstdio>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/conformance/attacker.hpp"
#include "tests/conformance/bystanders.hpp"
#include "tests/conformance/given_grants.hpp"
#include "tests/validation/raw/unawaited.hpp"

namespace svp::conformance {
namespace {

class Attacks : public testing::Test {
 protected:
  Attacks() : trace_(__FILE__, __LINE__, "SPYRE_SEED=" + std::to_string(attack_seed())) {}

  void SetUp() override {
    told_before_ = provider().violations();
    attacker_.emplace(bystanders_.regions());
    begin();
    bystanders_.start_work();
  }
  void TearDown() override {
    bystanders_.stop_work();
    bystanders_.expect_untouched();
    attacker_->expect_works();
    const std::uint64_t refused = attacker_->refused();
    for (const auto& [ending, count] : attacker_->endings()) {
      std::printf("  %6llu %s\n", static_cast<unsigned long long>(count), ending.c_str());
    }
    attacker_.reset();
    provider().expect_alive();
    if (refused != 0)
      EXPECT_GT(provider().violations(), told_before_) << "the management function has not been told of it";
  }

  void begin(std::uint64_t features = wire::kMandatoryFeatures) {
    ASSERT_TRUE(attacker_->begin(features));
    bystanders_.surround();
  }

  const testing::ScopedTrace trace_;
  Bystanders bystanders_;
  std::optional<Attacker> attacker_;
  std::uint64_t told_before_ = 0;
};

TEST_F(Attacks, RandomControlBlocksEndTypedAndReachNobodyElse) {
  attacker_->know(bystanders_.grants());
  // COMPUTE and PREPARED only where there is a kernel.
  constexpr wire::Opcode kExecuted[] = {wire::Opcode::Nop,         wire::Opcode::Dma,       wire::Opcode::Fill,
                                        wire::Opcode::EventSignal, wire::Opcode::EventWait, wire::Opcode::Call,
                                        wire::Opcode::Patch};
  attacker_->control_blocks_until(attack_seed(), 4000, kExecuted);
  EXPECT_GE(attacker_->attempts(), 4000u);
  EXPECT_GT(attacker_->endings().at("REJECTED no grant of this function"), 0u);
  EXPECT_GT(attacker_->refused(), attacker_->attempts() / 3) << "the attempts are too tame";
}

TEST_F(Attacks, RandomControlBlocksBehindAGoodChecksumFareNoBetter) {
  begin(wire::kMandatoryFeatures | wire::kFeatureControlBlockCrc);
  attacker_->control_blocks(attack_seed() + 1, 2000);
  EXPECT_GE(attacker_->attempts(), 2000u);
}

TEST_F(Attacks, RandomChainsComeBackAndReachNobodyElse) {
  attacker_->chains(attack_seed() + 2, 1500);
  begin(wire::kMandatoryFeatures | wire::kFeatureIndirectDesc);
  attacker_->chains(attack_seed() + 3, 1500);
  EXPECT_EQ(attacker_->attempts(), 3000u);
  EXPECT_GT(attacker_->endings().at("chain given back empty"), 0u);
}

TEST_F(Attacks, RandomAdminRequestsAreAnsweredAndReachNobodyElse) {
  attacker_->admin_requests(attack_seed() + 4, 2000);
  EXPECT_GE(attacker_->attempts(), 2000u);
  EXPECT_GT(attacker_->refused(), attacker_->attempts() / 3);
  for (const auto command : {wire::AdminCommand::Trace, wire::AdminCommand::BufferCreate,
                             wire::AdminCommand::BufferDestroy, wire::AdminCommand::StreamReset}) {
    EXPECT_GT(attacker_->fulfilled(command), 0u) << "no " << wire::name(command) << " is done";
  }
  const bool may_test = provider().kind() == wire::FunctionKind::Physical;
  EXPECT_EQ(attacker_->fulfilled(wire::AdminCommand::SelfTest) != 0, may_test);
}

TEST_F(Attacks, RandomBlocksBesideRandomRequestsAndResetsEndTypedAndReachNobodyElse) {
  const std::uint64_t epoch = attacker_->driver().header().boot_epoch;
  attacker_->know(bystanders_.grants());
  attacker_->blocks_beside_requests(attack_seed() + 10, 16);
  EXPECT_GT(attacker_->refused(), 0u);
  EXPECT_GT(attacker_->endings().at("OK none"), 0u);
  EXPECT_EQ(attacker_->driver().header().boot_epoch, epoch) << "the firmware restarted";
}

// Streams are reset, closed and opened, regions released and acquired, without waiting for any reply, beside blocks of
// the incarnation that comes next (tests/validation/raw/unawaited.hpp). With kernels: attack_beside_kernels_test.cpp.
TEST_F(Attacks, UnawaitedRequestsAreAnsweredAndReachNobodyElse) {
  const std::uint64_t epoch = attacker_->driver().header().boot_epoch;
  raw::UnawaitedRequests tenant(attacker_->driver(), {}, attack_seed() + 7);
  tenant.begin();
  GivenGrants grants(bystanders_.timeline(), attacker_->driver());
  constexpr int kSteps = 20'000;
  for (int i = 0; i < kSteps || (tenant.granted_waits_ok() == 0 && i < 10 * kSteps); ++i) {
    grants.step(tenant);
    tenant.step();
  }
  tenant.drain();
  print_counts(tenant);
  EXPECT_GT(grants.revoked(), 0u);
  EXPECT_GT(tenant.granted_waits_ok(), 0u);
  EXPECT_GT(tenant.requests(), 0u);
  EXPECT_GT(tenant.blocks_ok(), 0u);
  EXPECT_GT(tenant.queue_resets(), 0u);
  EXPECT_EQ(attacker_->driver().header().boot_epoch, epoch) << "the firmware restarted";
  begin();
}

// A handle is not an address: only those that the allocator gave out, and has not taken back, mean anything.
TEST(ForgedHandles, AreRefusedWithTheirReason) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  const auto device = provider().open();
  const auto other_device = provider().open_bystander();
  const FlexAllocatorOptions options{.region_bytes = {8 * wire::kMiB}};
  FlexAllocator allocator(device->region_source(), options);
  FlexAllocator other(other_device->region_source(), options);
  std::mt19937_64 random(attack_seed() + 5);
  std::vector<AllocationIndex> live;
  std::vector<AllocationIndex> dead;
  std::vector<AllocationIndex> foreign;
  for (int i = 0; i < 64; ++i) {
    live.push_back(allocator.allocate(1 + random() % 4096));
    dead.push_back(allocator.allocate(1 + random() % 4096));
    foreign.push_back(other.allocate(1 + random() % 4096));
  }
  for (const auto index : dead) allocator.deallocate(index);
  const auto before = allocator.statistics();
  const auto raw = [](AllocationIndex index) { return static_cast<std::uint64_t>(index); };
  for (int attempt = 0; attempt < 2000; ++attempt) {
    std::uint64_t forged = raw(live[random() % live.size()]);
    switch (random() % 6) {
      case 0: forged = random(); break;
      case 1: forged = raw(dead[random() % dead.size()]); break;
      case 2: forged = raw(foreign[random() % foreign.size()]); break;
      case 3: forged ^= std::uint64_t{1} << random() % 64; break;
      case 4: forged += random() % 2 == 0 ? random() % 1000 : -(random() % 1000); break;
      default: forged = raw(live[0]) & random(); break;
    }
    const AllocationIndex index{forged};
    if (forged == 0 || std::ranges::find(live, index) != live.end()) continue;  // no forgery
    const auto resolved = allocator.try_resolve(index);
    ASSERT_FALSE(resolved) << "forged handle " << forged << " has an address";
    EXPECT_EQ(resolved.error().outcome, wire::Outcome::Rejected);
    EXPECT_FALSE(resolved.error().next_step.empty());
    EXPECT_THROW(allocator.deallocate(index), InvalidAllocation) << forged;
  }
  EXPECT_EQ(allocator.statistics().count, before.count) << "a forged handle released something";
  for (const auto index : live) EXPECT_TRUE(allocator.try_resolve(index));
}

}  // namespace
}  // namespace svp::conformance
