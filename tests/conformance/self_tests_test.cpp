// SPDX-License-Identifier: Apache-2.0
// Self-tests of a core that runs kernels (protocol, SELFTEST): the rounds are done, and what they need is given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <vector>

#include "tests/conformance/kernel_provider.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp::conformance {
namespace {

TEST(SelfTests, EnterACoreInOneAddressSpaceAndInTwoAsOftenAsAsked) {
  const auto device = provider().open();
  for (const auto kind : {wire::SelfTestKind::EnterExit, wire::SelfTestKind::Switch}) {
    wire::AdminRequest request = test::admin_request(wire::AdminCommand::SelfTest);
    request.arguments.self_test = {kind, 100, 0};
    std::uint64_t rounds = 0;
    for (int i = 0; i < 50; ++i) {  // more often than the card has address spaces
      const auto reply = value_or_throw(device->admin(request));
      if (provider().kind() != wire::FunctionKind::Physical) {
        EXPECT_EQ(reply.status, wire::Status::NotPermitted) << wire::name(reply.status);
        continue;
      }
      EXPECT_EQ(reply.outcome, wire::Outcome::Ok) << wire::name(reply.status);
      EXPECT_LE(reply.values.self_test.rounds, 100U);
      rounds += reply.values.self_test.rounds;
    }
    // One that takes longer than wire::kSelfTestTicks is cut short.
    if (provider().kind() == wire::FunctionKind::Physical) EXPECT_GE(rounds, 100U);
  }
}

// Each holds hart 0 for as long as it may: it echoes a word that nobody changes.
TEST(SelfTests, FourOfThePhysicalFunctionRestartNoCardAndTheWorkOfAnotherFunctionEnds) {
  constexpr unsigned kFewestFills = 16;
  const auto tested = provider().open();
  const auto other = provider().open_bystander();
  const bool is_physical = provider().kind() == wire::FunctionKind::Physical;
  Device& physical = is_physical ? *tested : *other;
  Device& tenant = is_physical ? *other : *tested;
  ASSERT_EQ(physical.config().kind, wire::FunctionKind::Physical);
  ASSERT_EQ(tenant.config().kind, wire::FunctionKind::Virtual);
  const test::Workbench bench(tenant);
  const auto& header = *reinterpret_cast<const wire::WindowHeader*>(test::window_of(tenant));
  const std::uint64_t epoch = header.boot_epoch;

  wire::AdminRequest request = test::admin_request(wire::AdminCommand::SelfTest);
  request.arguments.self_test = {wire::SelfTestKind::Echo, ~std::uint32_t{0}, physical.host_memory_offset()};
  std::vector<std::future<Expected<wire::AdminReply>>> tests;
  for (int i = 0; i < 4; ++i) {
    tests.push_back(std::async(std::launch::async, [&] { return physical.admin(request); }));
  }
  const auto over = [](const auto& one) { return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  std::uint64_t fills = 0;
  while (fills < kFewestFills || !std::ranges::all_of(tests, over)) {  // a reply comes within Timeouts::admin
    const auto end = bench.run(test::Workbench::fill(bench.tensor(0), test::Workbench::kRegionBytes, ++fills));
    ASSERT_EQ(end.outcome, wire::Outcome::Ok) << wire::name(end.status);
  }
  for (auto& one : tests) {
    const auto reply = value_or_throw(one.get());
    EXPECT_EQ(reply.outcome, wire::Outcome::Ok) << wire::name(reply.status);
  }
  ASSERT_EQ(bench.run(test::Workbench::dma(bench.tensor(0), bench.host(0), test::Workbench::kRegionBytes)).outcome,
            wire::Outcome::Ok);
  const auto words = bench.host_words(0, test::Workbench::kRegionBytes);
  EXPECT_TRUE(std::ranges::all_of(words, [&](std::uint64_t word) { return word == fills; }));
  EXPECT_EQ(header.boot_epoch, epoch) << "the card restarted";
  expect_healthy(tenant);
  expect_healthy(physical);
}

}  // namespace
}  // namespace svp::conformance
