// SPDX-License-Identifier: Apache-2.0
// Functions of a long-lived card and their owners: who gets one, who is refused, and what the next owner finds.
#include <algorithm>
#include <cstring>

#include "tests/device/cards/cards_support.hpp"
#include "tests/support/bytes.hpp"

namespace svp {
namespace {

using test::Tenant;
using testing::HasSubstr;

class Attaching : public testing::Test {
 protected:
  static void SetUpTestSuite() { served = std::make_unique<test::ServedCard>(3, 60); }
  static void TearDownTestSuite() { served.reset(); }
  static test::ServedCard& card() { return *served; }
  // Every test leaves all functions free.
  void TearDown() override {
    EXPECT_TRUE(card().wait_until([](const CardDescription& now) {
      return std::ranges::all_of(now.functions, [](const auto& f) { return f.use == FunctionUse::Free; });
    }));
  }
  static Expected<AttachedFunction> attach_to(const char* function) {
    return attach(card().folder(), value_or_throw(parse_function_choice(function)));
  }

  static inline std::unique_ptr<test::ServedCard> served;
};

TEST_F(Attaching, ProcessesComputeAndMoveDataOnTheirFunctionsAtTheSameTime) {
  Tenant first(card().folder(), "PF", "compute");
  Tenant second(card().folder(), "VF1", "compute");
  Tenant third(card().folder(), "VF2", "dma-loop");
  EXPECT_EQ(first.attached.substr(0, 11), "attached PF");
  EXPECT_EQ(second.attached.substr(0, 12), "attached VF1");
  EXPECT_EQ(third.wait_for("working"), "working");
  EXPECT_EQ(first.wait_for("computed"), "computed 50 rounds");
  EXPECT_EQ(second.wait_for("computed"), "computed 50 rounds");
  EXPECT_EQ(first.wait_exit(), 0);
  EXPECT_EQ(second.wait_exit(), 0);
}

TEST_F(Attaching, SecondOwnerIsToldThePidOfTheFirst) {
  Tenant owner(card().folder(), "VF2", "attach");
  ASSERT_EQ(owner.attached.substr(0, 12), "attached VF2");
  const auto refused = attach_to("VF2");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("owned by pid " + std::to_string(owner.pid())));
  EXPECT_EQ(refused.error().source, "VF2");
  EXPECT_TRUE(refused.error().recoverable);
  EXPECT_EQ(card().function(wire::target_of_virtual(2)).owner, owner.pid());
  owner.close_input();
  EXPECT_EQ(owner.wait_exit(), 0);
  EXPECT_TRUE(attach_to("VF2"));
}

TEST_F(Attaching, AnyVirtualFunctionIsAFreeOneUntilNoneIsLeft) {
  std::vector<AttachedFunction> owned;
  owned.reserve(3);
  for (int i = 0; i < 3; ++i) owned.push_back(value_or_throw(attach_to("VF")));
  EXPECT_EQ(owned[0].function, "VF1");
  EXPECT_EQ(owned[2].function, "VF3");
  const auto refused = attach_to("VF");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("VF2 by pid " + std::to_string(::getpid())));
  owned.erase(owned.begin() + 1);
  EXPECT_EQ(value_or_throw(attach_to("VF")).function, "VF2");
}

TEST_F(Attaching, FunctionThatTheCardDoesNotHaveIsRefusedByName) {
  const auto refused = attach_to("VF4");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, "VF4");
  EXPECT_THAT(refused.error().message, HasSubstr("3 virtual functions"));
}

TEST_F(Attaching, CardThatDoesNotRunIsRefusedByName) {
  const auto refused = attach(card().folder() + "-other", FunctionChoice::physical());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, "card0-other");
  EXPECT_THAT(refused.error().message, HasSubstr("there is no card card0-other"));
}

TEST_F(Attaching, EachOwnerFindsAFreshSlotAndAnEmptyWindow) {
  const auto before = test::count_both(card());
  unsigned last_slot = 0;
  for (int i = 0; i < 3; ++i) {
    // Never "owned": who comes right after the last owner waits for its retirement.
    auto function = value_or_throw(attach_to("PF"));
    EXPECT_NE(function.device->config().slot, last_slot);
    last_slot = function.device->config().slot;
    const auto memory = function.device->host_memory();
    EXPECT_TRUE(svp::test::all_bytes_are(memory, std::byte{0}));
    std::memset(memory.data(), 0x5a, memory.size());
  }
  EXPECT_EQ(test::left_over(card(), before), "");
}

TEST_F(Attaching, RetiredWindowGivesItsPagesBack) {
  auto function = value_or_throw(attach_to("VF1"));
  const auto kept = function.device->mapping();  // as a forked child would keep it
  const auto memory = function.device->host_memory();
  std::memset(memory.data(), 0x5a, 8 * wire::kMiB);
  const auto before = card().description().retirements.count;
  function.device.reset();
  ASSERT_TRUE(card().wait_until([&](const auto& now) { return now.retirements.count == before + 1; }));
  EXPECT_TRUE(card().wait_until(
      [&](const auto&) { return svp::test::all_bytes_are(memory.first(8 * wire::kMiB), std::byte{0}); }));
}

TEST_F(Attaching, ResetByTheBrokerIsToldToTheOwnerAndNobodyElse) {
  const auto owner = value_or_throw(attach_to("VF1"));
  const auto neighbour = value_or_throw(attach_to("VF2"));
  ASSERT_TRUE(reset_function(card().folder(), owner.target));
  EXPECT_EQ(owner.device->wait_until([] { return false; }, test::soon()), WaitStatus::Failed);
  EXPECT_EQ(owner.device->health(), Health::NeedsReset);
  EXPECT_EQ(neighbour.device->health(), Health::Alive);
  EXPECT_TRUE(neighbour.device->card_statistics());
  const auto refused = reset_function(card().folder(), wire::target_of_virtual(9));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().source, "VF9");
}

TEST_F(Attaching, DescriptionIsTheSameFromBrokerSocketAndFile) {
  const auto owner = value_or_throw(attach_to("VF3"));
  ASSERT_TRUE(card().wait_until_at_rest());
  const auto asked = value_or_throw(describe_card(card().folder()));
  EXPECT_EQ(asked, card().description());
  const auto runtime = value_or_throw(RuntimeFolder::open(card().broker().folder().parent_path()));
  const auto listed = value_or_throw(runtime.cards());
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0], asked);
  EXPECT_EQ(asked.functions[3].owner, ::getpid());
  EXPECT_EQ(asked.functions.size(), 4u);
  EXPECT_EQ(asked.slots_total, 1 + 4 + 60u);
  EXPECT_EQ(asked.slots_used + asked.slots_left, asked.slots_total);
}

TEST_F(Attaching, NameInUseIsToldWithThePid) {
  const auto refused = Broker::start(test::small_broker(card().broker().folder().parent_path(), "card0"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("in use by process " + std::to_string(::getpid())));
}

TEST_F(Attaching, WhatATenantMayNotDoIsCountedAgainstIt) {
  const auto owner = value_or_throw(attach_to("VF1"));
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::SlotBind;
  request.arguments.function = {wire::target_of_virtual(2), 7};
  EXPECT_EQ(value_or_throw(owner.device->admin(request)).status, wire::Status::NotPermitted);
  const auto counted = [&] { return value_or_throw(describe_card(card().folder())).functions[1].violations; };
  EXPECT_TRUE(card().wait_until([&](const auto&) { return counted() >= 1; }));
}

}  // namespace
}  // namespace svp
