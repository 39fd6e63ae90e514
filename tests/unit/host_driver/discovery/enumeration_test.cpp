// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/enumeration.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace svp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::vector<RunningCard> kTwoCards = {{"right", 2}, {"left", 4}};

std::vector<EnumeratedDevice> devices(const EnumerationVariables& variables,
                                      const std::vector<RunningCard>& cards = kTwoCards) {
  const auto result = enumerate(variables, cards);
  if (!result) throw Error(result.error());
  return result->devices;
}

// The one refusal of these variables; fails the test when they are accepted.
std::string refusal(const EnumerationVariables& variables) {
  const auto result = enumerate(variables, kTwoCards);
  if (result) {
    ADD_FAILURE() << "accepted";
    return {};
  }
  EXPECT_EQ(result.error().outcome, wire::Outcome::Rejected);
  EXPECT_FALSE(result.error().next_step.empty());
  return result.error().source + ": " + result.error().message;
}

TEST(Enumeration, PhysicalModeIsOneDevicePerCardByName) {
  const auto expected = ElementsAre(EnumeratedDevice{"left", 1}, EnumeratedDevice{"right", 1});
  EXPECT_THAT(devices({.flex_device = "PF"}), expected);
  EXPECT_THAT(devices({}), expected) << "not set counts as PF";
  EXPECT_THAT(devices({.flex_device = ""}), expected) << "set to nothing, too";
}

TEST(Enumeration, VirtualModeIsEveryVirtualFunctionCardByCard) {
  EXPECT_THAT(devices({.flex_device = "VF"}),
              ElementsAre(EnumeratedDevice{"left", 2}, EnumeratedDevice{"left", 3}, EnumeratedDevice{"left", 4},
                          EnumeratedDevice{"left", 5}, EnumeratedDevice{"right", 2}, EnumeratedDevice{"right", 3}));
  EXPECT_THAT(devices({.flex_device = "VF"}, {{"none", 0}}), IsEmpty());
}

TEST(Enumeration, TellsWhetherTheModeWasGiven) {
  EXPECT_FALSE(enumerate({}, {})->mode_given);
  EXPECT_FALSE(enumerate({.flex_device = ""}, {})->mode_given);
  EXPECT_TRUE(enumerate({.flex_device = "PF"}, {})->mode_given);
}

TEST(Enumeration, NoCardIsNoDeviceAndNoError) {
  EXPECT_THAT(devices({}, {}), IsEmpty());
  EXPECT_THAT(devices({.flex_device = "VF", .visible_devices = "0,1", .world_size = "4"}, {}), IsEmpty());
}

TEST(Enumeration, WorldSizeCapsWhatIsFound) {
  EXPECT_THAT(devices({.flex_device = "VF", .world_size = "3"}), SizeIs(3));
  EXPECT_THAT(devices({.flex_device = "VF", .world_size = "6"}), SizeIs(6));
  EXPECT_THAT(devices({.flex_device = "VF", .world_size = "100000000000000000000000"}), SizeIs(6));
  EXPECT_THAT(devices({.world_size = "0"}), IsEmpty());
}

TEST(Enumeration, VisibleDevicesAreSeenInTheOrderGiven) {
  EXPECT_THAT(devices({.flex_device = "VF", .visible_devices = "5, 0,\t3 "}),
              ElementsAre(EnumeratedDevice{"right", 3}, EnumeratedDevice{"left", 2}, EnumeratedDevice{"left", 5}));
}

TEST(Enumeration, DuplicatesAndIndicesOutOfRangeAreDropped) {
  EXPECT_THAT(devices({.visible_devices = "1,7,1,0,99999999999999999999999,0"}),
              ElementsAre(EnumeratedDevice{"right", 1}, EnumeratedDevice{"left", 1}));
}

TEST(Enumeration, AnEmptyListHidesEverything) {
  EXPECT_THAT(devices({.visible_devices = ""}), IsEmpty());
  EXPECT_THAT(devices({.visible_devices = "  "}), IsEmpty());
}

TEST(Enumeration, VisibleDevicesChooseBeforeTheWorldSizeCaps) {
  EXPECT_THAT(devices({.visible_devices = "1,0", .world_size = "1"}), ElementsAre(EnumeratedDevice{"right", 1}));
}

