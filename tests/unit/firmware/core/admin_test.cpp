// SPDX-License-Identifier: Apache-2.0
// Admin commands: each good and bad, each answered exactly once.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <string>

#include "tests/support/bytes.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::StreamHandle;
using wire::AdminCommand;
using wire::AdminRequest;
using wire::Field;
using wire::Outcome;
using wire::RegionType;
using wire::Status;

class Admin : public testing::Test {
 protected:
  Admin() { EXPECT_TRUE(driver_.bring_up()); }

  void expect_refused(const AdminRequest& request, Status status, Field field) {
    const auto reply = driver_.admin(request);
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, status) << wire::name(reply.status);
    EXPECT_EQ(reply.field, field) << wire::name(reply.field);
  }
  AdminRequest acquire(std::uint64_t bytes, RegionType type = RegionType::Tensor) {
    auto request = driver_.admin_request(AdminCommand::RegionAcquire);
    request.arguments.region_acquire = {bytes, type};
    return request;
  }

  fwtest::TestCard card_{{.region_bytes = 128 * wire::kMiB}};  // shares of 64 MiB
  fwtest::RawDriver& driver_ = card_.driver(2);
  StreamHandle stream_;
};

TEST_F(Admin, TheFrameOfARequestIsChecked) {
  auto request = driver_.admin_request(AdminCommand::Query);
  request.magic ^= 1;
  expect_refused(request, Status::BadMagic, Field::Magic);
  request = driver_.admin_request(AdminCommand::Query);
  --request.generation;
  expect_refused(request, Status::StaleGeneration, Field::Generation);
  request = driver_.admin_request(AdminCommand::Query);
  request.flags = 0x8000;
  expect_refused(request, Status::BadFlags, Field::Flags);
}

TEST_F(Admin, CommandsThatAreNotBuiltSayUnsupportedAndUnknownOnesBadOpcode) {
  for (const auto command : {AdminCommand::TimelineCreate}) {
    expect_refused(driver_.admin_request(command), Status::Unsupported, Field::AdminCommand);
  }
  expect_refused(driver_.admin_request(AdminCommand::SelfTest), Status::NotPermitted, Field::AdminCommand);
  constexpr unsigned kNext = static_cast<unsigned>(wire::kLastAdminCommand) + 1;
  for (const unsigned command : {0u, kNext, 255u, 65535u}) {
    expect_refused(driver_.admin_request(static_cast<AdminCommand>(command)), Status::BadOpcode, Field::AdminCommand);
  }
}

// ---- regions --------------------------------------------------------------------------------------------------------

TEST_F(Admin, ARegionIsGrantedWithItsFigures) {
  const auto reply = driver_.admin(acquire(3 * wire::kMiB));
  ASSERT_EQ(reply.outcome, Outcome::Ok);
  const auto& region = reply.values.region;
  EXPECT_EQ(region.region_id, 0u);
  EXPECT_EQ(region.ordinal, 0u);
  EXPECT_EQ(region.bytes, 4 * wire::kMiB);
  EXPECT_EQ(region.total_bytes, 64 * wire::kMiB);
  EXPECT_EQ(region.free_bytes, 60 * wire::kMiB);
  EXPECT_EQ(region.largest_bytes, 60 * wire::kMiB);
  EXPECT_EQ(driver_.admin(acquire(1, RegionType::Program)).values.region.region_id, 7u);
}

TEST_F(Admin, BadAcquiresAreRefusedByTheirField) {
  for (const unsigned type : {2u, 0xffffffffu}) {
    expect_refused(acquire(1, static_cast<RegionType>(type)), Status::BadType, Field::AdminType);
  }
  for (const std::uint64_t bytes : {std::uint64_t{0}, (std::uint64_t{16} << 30) + 1, ~std::uint64_t{0}}) {
    expect_refused(acquire(bytes), Status::BadSize, Field::AdminBytes);
  }
  expect_refused(acquire(65 * wire::kMiB), Status::OutOfDeviceMemory, Field::AdminBytes);
  expect_refused(acquire(std::uint64_t{16} << 30), Status::OutOfDeviceMemory, Field::AdminBytes);
  const auto reply = driver_.admin(acquire(65 * wire::kMiB));
  EXPECT_EQ(reply.values.region.free_bytes, 64 * wire::kMiB);
  EXPECT_EQ(reply.values.region.total_bytes, 64 * wire::kMiB);
}

