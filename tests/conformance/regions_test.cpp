// SPDX-License-Identifier: Apache-2.0
// Regions: granted, named, given back, clean when granted again, and never matched by an old handle.
#include <algorithm>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/support/bytes.hpp"

namespace svp::conformance {
namespace {

using test::Workbench;
using wire::kMiB;
using wire::Outcome;
using wire::Status;

wire::Endpoint in(const Region& region, std::uint64_t offset) {
  return {region.base.region_id, offset, region.generation, wire::EndpointKind::Region, {}};
}

TEST(Regions, AreGrantedInGranulesAndComeBack) {
  const auto device = provider().open();
  const auto tensor = value_or_throw(device->acquire_region(RegionType::Tensor, 16 * kMiB - 1));
  EXPECT_EQ(tensor.bytes, 16 * kMiB);
  const auto program = value_or_throw(device->acquire_region(RegionType::Program, 2 * kMiB));
  EXPECT_EQ(program.ordinal, wire::kProgramRegion);
  value_or_throw(device->release_region(tensor));
  EXPECT_FALSE(device->release_region(tensor)) << "twice";
  value_or_throw(device->release_region(program));
}

TEST(Regions, ANameIsTheIndexInAVirtualFunctionAndABaseInThePhysicalOne) {
  const auto device = provider().open();
  std::vector<Region> regions;
  for (unsigned i = 0; i < 3; ++i)
    regions.push_back(value_or_throw(device->acquire_region(RegionType::Tensor, 2 * kMiB)));
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(regions[i].ordinal, i);
    if (provider().kind() == wire::FunctionKind::Virtual) {
      EXPECT_EQ(regions[i].base.region_id, i);
    } else {
      EXPECT_GE(regions[i].base.region_id, wire::kGiB) << "the firmware's own memory lies below";
      EXPECT_TRUE(wire::is_aligned(regions[i].base.region_id, wire::kGranuleBytes));
    }
  }
}

TEST(Regions, AFunctionHoldsSevenTensorRegionsAndOneForPrograms) {
  const auto device = provider().open();
  for (unsigned i = 0; i < wire::kProgramRegion; ++i) {
    (void)value_or_throw(device->acquire_region(RegionType::Tensor, 2 * kMiB));
  }
  (void)value_or_throw(device->acquire_region(RegionType::Program, 2 * kMiB));
  for (const RegionType type : {RegionType::Tensor, RegionType::Program}) {
    const auto refused = device->acquire_region(type, 2 * kMiB);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find(wire::name(Status::OutOfRegions)), std::string::npos)
        << describe(refused.error());
    EXPECT_EQ(refused.error().outcome, Outcome::Rejected);
  }
}

TEST(Regions, BadRequestsAreRefusedByTheirField) {
  const auto device = provider().open();
  const auto refused = [&](std::uint64_t bytes, std::uint32_t type, Status status, wire::Field field) {
    wire::AdminRequest request{};
    request.command = wire::AdminCommand::RegionAcquire;
    request.arguments.region_acquire = {bytes, static_cast<wire::RegionType>(type)};
    const auto reply = value_or_throw(device->admin(request));
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, status) << wire::name(reply.status);
    EXPECT_EQ(reply.field, field);
  };
  refused(0, 0, Status::BadSize, wire::Field::AdminBytes);
  refused(16 * wire::kGiB + 1, 0, Status::BadSize, wire::Field::AdminBytes);
  refused(~std::uint64_t{0}, 1, Status::BadSize, wire::Field::AdminBytes);
  refused(2 * kMiB, 2, Status::BadType, wire::Field::AdminType);
  refused(2 * kMiB, 0x80000001, Status::BadType, wire::Field::AdminType);
}

TEST(Regions, MoreThanTheCardHasIsRefusedWithItsFigures) {
  const auto device = provider().open();
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::RegionAcquire;
  // Regions of 16 GiB, or of whatever the card has, until there is no room.
  request.arguments.region_acquire = {std::min(16 * wire::kGiB, device->config().memory_bytes), RegionType::Tensor};
  wire::AdminReply reply{};
  do {
    reply = value_or_throw(device->admin(request));
  } while (reply.outcome == Outcome::Ok);
  ASSERT_EQ(reply.status, Status::OutOfDeviceMemory) << wire::name(reply.status);
  EXPECT_LT(reply.values.region.largest_bytes, request.arguments.region_acquire.bytes);
  EXPECT_LE(reply.values.region.largest_bytes, reply.values.region.free_bytes);
  // Its share, and what nobody is guaranteed: less than a granule of each function on a card without quotas.
  const wire::DeviceConfig& config = device->config();
  EXPECT_GE(reply.values.region.total_bytes, config.share_bytes);
  EXPECT_LT(reply.values.region.total_bytes, config.share_bytes + (config.virtual_functions + 1) * wire::kGranuleBytes);
  EXPECT_GE(config.share_bytes, config.memory_bytes / (config.virtual_functions + 1) - wire::kGranuleBytes);
  // What the figures promise is granted.
  if (reply.values.region.largest_bytes == 0) return;
  (void)value_or_throw(device->acquire_region(RegionType::Program, reply.values.region.largest_bytes));
}

