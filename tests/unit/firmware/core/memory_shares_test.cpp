// SPDX-License-Identifier: Apache-2.0
// Each function has a guaranteed share of region memory, of populated memory and of the table of grants: whatever
// another function does, a request within the share is granted and a write within it is done (protocol §6).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::AdminCommand;
using wire::kGranuleBytes;
using wire::Outcome;
using wire::Status;

constexpr unsigned kFunctions = 3;  // the PF and two VFs
constexpr std::uint64_t kShareGranules = 32;
constexpr std::uint64_t kPopulatedGranules = 4;  // of each share
constexpr unsigned kTensorRegions = wire::kProgramRegion;

class MemoryShares : public testing::Test {
 protected:
  explicit MemoryShares(std::string words = {})
      : card_({.virtual_functions = kFunctions - 1,
               .region_bytes = kFunctions * kShareGranules * kGranuleBytes,
               .boot_arguments = std::move(words)}) {
    for (RawDriver* driver : {&hostile_, &neighbour_}) EXPECT_TRUE(driver->bring_up());
  }

  static wire::AdminRequest acquire_request(RawDriver& driver, std::uint64_t granules) {
    auto request = driver.admin_request(AdminCommand::RegionAcquire);
    request.arguments.region_acquire = {granules * kGranuleBytes, wire::RegionType::Tensor};
    return request;
  }
  static wire::AdminRequest release_request(RawDriver& driver, const RegionHandle& region) {
    auto request = driver.admin_request(AdminCommand::RegionRelease);
    request.arguments.region_release = {region.id, region.generation};
    return request;
  }
  // Without a single step of scrubbing, which pump() would do.
  std::optional<wire::AdminReply> answer_of(RawDriver& driver, const wire::AdminRequest& request) {
    const std::uint16_t slot = driver.send_admin(request);
    card_.run_until_idle();
    return driver.ring(wire::kAdminQueue).has_used() ? driver.wait_admin(slot) : std::nullopt;
  }
  // 128 bytes in every granule of the region, as long as the card lets it. The granules that were written.
  unsigned touch(RawDriver& driver, StreamHandle& stream, const RegionHandle& region) {
    unsigned written = 0;
    for (std::uint64_t at = 0; at < region.bytes; at += kGranuleBytes) {
      if (driver.run(driver.fill(stream, region, at, 128, 0xee)).outcome == Outcome::Ok) {
        ++written;
      } else {
        EXPECT_EQ(driver.reset_stream(stream).outcome, Outcome::Ok);
      }
    }
    return written;
  }

  fwtest::TestCard card_;
  RawDriver& hostile_ = card_.driver(2);
  RawDriver& neighbour_ = card_.driver(3);
  StreamHandle hostile_stream_;
  StreamHandle neighbour_stream_;
};

TEST_F(MemoryShares, AFunctionThatTakesAllItCanLeavesTheOthersTheirs) {
  std::uint64_t taken = 0;
  for (std::uint64_t granules = kFunctions * kShareGranules; granules != 0; granules /= 2) {
    while (const auto region = hostile_.acquire(granules * kGranuleBytes)) taken += region->bytes;
  }
  EXPECT_GE(taken, kShareGranules * kGranuleBytes);
  EXPECT_TRUE(neighbour_.acquire(kShareGranules * kGranuleBytes));
}

class MemorySharesWithBudget : public MemoryShares {
 protected:
  MemorySharesWithBudget() : MemoryShares("budget_mib=" + std::to_string(kFunctions * kPopulatedGranules * 2)) {}
};