TEST_F(Admin, AFunctionHasSevenTensorRegionsAndOneForPrograms) {
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(driver_.acquire(1));
  expect_refused(acquire(1), Status::OutOfRegions, Field::AdminType);
  ASSERT_TRUE(driver_.acquire(1, RegionType::Program));
  expect_refused(acquire(1, RegionType::Program), Status::OutOfRegions, Field::AdminType);
}

TEST_F(Admin, AnAcquireWaitsForTheScrubAndGetsCleanMemory) {
  const auto region = driver_.acquire(64 * wire::kMiB).value();
  ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 0, region.bytes, ~0ull)).outcome, Outcome::Ok);
  ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  // pump() scrubs, so the quarantine is made again behind its back.
  const auto again = driver_.acquire(64 * wire::kMiB).value();
  ASSERT_EQ(driver_.run(driver_.fill(stream_, again, 0, again.bytes, ~0ull)).outcome, Outcome::Ok);
  auto release = driver_.admin_request(AdminCommand::RegionRelease);
  release.arguments.region_release = {again.id, again.generation};
  const auto released = driver_.send_admin(release);
  const auto waits = driver_.send_admin(acquire(64 * wire::kMiB));
  card_.run_until_idle();
  ASSERT_TRUE(card_.card().pool.scrubbing());
  ASSERT_EQ(card_.function(2).commands.count(), 1u);
  // Others are served meanwhile.
  const auto query = driver_.send_admin(driver_.admin_request(AdminCommand::Query));
  card_.run_until_idle();
  EXPECT_EQ(driver_.wait_admin(query)->values.region.free_bytes, 0u);
  EXPECT_EQ(driver_.wait_admin(released)->outcome, Outcome::Ok);
  const auto granted = driver_.wait_admin(waits).value();
  EXPECT_EQ(granted.outcome, Outcome::Ok);
  ASSERT_TRUE(svp::test::all_bytes_are(card_.board().region_memory(), std::byte{0}));
}

TEST_F(Admin, AnAcquireThatNoScrubCanHelpIsRefusedAtOnce) {
  const auto region = driver_.acquire(32 * wire::kMiB).value();
  ASSERT_TRUE(driver_.acquire(2 * wire::kMiB));
  ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 0, region.bytes, 1)).outcome, Outcome::Ok);
  auto release = driver_.admin_request(AdminCommand::RegionRelease);
  release.arguments.region_release = {region.id, region.generation};
  driver_.send_admin(release);
  const auto slot = driver_.send_admin(acquire(60 * wire::kMiB));
  const auto reply = driver_.wait_admin(slot).value();
  EXPECT_EQ(reply.status, Status::OutOfDeviceMemory);
  EXPECT_EQ(reply.values.region.free_bytes, 30 * wire::kMiB);
  EXPECT_EQ(reply.values.region.largest_bytes, 30 * wire::kMiB);
}

TEST_F(Admin, BadReleasesAreRefused) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  auto request = driver_.admin_request(AdminCommand::RegionRelease);
  request.arguments.region_release = {1, region.generation};
  expect_refused(request, Status::UnknownRegion, Field::AdminRegion);
  request.arguments.region_release = {~std::uint64_t{0}, region.generation};
  expect_refused(request, Status::UnknownRegion, Field::AdminRegion);
  request.arguments.region_release = {region.id, region.generation + 1};
  expect_refused(request, Status::StaleRegion, Field::AdminRegion);
  EXPECT_EQ(driver_.release(region).outcome, Outcome::Ok);
  request.arguments.region_release = {region.id, region.generation};
  expect_refused(request, Status::UnknownRegion, Field::AdminRegion);
}

TEST_F(Admin, ARegionIsBusyWhileBytesOfItAreMoved) {
  const auto region = driver_.acquire(40 * wire::kMiB).value();
  driver_.submit(driver_.fill(stream_, region, 0, region.bytes, 1));
  fw::run_iteration(card_.card());
  auto release = driver_.admin_request(AdminCommand::RegionRelease);
  release.arguments.region_release = {region.id, region.generation};
  const auto slot = driver_.send_admin(release);
  fw::run_iteration(card_.card());
  const auto reply = driver_.wait_admin(slot).value();
  EXPECT_EQ(reply.status, Status::Busy);
  EXPECT_EQ(driver_.wait_for(1)[0].completion.outcome, Outcome::Ok);
  EXPECT_EQ(driver_.release(region).outcome, Outcome::Ok);
}

