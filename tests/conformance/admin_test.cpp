// SPDX-License-Identifier: Apache-2.0
// Admin commands: each request gets one reply, a bad one names its field, and the counters are exact.
#include <atomic>
#include <thread>

#include "tests/conformance/bare_slot.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/unit/firmware/core/raw_driver.hpp"

namespace svp::conformance {
namespace {

using test::Workbench;
using wire::AdminCommand;
using wire::Field;
using wire::Outcome;
using wire::Status;

TEST(Admin, CommandsFromManyThreadsEachGetTheirOwnReply) {
  const auto device = provider().open();
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  constexpr int kThreads = 40;  // more than there are slots
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) good += device->card_statistics().has_value();
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each does a number of admin calls, bounded by Timeouts::admin
  EXPECT_EQ(good.load(), 800);
}

TEST(Admin, UnknownCommandsAreRepliesNotErrors) {
  const auto device = provider().open();
  constexpr unsigned kNext = static_cast<unsigned>(wire::kLastAdminCommand) + 1;
  for (const unsigned number : {0u, kNext, 999u, 0xffffu}) {
    wire::AdminRequest request{};
    request.command = static_cast<AdminCommand>(number);
    const auto reply = value_or_throw(device->admin(request));
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, Status::BadOpcode);
    EXPECT_EQ(reply.field, Field::AdminCommand);
  }
}

TEST(Admin, TheFrameOfARequestIsChecked) {
  BareSlot slot(provider().slot());
  fwtest::RawDriver driver(slot.window(), [&] { slot.pump(); });
  ASSERT_TRUE(driver.bring_up());
  const auto refused = [&](auto spoil, Status status, Field field) {
    auto request = driver.admin_request(AdminCommand::StreamOpen);
    spoil(request);
    const auto reply = driver.admin(request);
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, status) << wire::name(reply.status);
    EXPECT_EQ(reply.field, field) << wire::name(reply.field);
  };
  refused([](auto& r) { r.magic ^= 1; }, Status::BadMagic, Field::Magic);
  refused([](auto& r) { ++r.generation; }, Status::StaleGeneration, Field::Generation);
  refused([](auto& r) { --r.generation; }, Status::StaleGeneration, Field::Generation);
  refused([](auto& r) { r.flags = 1; }, Status::BadFlags, Field::Flags);
  refused([](auto& r) { r.arguments.stream_open.priority = 2; }, Status::BadPriority, Field::AdminPriority);
  EXPECT_EQ(driver.open_stream().value().id, 1u) << "a refused request opened a stream";
  EXPECT_EQ(driver.set_status(0), 0u);
}

TEST(Admin, StatisticsCountEveryOutcomeAndEveryByteByItsDirection) {
  const auto device = provider().open();
  Workbench bench(*device);
  ASSERT_EQ(bench.run(Workbench::dma(bench.host(0), bench.tensor(0), 1000)).outcome, Outcome::Ok);
  ASSERT_EQ(bench.run(Workbench::dma(bench.tensor(0), bench.host(0), 200)).outcome, Outcome::Ok);
  ASSERT_EQ(bench.run(Workbench::dma(bench.tensor(0), bench.tensor(4096), 30)).outcome, Outcome::Ok);
  ASSERT_EQ(bench.run(Workbench::fill(bench.tensor(0), 4, 0)).outcome, Outcome::Ok);
  auto bad = Workbench::nop();
  bad.header.flags = 1;
  ASSERT_EQ(bench.run(bad).outcome, Outcome::Rejected);
  ASSERT_EQ(bench.run(Workbench::nop()).outcome, Outcome::Aborted);
  const auto stats = value_or_throw(device->card_statistics()).values.stats;
  EXPECT_EQ(stats.completed, 4u);
  EXPECT_EQ(stats.rejected, 1u);
  EXPECT_EQ(stats.aborted, 1u);
  EXPECT_EQ(stats.failed, 0u);
  EXPECT_EQ(stats.bytes_to_device, 1000u);
  EXPECT_EQ(stats.bytes_from_device, 200u);
  EXPECT_EQ(stats.bytes_on_device, 34u);
  EXPECT_EQ(stats.dirty_granules, 1u);
  EXPECT_EQ(stats.launches, 0u);
  EXPECT_EQ(stats.ring_violations, 0u);
}

TEST(Admin, StatisticsAreOfTheFunctionAlone) {
  const auto device = provider().open();
  const auto other = provider().open_bystander();
  Workbench beside(*other);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(beside.run(Workbench::nop()).outcome, Outcome::Ok);
  EXPECT_EQ(value_or_throw(device->card_statistics()).values.stats.completed, 0u);
  EXPECT_EQ(value_or_throw(other->card_statistics()).values.stats.completed, 10u);
}

}  // namespace
}  // namespace svp::conformance
