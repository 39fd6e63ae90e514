// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/script.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "host_driver/faults/script_json.hpp"
#include "tests/unit/host_driver/faults/arbitrary_fault.hpp"

namespace svp::fault {
namespace {

TEST(Catalogue, HasEachPairOfTheCardThatMakesSenseAndNoOther) {
  for (std::uint16_t p = 1; p <= 64; ++p) {
    const auto point = static_cast<wire::FaultPoint>(p);
    for (std::uint16_t a = 0; a <= 64; ++a) {
      const auto action = static_cast<wire::FaultAction>(a);
      bool listed = false;
      for (const PointRule& rule : catalogue()) {
        if (home_of(rule.point) != Home::Card || card_point(rule.point) != point) continue;
        listed = find_action(rule, static_cast<Action>(action)) != nullptr;
      }
      EXPECT_EQ(listed, wire::makes_sense(point, action)) << wire::name(point) << " " << wire::name(action);
    }
  }
}

TEST(Catalogue, NamesEachPointOfALayerOnceAndFindsItByName) {
  std::set<std::pair<Layer, std::string_view>> names;
  for (const PointRule& rule : catalogue()) {
    EXPECT_TRUE(names.emplace(rule.layer, rule.name).second) << rule.name;
    EXPECT_EQ(find_point(rule.layer, rule.name), &rule);
    EXPECT_EQ(&rule_of(rule.point), &rule);
    EXPECT_FALSE(rule.actions.empty()) << rule.name;
    EXPECT_EQ(rule.needed & ~rule.conditions, 0u) << rule.name;
    for (const ActionRule& action : rule.actions) EXPECT_EQ(action_called(name(action.action)), action.action);
  }
}

RC_GTEST_PROP(Script, ReadBackFromJsonItIsTheSame, ()) {
  const Script script = *arbitrary_script();
  const auto read = parse_script(to_json(script));
  RC_ASSERT(read.has_value());
  RC_ASSERT(*read == script);
}

RC_GTEST_PROP(Script, DrawnTwiceItIsTheSameAndWithinItsRanges, ()) {
  const Script script = *arbitrary_script();
  const Script drawn = script.drawn();
  RC_ASSERT(drawn == script.drawn());
  for (std::size_t i = 0; i < script.faults().size(); ++i) {
    const Number& range = script.faults()[i].trigger.first;
    const Number& value = drawn.faults()[i].trigger.first;
    RC_ASSERT(value.fixed() && value.low >= range.low && value.low <= range.high);
    RC_ASSERT(!refuse(drawn.faults()[i]));
  }
}

TEST(Script, AnotherSeedDrawsOtherNumbers) {
  Script script(1);
  script.add({.point = Point::Kill, .action = Action::Kill, .trigger = {.first = Number::random(1, 1'000'000'000)}});
  EXPECT_NE(script.drawn(), script.with_seed(2).drawn().with_seed(1));
}

TEST(Script, RefusesMoreFaultsThanThereIsRoomForAndOnlyThose) {
  Script script;
  const Fault fault{.point = Point::CardDispatcher, .action = Action::Stall};
  for (std::size_t i = 0; i < kMaxFaultsPerHome; ++i) script.add(fault);
  EXPECT_THROW(script.add(fault), InvalidArgument);
  EXPECT_NO_THROW(script.add({.point = Point::Kill, .action = Action::Kill}));
}

TEST(Script, RefusesAPairThatMakesNoSense) {
  Script script;
  try {
    script.add({.point = Point::BringUpStep, .action = Action::Corrupt});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), "action");
    EXPECT_NE(std::string(error.what()).find("fail"), std::string::npos) << "names what the point knows";
  }
  EXPECT_TRUE(script.faults().empty());
}

}  // namespace
}  // namespace svp::fault