TEST_F(Admin, AReleasedRegionIsUnknownToLaterBlocks) {
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  ASSERT_EQ(driver_.release(region).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.fill(stream_, region, 0, 128, 1)).status, Status::UnknownRegion);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  const auto next = driver_.acquire(2 * wire::kMiB).value();
  EXPECT_EQ(next.id, region.id);
  EXPECT_EQ(driver_.run(driver_.fill(stream_, region, 0, 128, 1)).status, Status::StaleRegion);
}

TEST_F(Admin, RegionsOfTwoFunctionsNeverMeet) {
  auto& pf = card_.driver(1);
  ASSERT_TRUE(pf.bring_up());
  const auto mine = driver_.acquire(2 * wire::kMiB).value();
  const auto theirs = pf.acquire(2 * wire::kMiB).value();
  StreamHandle pf_stream;
  ASSERT_EQ(driver_.run(driver_.fill(stream_, mine, 0, mine.bytes, 0x11)).outcome, Outcome::Ok);
  ASSERT_EQ(pf.run(pf.fill(pf_stream, theirs, 0, theirs.bytes, 0x22)).outcome, Outcome::Ok);
  const auto host = fwtest::RawDriver::host(wire::kHostMemoryOffset);
  ASSERT_EQ(driver_.run(driver_.dma(stream_, fwtest::RawDriver::device(mine, 0), host, 8)).outcome, Outcome::Ok);
  EXPECT_EQ(*driver_.at<std::uint64_t>(wire::kHostMemoryOffset), 0x11u);
}

// ---- streams --------------------------------------------------------------------------------------------------------

TEST_F(Admin, StreamsAreOpenedOnceEachAndRunOut) {
  std::set<std::uint32_t> ids;
  for (unsigned i = 1; i < wire::kStreamsPerFunction; ++i) ids.insert(driver_.open_stream().value().id);
  EXPECT_EQ(ids.size(), wire::kStreamsPerFunction - 1);
  EXPECT_FALSE(ids.contains(0));
  expect_refused(driver_.admin_request(AdminCommand::StreamOpen), Status::OutOfStreams, Field::None);
  auto request = driver_.admin_request(AdminCommand::StreamOpen);
  request.arguments.stream_open.priority = 2;
  expect_refused(request, Status::BadPriority, Field::AdminPriority);
}

TEST_F(Admin, AReopenedStreamHasANewIncarnation) {
  std::uint32_t incarnation = 0;
  for (int i = 0; i < 10; ++i) {
    auto stream = driver_.open_stream().value();
    EXPECT_EQ(stream.id, 1u);
    EXPECT_GT(stream.incarnation, incarnation);
    incarnation = stream.incarnation;
    EXPECT_EQ(driver_.run(driver_.nop(stream)).outcome, Outcome::Ok);
    EXPECT_EQ(driver_.admin(driver_.stream_request(AdminCommand::StreamClose, stream)).outcome, Outcome::Ok);
    EXPECT_EQ(driver_.run(driver_.nop(stream)).status, Status::UnknownStream);
  }
}

TEST_F(Admin, StreamsThatDoNotExistAreNotResetOrClosed) {
  for (const auto command : {AdminCommand::StreamReset, AdminCommand::StreamClose}) {
    for (const std::uint32_t id : {1u, 127u, 128u, ~0u}) {
      expect_refused(driver_.stream_request(command, {id, 1, 1}), Status::UnknownStream, Field::AdminStream);
    }
    for (const std::uint32_t incarnation : {0u, 2u, ~0u}) {
      expect_refused(driver_.stream_request(command, {0, incarnation, 1}), Status::StaleIncarnation,
                     Field::AdminStream);
    }
  }
}

// Nothing could open it again before a function reset.
TEST_F(Admin, StreamZeroCannotBeClosed) {
  expect_refused(driver_.stream_request(AdminCommand::StreamClose, stream_), Status::NotPermitted, Field::AdminStream);
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok);
}