TEST(Enumeration, MockCountsTheWorldAndNothingElse) {
  EXPECT_THAT(devices({.flex_device = "MOCK"}), ElementsAre(EnumeratedDevice{"mock0", 1}));
  EXPECT_THAT(devices({.flex_device = "MOCK", .world_size = "3"}), SizeIs(3));
  EXPECT_THAT(devices({.flex_device = "MOCK", .visible_devices = "0", .world_size = "3"}), SizeIs(3));
  EXPECT_THAT(devices({.flex_device = "MOCK"}, {}), SizeIs(1)) << "needs no running card";
}

TEST(Enumeration, MalformedValuesNameVariableTokenAndForm) {
  EXPECT_THAT(refusal({.flex_device = "pf"}),
              HasSubstr("FLEX_DEVICE: environment variable FLEX_DEVICE: 'pf' is not PF, VF or MOCK"));
  EXPECT_THAT(refusal({.world_size = "two"}), HasSubstr("AIU_WORLD_SIZE: 'two' is not a whole number from 1"));
  EXPECT_THAT(refusal({.world_size = "-1"}), HasSubstr("'-1'"));
  EXPECT_THAT(refusal({.flex_device = "MOCK", .world_size = "0"}), HasSubstr("AIU_WORLD_SIZE: '0'"));
  EXPECT_THAT(refusal({.flex_device = "MOCK", .world_size = "-3"}), HasSubstr("AIU_WORLD_SIZE: '-3'"));
  EXPECT_THAT(refusal({.flex_device = "MOCK", .world_size = "99999999999999999999"}), HasSubstr("to 65536 (MOCK)"));
  EXPECT_THAT(refusal({.local_rank = "1.5"}), HasSubstr("LOCAL_RANK: '1.5' is not a whole number from 0"));
  for (const char* list : {"0,x", "x", "0,,1", ",", "0,", "0 1", "-1", "+1", "0x1", "0;1"}) {
    EXPECT_THAT(refusal({.visible_devices = list}), HasSubstr("a comma list of device indices like 0,2,3")) << list;
  }
  EXPECT_THAT(refusal({.visible_devices = "0, card1"}), HasSubstr("SPYRE_DEVICES: 'card1'"));
  EXPECT_THAT(refusal({.flex_device = "MOCK", .visible_devices = "x"}), HasSubstr("SPYRE_DEVICES"))
      << "also where it would not matter";
}