TEST(Regions, AnOldHandleNeverMatchesAgain) {
  const auto device = provider().open();
  Workbench bench(*device);
  const std::uint32_t stream = value_or_throw(device->open_stream(StreamPriority::Low));
  for (int round = 0; round < 20; ++round) {
    const auto old = value_or_throw(device->acquire_region(RegionType::Tensor, 2 * kMiB));
    ASSERT_EQ(bench.run(Workbench::fill(in(old, 0), 4096, 1), stream).outcome, Outcome::Ok);
    value_or_throw(device->release_region(old));
    auto end = bench.run(Workbench::fill(in(old, 0), 4096, 2), stream);
    EXPECT_EQ(end.outcome, Outcome::Rejected);
    EXPECT_EQ(end.status, Status::UnknownRegion);
    value_or_throw(device->reset_stream(stream));
    const auto fresh = value_or_throw(device->acquire_region(RegionType::Tensor, 2 * kMiB));
    end = bench.run(Workbench::fill(in(old, 0), 4096, 3), stream);
    EXPECT_EQ(end.outcome, Outcome::Rejected);
    EXPECT_EQ(end.status, fresh.base == old.base ? Status::StaleRegion : Status::UnknownRegion);
    value_or_throw(device->reset_stream(stream));
    EXPECT_GT(fresh.generation, old.generation);
    value_or_throw(device->release_region(fresh));
  }
}

TEST(Regions, WhatIsGrantedAgainIsClean) {
  const auto device = provider().open();
  constexpr std::uint64_t kBytes = 4 * kMiB;
  Workbench bench(*device);
  const auto memory = device->host_memory().first(kBytes);
  for (int round = 0; round < 3; ++round) {
    const auto region = value_or_throw(device->acquire_region(RegionType::Tensor, kBytes));
    ASSERT_EQ(bench.run(Workbench::dma(in(region, 0), bench.host(0), kBytes)).outcome, Outcome::Ok);
    EXPECT_TRUE(svp::test::all_bytes_are(memory, std::byte{0})) << "round " << round;
    ASSERT_EQ(bench.run(Workbench::fill(in(region, 0), kBytes, ~std::uint64_t{0})).outcome, Outcome::Ok);
    value_or_throw(device->release_region(region));
  }
}

TEST(Regions, OfTwoFunctionsNeverMeet) {
  const auto mine = provider().open();
  const auto theirs = provider().open_bystander();
  Workbench here(*mine);
  Workbench there(*theirs);
  ASSERT_EQ(here.run(Workbench::fill(here.tensor(0), Workbench::kRegionBytes, 0xAAAA)).outcome, Outcome::Ok);
  ASSERT_EQ(there.run(Workbench::fill(there.tensor(0), Workbench::kRegionBytes, 0xBBBB)).outcome, Outcome::Ok);
  const auto all_are = [](Workbench& bench, std::uint64_t pattern) {
    EXPECT_EQ(bench.run(Workbench::dma(bench.tensor(0), bench.host(0), Workbench::kRegionBytes)).outcome, Outcome::Ok);
    const auto* words = reinterpret_cast<const std::uint64_t*>(bench.device().host_memory().data());
    return std::all_of(words, words + Workbench::kRegionBytes / 8, [=](std::uint64_t w) { return w == pattern; });
  };
  EXPECT_TRUE(all_are(here, 0xAAAA));
  EXPECT_TRUE(all_are(there, 0xBBBB));
}

TEST(Regions, TheAllocatorTakesItsRegionsFromTheCard) {
  const auto device = provider().open();
  FlexAllocator allocator(device->region_source(), {.region_bytes = {64 * kMiB}});
  const auto index = allocator.allocate(1000);
  EXPECT_EQ(allocator.resolve(index).block_bytes, 1024u);
  EXPECT_EQ(allocator.statistics().regions.front().bytes, 64 * kMiB);
}

}  // namespace
}  // namespace svp::conformance
