// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/card_description.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/unit/host_driver/discovery/example_card.hpp"

namespace svp {
namespace {

using Json = nlohmann::json;

// Any card that a broker could describe.
CardDescription any_card() {
  const auto below = [](std::uint64_t limit) { return *rc::gen::inRange<std::uint64_t>(0, limit); };
  CardDescription card = test::example_card("card" + std::to_string(below(1000)), static_cast<unsigned>(below(17)));
  card.state = *rc::gen::element(CardState::Running, CardState::Dead, CardState::Cycling, CardState::Stopping);
  card.state_reason = *rc::gen::container<std::string>(rc::gen::inRange<char>(' ', '~'));
  card.state_reason.resize(std::min<std::size_t>(card.state_reason.size(), 200));
  card.memory_bytes = *rc::gen::arbitrary<std::uint64_t>();
  card.power_cycles = *rc::gen::arbitrary<std::uint64_t>();
  card.retirements = {below(1000), std::chrono::microseconds(below(1'000'000)), std::chrono::microseconds(below(1000))};
  card.slots_total = static_cast<unsigned>(below(249));
  card.slots_left = static_cast<unsigned>(below(card.slots_total + 1));
  card.slots_used = card.slots_total - card.slots_left;
  for (auto& function : card.functions) {
    function.use = *rc::gen::element(FunctionUse::Free, FunctionUse::Owned, FunctionUse::Retiring, FunctionUse::NoSlot,
                                     FunctionUse::Stuck);
    function.owner = function.use == FunctionUse::Owned ? static_cast<pid_t>(1 + below(4'000'000)) : 0;
    function.slot = static_cast<unsigned>(below(248));
    function.serial = *rc::gen::arbitrary<std::uint32_t>();
    function.violations = *rc::gen::arbitrary<std::uint64_t>();
  }
  return card;
}

RC_GTEST_PROP(CardDescriptions, WhatIsWrittenIsRead, ()) {
  const CardDescription card = any_card();
  for (const int indent : {-1, 2}) {
    const auto read = parse_card_description(to_json(card, indent));
    RC_ASSERT(read.has_value());
    RC_ASSERT(*read == card);
  }
}

RC_GTEST_PROP(CardDescriptions, DamagedTextIsAnErrorOrACardNeverMore, ()) {
  std::string text = to_json(any_card(), -1);
  const auto damages = *rc::gen::inRange(1, 8);
  for (int i = 0; i < damages && !text.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    switch (*rc::gen::inRange(0, 3)) {
      case 0: text[at] = *rc::gen::arbitrary<char>(); break;
      case 1: text.erase(at, *rc::gen::inRange<std::size_t>(1, 40)); break;
      default: text.insert(at, text.substr(at / 2, 20)); break;
    }
  }
  const auto read = parse_card_description(text);
  if (!read) RC_ASSERT(read.error().source.starts_with("card"));
}

// Every member, wherever it stands: its path as errors say it, and a pointer to it.
void collect(const Json& value, const std::string& path, const Json::json_pointer& at,
             std::vector<std::pair<std::string, Json::json_pointer>>& all) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      all.emplace_back(path + "." + key, at / key);
      collect(member, path + "." + key, at / key, all);
    }
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) collect(value[i], path + "[" + std::to_string(i) + "]", at / i, all);
  }
}

TEST(CardDescriptions, EveryMemberIsNeededAndHasAType) {
  const Json good = Json::parse(to_json(test::example_card()));
  std::vector<std::pair<std::string, Json::json_pointer>> members;
  collect(good, "card", Json::json_pointer(), members);
  EXPECT_GT(members.size(), 20u);
  for (const auto& [path, at] : members) {
    Json without = good;
    without[at.parent_pointer()].erase(at.back());
    const auto missing = parse_card_description(without.dump());
    ASSERT_FALSE(missing) << path;
    EXPECT_EQ(missing.error().source, path);
    for (const Json& wrong :
         {Json(nullptr), Json(-1), Json(1.5), Json(true), Json(Json::array({1})), Json("nonsense")}) {
      Json other = good;
      other[at] = wrong;
      const auto read = parse_card_description(other.dump());
      if (path == "card.state_reason" && wrong.is_string()) continue;  // any text is right
      if (path == "card.name" && wrong.is_string()) continue;
      ASSERT_FALSE(read) << path << " = " << wrong;
      EXPECT_TRUE(read.error().source.starts_with(path)) << path << " = " << wrong << ": " << read.error().source;
    }
  }
}

TEST(CardDescriptions, RangesAreChecked) {
  const auto source_of = [](const char* pointer, const Json& value) {
    Json json = Json::parse(to_json(test::example_card()));
    json[Json::json_pointer(pointer)] = value;
    const auto read = parse_card_description(json.dump());
    return read ? std::string("accepted") : read.error().source;
  };
  EXPECT_EQ(source_of("/name", "../up"), "card.name");
  EXPECT_EQ(source_of("/name", std::string(33, 'x')), "card.name");
  EXPECT_EQ(source_of("/broker", 1ull << 31), "card.broker");
  EXPECT_EQ(source_of("/abi", 1ull << 32), "card.abi");
  EXPECT_EQ(source_of("/cores", 513), "card.cores");
  EXPECT_EQ(source_of("/slots/total", 249), "card.slots.total");
  EXPECT_EQ(source_of("/slots/left", 200), "card.slots.left");
  EXPECT_EQ(source_of("/functions", Json::array()), "card.functions");
  EXPECT_EQ(source_of("/functions/1/target", 3), "card.functions[1].target");
  EXPECT_EQ(source_of("/functions/2/owner", 0), "card.functions[2].owner");
  EXPECT_EQ(source_of("/functions/0/owner", 7), "card.functions[0].owner");
  EXPECT_EQ(source_of("/functions/0/extra", 7), "card.functions[0]");
  EXPECT_EQ(source_of("/extra", 7), "card");
}

TEST(CardDescriptions, HugeAndDeepTextsAreRefused) {
  EXPECT_FALSE(parse_card_description(std::string(65 * 1024, ' ')));
  EXPECT_FALSE(parse_card_description(std::string(60 * 1024, '[')));
  EXPECT_FALSE(parse_card_description(""));
  EXPECT_FALSE(parse_card_description(std::string_view("\0", 1)));
}

TEST(CardDescriptions, ReasonThatIsNoTextIsWrittenAllTheSame) {
  auto card = test::example_card();
  card.state_reason = "\xff\xfe" + std::string(1000, 'x');
  EXPECT_TRUE(parse_card_description(to_json(card)));
}

}  // namespace
}  // namespace svp