TEST_F(Admin, CloseEndsWhatIsQueued) {
  const auto region = driver_.acquire(40 * wire::kMiB).value();
  auto stream = driver_.open_stream().value();
  driver_.submit(driver_.fill(stream, region, 0, region.bytes, 1));
  driver_.submit(driver_.nop(stream));
  fw::run_iteration(card_.card());
  EXPECT_EQ(driver_.admin(driver_.stream_request(AdminCommand::StreamClose, stream)).outcome, Outcome::Ok);
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Fault);
  EXPECT_EQ(ended[1].completion.outcome, Outcome::Aborted);
}

TEST_F(Admin, AResetClearsPoisonOfItsStreamOnly) {
  auto other = driver_.open_stream().value();
  for (auto* s : {&stream_, &other}) {
    auto bad = driver_.nop(*s);
    bad.header.flags = 1;
    driver_.run(bad);
  }
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.nop(stream_)).outcome, Outcome::Ok);
  EXPECT_EQ(driver_.run(driver_.nop(other)).outcome, Outcome::Aborted);
}

TEST_F(Admin, AHighPriorityStreamGoesFirstAndLeavesALowOneAFifth) {
  auto low = driver_.open_stream(false).value(), high = driver_.open_stream(true).value();
  for (int i = 0; i < 10; ++i) driver_.submit(driver_.nop(low));
  for (int i = 0; i < 10; ++i) driver_.submit(driver_.nop(high));
  const auto ended = driver_.wait_for(20);
  std::string order;
  for (const auto& end : ended) order += end.completion.stream == high.id ? 'H' : 'L';
  EXPECT_EQ(order, "HHHHLHHHHLHHLLLLLLLL");
}

// ---- chains ---------------------------------------------------------------------------------------------------------

TEST_F(Admin, ChainsThatCarryNoRequestAreGivenBackEmpty) {
  const std::uint64_t q = wire::kAdminRequests.offset, r = wire::kAdminReplies.offset;
  const std::vector<std::vector<fwtest::RawBuffer>> kBad = {
      {{q, 128, false}},
      {{r, 128, true}},
      {{q, 64, false}, {r, 128, true}},
      {{q, 256, false}, {r, 128, true}},
      {{q + 64, 128, false}, {r, 128, true}},
      {{wire::kHostMemoryOffset, 128, false}, {r, 128, true}},
      {{q, 128, false}, {r, 64, true}},
      {{q, 128, false}, {q, 128, true}},
      {{q, 128, false}, {0, 128, true}},
      {{q, 128, false}, {wire::kCompletions.offset, 128, true}},
      {{q, 128, false}, {~std::uint64_t{127}, 128, true}},
      {{q, 128, false}, {r, 128, true}, {r, 128, true}},
  };
  auto& ring = driver_.ring(wire::kAdminQueue);
  for (const auto& chain : kBad) {
    const auto request = driver_.admin_request(AdminCommand::Query);
    std::memcpy(driver_.at<std::byte>(q), &request, sizeof request);
    ring.add(500, chain);
    card_.pump();
    const auto used = ring.poll();
    ASSERT_TRUE(used);
    EXPECT_EQ(used->id, 500);
    EXPECT_EQ(used->written, 0u);
  }
  EXPECT_EQ(driver_.header().magic, wire::kWindowMagic);
  EXPECT_EQ(driver_.admin(driver_.admin_request(AdminCommand::Query)).outcome, Outcome::Ok);
}

TEST_F(Admin, RandomRequestsAreEachAnsweredOnce) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    auto request = driver_.admin_request(static_cast<AdminCommand>(random() % 14));
    for (auto& word : request.arguments.words) {
      switch (random() % 4) {
        case 0: word = random(); break;
        case 1: word = random() % 8; break;
        case 2: word = (1 + random() % 3) | (random() % 9) << 32; break;
        default: word = random() % (8 * wire::kMiB); break;
      }
    }
    if (random() % 30 == 0) ++request.generation;
    const auto reply = driver_.admin(request);
    ASSERT_LE(static_cast<unsigned>(reply.outcome), static_cast<unsigned>(Outcome::Rejected));
    ASSERT_EQ(reply.outcome == Outcome::Ok, reply.status == Status::None);
  }
  ASSERT_TRUE(driver_.bring_up());
  EXPECT_TRUE(driver_.acquire(64 * wire::kMiB));
}

}  // namespace
