// SPDX-License-Identifier: Apache-2.0
// Self-tests of a core that runs kernels (protocol, SELFTEST): the rounds are done, and what they need is given back.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace svp::conformance
