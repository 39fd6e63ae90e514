// SPDX-License-Identifier: Apache-2.0
// What the kinds of bundles hold: read strictly, and judged figure by figure by what the script decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host_driver/cli/fault_run_bundle.hpp"
#include "tests/validation/campaign/bundle.hpp"
#include "tests/validation/soak/bundle.hpp"

namespace cli {
namespace {

using nlohmann::json;
using svp::bundle::Bundle;
using svp::bundle::Kind;
using svp::fault::Action;
using svp::fault::Fault;
using svp::fault::Point;
using svp::fault::Script;
using testing::HasSubstr;

constexpr auto kVictim = wire::target_of_virtual(1);

Fault wrong_result() {
  return {.point = Point::CardKernelResult, .action = Action::Corrupt, .trigger = {.first = 3, .function = kVictim}};
}

FaultRun example() {
  Script script(11);
  script.add(wrong_result())
      .add({.point = Point::Kill, .action = Action::Kill, .trigger = {.first = svp::fault::Number::random(5, 9)}});
  return {.script = script, .seconds = 3, .shape = {.virtual_functions = 5, .cores = 2, .array = "auto"}};
}

Bundle with(Bundle bundle, const json& changes) {
  json script = json::parse(bundle.script);
  script.merge_patch(changes);
  bundle.script = script.dump();
  return bundle;
}

TEST(FaultRunBundle, HoldsEverythingThatDecidesTheRun) {
  const FaultRun run = example();
  const auto again = fault_run_of(bundle_of(run, {}));
  ASSERT_TRUE(again.has_value()) << describe(again.error());
  EXPECT_EQ(again->script, run.script);
  EXPECT_EQ(again->seconds, 3u);
  EXPECT_EQ(again->shape.virtual_functions, 5u);
  EXPECT_EQ(again->shape.cores, 2u);
  EXPECT_EQ(again->shape.array, "auto");
  EXPECT_EQ(again->shape.memory_bytes, run.shape.memory_bytes);
}

TEST(FaultRunBundle, IsReadStrictly) {
  const Bundle good = bundle_of(example(), {});
  const std::pair<json, const char*> wrong[] = {{{{"seconds", 0}}, "seconds"},
                                                {{{"seconds", 601}}, "seconds"},
                                                {{{"seconds", -1}}, "seconds"},
                                                {{{"seconds", 4294967299u}}, "seconds"},
                                                {{{"seconds", nullptr}}, "seconds"},
                                                {{{"exit", 1}}, "'exit'"},
                                                {{{"card", {{"cores", 65}}}}, "cores"},
                                                {{{"card", {{"virtual_functions", 17}}}}, "virtual functions"},
                                                {{{"card", {{"memory_bytes", 1}}}}, "memory"},
                                                {{{"card", {{"memory_bytes", "1"}}}}, "memory_bytes"},
                                                {{{"card", {{"gpu", 1}}}}, "'gpu'"},
                                                {{{"card", {{"array", 1}}}}, "'array'"},
                                                {{{"card", {{"array", "/tmp/array.so"}}}}, "'array'"},
                                                {{{"faults", {{"seed", 12}}}}, "seed"},
                                                {{{"faults", {{"faults", json::array()}}}}, "empty"},
                                                {{{"faults", "none"}}, "object"}};
  for (const auto& [changes, why] : wrong) {
    const auto run = fault_run_of(with(good, changes));
    ASSERT_FALSE(run.has_value()) << changes;
    EXPECT_THAT(run.error().message, HasSubstr(why)) << changes;
    EXPECT_EQ(run.error().outcome, wire::Outcome::Rejected);
  }
}

bool exact(const Script& script, std::string_view group, std::string_view name) {
  const auto rule = fault_run_rules(script)(group, name);
  EXPECT_TRUE(rule.has_value()) << group << ": " << name;
  return rule && rule->exact;
}

TEST(FaultRunRules, TheVerdictIsAlwaysExactAndThreadsNever) {
  for (const Script& script : {Script(1).add(wrong_result()), example().script}) {
    EXPECT_TRUE(exact(script, "run", "verdict"));
    EXPECT_TRUE(exact(script, "VF1", "a result was wrong"));
    EXPECT_TRUE(exact(script, "fault 0", "drawn"));
    EXPECT_FALSE(exact(script, "fault 0", "counted"));
    EXPECT_FALSE(exact(script, "fault 0", "first at us"));
    EXPECT_FALSE(exact(script, "VF1", "rounds"));
    EXPECT_FALSE(exact(script, "VF1 blocks", "OK"));
    EXPECT_FALSE(exact(script, "VF1 errors", "wait: anything"));
  }
}

TEST(FaultRunRules, NumbersOfAFaultThatStaysInItsBlockAreExact) {
  const Script script = Script(1).add(wrong_result());
  EXPECT_TRUE(exact(script, "VF1", "results wrong"));
  EXPECT_TRUE(exact(script, "VF1 blocks", "TIMEOUT: watchdog expired"));
  EXPECT_TRUE(exact(script, "VF2", "kinds of ends"));
  EXPECT_FALSE(exact(script, "VF1 blocks", "ABORTED: stream poisoned by an earlier error"));
}

TEST(FaultRunRules, NothingButTheVerdictIsExactWhenTheCardIsKilled) {
  const Script script = example().script;
  EXPECT_FALSE(exact(script, "VF1", "results wrong"));
  EXPECT_FALSE(exact(script, "VF1 blocks", "TIMEOUT: watchdog expired"));
  EXPECT_FALSE(exact(script, "VF2", "kinds of ends"));
}

TEST(FaultRunRules, FiredIsExactWhenTheRunCannotEndBeforeIt) {
  const auto fired = [](svp::fault::Trigger trigger) {
    trigger.function = kVictim;
    const Script script = Script(1).add({.point = Point::CardDmaStep, .action = Action::Abort, .trigger = trigger});
    return exact(script, "fault 0", "fired");
  };
  EXPECT_TRUE(fired({.first = 1'000'000}));
  EXPECT_TRUE(fired({.first = 2, .every = 2, .shots = 4}));
  EXPECT_FALSE(fired({.first = 2, .every = 2, .shots = 5}));
  EXPECT_FALSE(fired({.first = 2, .every = 1u << 30, .shots = 3}));
  EXPECT_FALSE(fired({.first = 2, .every = 1, .shots = 1u << 30}));
  EXPECT_FALSE(fired({.first = 2, .every = 2, .shots = 0}));
  EXPECT_FALSE(fired({.first = 2, .every = 1, .shots = 2, .not_before_us = 1000}));
}

TEST(FaultRunRules, WhatNoRunShowsHasNoRule) {
  const auto rules = fault_run_rules(example().script);
  for (const auto& [group, name] : {std::pair{"run", "rounds"},
                                    {"fault 2", "fired"},
                                    {"fault 18446744073709551616", "fired"},
                                    {"fault ", "fired"},
                                    {"fault 0x0", "fired"},
                                    {"fault 0", "shot"},
                                    {"VF3", "rounds"},
                                    {"VF1", "colour"},
                                    {"", ""}}) {
    EXPECT_FALSE(rules(group, name).has_value()) << group << ": " << name;
  }
}

TEST(SoakBundle, HoldsTheOptionsAndIsReadStrictly) {
  svp::soak::SoakOptions options;
  options.length = std::chrono::milliseconds(1234);
  options.seed = 9;
  options.until_complaint = true;
  const Bundle good = svp::soak::bundle_of(options, {});
  EXPECT_EQ(good.kind, Kind::Soak);
  const auto again = svp::soak::soak_of(good);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->length, options.length);
  EXPECT_EQ(again->seed, 9u);
  EXPECT_TRUE(again->until_complaint);
  for (const json& changes :
       {json{{"length_ms", 0}}, json{{"length_ms", -5}}, json{{"length_ms", 1e300}}, json{{"length_ms", ~0ull}},
        json{{"length_ms", "5"}}, json{{"until_complaint", 1}}, json{{"checks", 1}}}) {
    EXPECT_FALSE(svp::soak::soak_of(with(good, changes)).has_value()) << changes;
  }
}

TEST(SoakBundle, OnlyWhatIsNotDecidedByThreadsIsExact) {
  EXPECT_TRUE(svp::soak::soak_rule("run", "verdict")->exact);
  EXPECT_FALSE(svp::soak::soak_rule("VF2", "blocks")->exact);
  EXPECT_FALSE(svp::soak::soak_rule("run", "colour").has_value());
}

TEST(CampaignBundle, NamesAScenarioThatExists) {
  const auto scenario_of = [](const char* script) {
    return svp::campaign::scenario_of({.kind = Kind::Campaign, .seed = 1, .script = script});
  };
  ASSERT_TRUE(scenario_of(R"({"scenario": "F14"})").has_value());
  EXPECT_EQ((*scenario_of(R"({"scenario": "F14"})"))->id, "F14");
  for (const char* script : {R"({"scenario": "F99"})", R"({"scenario": 14})", R"({"scenario": "F14", "mutate": true})",
                             "{}", R"({"scenario": ["F14"]})"}) {
    EXPECT_FALSE(scenario_of(script).has_value()) << script;
  }
}

TEST(CampaignBundle, ProofsAndEndsOfTheFaultAreExactAndRacesAreNot) {
  for (const char* proof : {"fired", "detected", "contained", "recovered", "clean"}) {
    EXPECT_TRUE(svp::campaign::campaign_rule("proofs", proof)->exact);
  }
  EXPECT_TRUE(svp::campaign::campaign_rule("fault 0", "has fired")->exact);
  EXPECT_TRUE(svp::campaign::campaign_rule("blocks", "TIMEOUT, watchdog expired")->exact);
  EXPECT_TRUE(svp::campaign::campaign_rule("blocks", "REJECTED, bad opcode")->exact);
  for (const char* end : {"OK, none", "INDETERMINATE, none", "never ended", "ABORTED, stopped by its owner",
                          "FAULT, stopped by its owner"}) {
    EXPECT_FALSE(svp::campaign::campaign_rule("blocks", end)->exact) << end;
  }
  EXPECT_FALSE(svp::campaign::campaign_rule("proofs", "colour").has_value());
}

}  // namespace
}  // namespace cli