TEST(Enumeration, ALongTokenDoesNotHideTheMessage) {
  EXPECT_LT(refusal({.visible_devices = std::string(100'000, 'x')}).size(), 300u);
}

TEST(Enumeration, LocalRankNamesTheDefaultDevice) {
  const auto list = enumerate({.flex_device = "VF", .local_rank = "4"}, kTwoCards);
  ASSERT_TRUE(list);
  EXPECT_EQ(select(*list), (EnumeratedDevice{"right", 2}));
  EXPECT_EQ(select(*list, 0), (EnumeratedDevice{"left", 2})) << "an index in the code wins";
  EXPECT_EQ(select(*enumerate({}, kTwoCards)), (EnumeratedDevice{"left", 1})) << "not set: the first";
}

TEST(Enumeration, AnIndexOutOfRangeNamesIndexAndCount) {
  const auto list = enumerate({.local_rank = "2"}, kTwoCards);
  ASSERT_TRUE(list) << "no error until the device is wanted";
  const auto by_rank = select(*list);
  ASSERT_FALSE(by_rank);
  EXPECT_EQ(by_rank.error().source, "LOCAL_RANK");
  EXPECT_THAT(by_rank.error().message, HasSubstr("index 2 is out of range: 2 devices"));
  const auto by_code = select(*list, 17);
  ASSERT_FALSE(by_code);
  EXPECT_EQ(by_code.error().source, "device index");
  EXPECT_THAT(by_code.error().message, HasSubstr("index 17 is out of range: 2 devices"));
}

TEST(Enumeration, AnIndexOutOfRangeTellsWhatToDo) {
  EXPECT_THAT(select(*enumerate({}, {})).error().next_step, HasSubstr("spyre boot --name"));
  EXPECT_THAT(select(*enumerate({.flex_device = "VF"}, {})).error().next_step, HasSubstr("--vfs"));
  EXPECT_THAT(select(*enumerate({.visible_devices = ""}, kTwoCards)).error().next_step, HasSubstr("SPYRE_DEVICES"));
  EXPECT_THAT(select(*enumerate({.local_rank = "9"}, kTwoCards)).error().next_step, HasSubstr("LOCAL_RANK"));
}

// ---- properties -----------------------------------------------------------------------------------------------------

std::vector<RunningCard> shuffled(std::vector<RunningCard> cards) {
  std::mt19937 random(*rc::gen::arbitrary<unsigned>());
  std::ranges::shuffle(cards, random);
  return cards;
}

std::vector<RunningCard> some_cards() {
  std::vector<RunningCard> cards;
  const auto count = *rc::gen::inRange<unsigned>(0, 9);
  for (unsigned i = 0; i < count; ++i) {
    cards.push_back({"card" + std::to_string(i), *rc::gen::inRange<unsigned>(0, 17)});
  }
  return shuffled(cards);
}

RC_GTEST_PROP(EnumerationProperty, VisibleListIsTheNaiveSelectionThenTheCap, ()) {
  const auto cards = some_cards();
  const std::string mode = *rc::gen::element<std::string>("PF", "VF");
  const auto indices = *rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(0u, 150u));
  const auto world = *rc::gen::inRange<std::size_t>(0, 150);  // 149: not set
  std::string list;
  for (const unsigned index : indices) {
    if (!list.empty()) list += *rc::gen::element<std::string>(",", " , ", ",\t");
    list += std::to_string(index);
  }
  const auto all = devices({.flex_device = mode}, cards);
  std::vector<EnumeratedDevice> expected;
  for (const unsigned index : indices) {
    if (index < all.size() && std::ranges::find(expected, all[index]) == expected.end()) expected.push_back(all[index]);
  }
  EnumerationVariables variables{.flex_device = mode, .visible_devices = list};
  if (world != 149) {
    variables.world_size = std::to_string(world);
    expected.resize(std::min(expected.size(), world));
  }
  RC_ASSERT(devices(variables, cards) == expected);
}

RC_GTEST_PROP(EnumerationProperty, EveryFunctionOfEveryCardIsFoundOnceInAnyOrderOfCards, ()) {
  const auto cards = some_cards();
  const auto found = devices({.flex_device = "VF"}, cards);
  std::size_t functions = 0;
  for (const RunningCard& card : cards) functions += card.virtual_functions;
  std::set<std::pair<std::string, wire::Target>> distinct;
  for (const auto& device : found) distinct.emplace(device.card, device.function);
  RC_ASSERT(found.size() == functions);
  RC_ASSERT(distinct.size() == functions);
  RC_ASSERT(devices({.flex_device = "VF"}, shuffled(cards)) == found);
}

// Whatever stands in the environment: a list, or an error that names one of the variables. Never a throw, never more
// devices than there are.
RC_GTEST_PROP(EnumerationProperty, AnyTextIsAListOrANamedError, ()) {
  const auto cards = some_cards();
  const auto text = []() -> std::optional<std::string> {
    if (*rc::gen::element(true, false, false, false)) return std::nullopt;
    return *rc::gen::container<std::string>(
        rc::gen::oneOf(rc::gen::elementOf(std::string("0123456789, \t-+xPVFMOCK")), rc::gen::character<char>()));
  };
  const EnumerationVariables variables{text(), text(), text(), text()};
  const auto result = enumerate(variables, cards);
  if (result) {
    RC_ASSERT(result->devices.size() <= result->found);
    const auto chosen = select(*result);
    RC_ASSERT(chosen.has_value() == (result->default_index < result->devices.size()));
  } else {
    const std::set<std::string> names = {kFlexDeviceVariable, kVisibleDevicesVariable, kWorldSizeVariable,
                                         kLocalRankVariable};
    RC_ASSERT(names.contains(result.error().source));
    RC_ASSERT(result.error().message.find(result.error().source) != std::string::npos);
  }
}

}  // namespace
}  // namespace svp