TEST_F(MemorySharesWithBudget, ATenantThatTouchesAndReleasesLeavesTheNeighbourItsPopulatedShare) {
  constexpr int kRounds = 12;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<RegionHandle> held;
    for (unsigned i = 0; i < kTensorRegions; ++i) {
      if (const auto region = hostile_.acquire(8 * kGranuleBytes)) held.push_back(*region);
    }
    for (const RegionHandle& region : held) touch(hostile_, hostile_stream_, region);
    if (round + 1 == kRounds) break;  // it keeps what it has populated
    for (const RegionHandle& region : held) EXPECT_EQ(hostile_.release(region).outcome, Outcome::Ok);
  }
  const auto region = neighbour_.acquire(kPopulatedGranules * kGranuleBytes);
  ASSERT_TRUE(region);
  EXPECT_EQ(touch(neighbour_, neighbour_stream_, *region), kPopulatedGranules);
}

TEST_F(MemoryShares, ATenantWhoseQuarantineIsFullLeavesTheNeighbourItsMemoryAndItsGrants) {
  for (int round = 0; round < 1000; ++round) {
    const auto granted = answer_of(hostile_, acquire_request(hostile_, 1));
    if (!granted || granted->outcome != Outcome::Ok) break;  // it waits for its own scrub, or has used up its own
    const auto& values = granted->values.region;
    const RegionHandle region{values.region_id, values.generation, values.bytes};
    hostile_.submit(hostile_.fill(hostile_stream_, region, 0, 128, 1));
    card_.run_until_idle();
    ASSERT_EQ(hostile_.collect().size(), 1u);
    ASSERT_EQ(answer_of(hostile_, release_request(hostile_, region))->outcome, Outcome::Ok);
  }
  ASSERT_TRUE(card_.card().pool.scrubbing());
  std::uint64_t granted = 0;
  for (unsigned i = 0; i < kTensorRegions; ++i) {
    const auto reply = answer_of(neighbour_, acquire_request(neighbour_, kShareGranules / kTensorRegions));
    ASSERT_TRUE(reply) << "it waits for the scrub of another function's memory";
    ASSERT_EQ(reply->outcome, Outcome::Ok) << wire::name(reply->status);
    granted += reply->values.region.bytes;
  }
  EXPECT_EQ(granted, kShareGranules / kTensorRegions * kTensorRegions * kGranuleBytes);
}

TEST_F(MemoryShares, ARequestThatNoScrubCanSatisfyIsAnsweredAtOnce) {
  const auto region = hostile_.acquire(8 * kGranuleBytes).value();
  ASSERT_EQ(hostile_.run(hostile_.fill(hostile_stream_, region, 0, 128, 1)).outcome, Outcome::Ok);
  ASSERT_EQ(answer_of(hostile_, release_request(hostile_, region))->outcome, Outcome::Ok);
  ASSERT_TRUE(card_.card().pool.scrubbing());
  for (RawDriver* driver : {&hostile_, &neighbour_}) {
    const auto reply = answer_of(*driver, acquire_request(*driver, kFunctions * kShareGranules + 1));
    ASSERT_TRUE(reply) << "it waits for memory that cannot be enough";
    EXPECT_EQ(reply->status, Status::OutOfDeviceMemory);
  }
  // What the scrub can satisfy waits.
  EXPECT_FALSE(answer_of(hostile_, acquire_request(hostile_, kShareGranules)));
  card_.pump();
  EXPECT_TRUE(hostile_.ring(wire::kAdminQueue).has_used());
}

class MemorySharesWithQuota : public MemoryShares {
 protected:
  MemorySharesWithQuota() : MemoryShares("quota_mib=16") {}
};

TEST_F(MemorySharesWithQuota, QuarantineCountsAgainstTheQuotaOfItsLastOwner) {
  const auto region = hostile_.acquire(8 * kGranuleBytes).value();
  ASSERT_EQ(hostile_.run(hostile_.fill(hostile_stream_, region, 0, 128, 1)).outcome, Outcome::Ok);
  ASSERT_EQ(answer_of(hostile_, release_request(hostile_, region))->outcome, Outcome::Ok);
  EXPECT_FALSE(answer_of(hostile_, acquire_request(hostile_, 1))) << "it holds more than its quota for now";
  card_.pump();
  EXPECT_TRUE(hostile_.ring(wire::kAdminQueue).has_used());
}

}  // namespace
