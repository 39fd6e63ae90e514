// SPDX-License-Identifier: Apache-2.0
// Cards that stay: boot --name, devices, stop, reset, and programs that attach by their environment.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "shared/array.hpp"
#include "shared/units.hpp"
#include "tests/bounds.hpp"
#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using test::Program;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class LongLivedCard : public test::Cli {
 protected:
  // Returns when the card is ready for owners; ended at the latest with the test.
  Program& boot(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"boot", "--name", name};
    words.insert(words.end(), more.begin(), more.end());
    cards_.push_back(std::make_unique<Program>(spyre(std::move(words)), environment()));
    EXPECT_THAT(cards_.back()->wait_for_line("ready"), HasSubstr(name)) << cards_.back()->output();
    return *cards_.back();
  }
  pid_t emulator_of(const std::string& name) const {
    std::ifstream file(runtime() / name / "card.json");
    return nlohmann::json::parse(file).at("emulator").get<pid_t>();
  }

  // Of card0's PF, as the card counts them.
  std::uint64_t launches() const {
    const auto stats = run_spyre({"stats", "card0", "--function", "PF", "--json"});
    const auto json = nlohmann::json::parse(stats.output, nullptr, false);
    if (!json.is_object() || !json.contains("functions")) return 0;
    return json["functions"][0].value("launches", std::uint64_t{0});
  }

 private:
  std::vector<std::unique_ptr<Program>> cards_;
};

TEST_F(LongLivedCard, DevicesFollowTheCardsThatRun) {
  EXPECT_EQ(devices(), nlohmann::json::parse(R"({"schema_version": 1, "count": 0, "devices": []})"));
  EXPECT_EQ(run_rank("count").output, "0 devices\n") << "no card is no error";
  Program& card = boot("card0", {"--vfs", "3", "--cores", "1", "--memory", "50G"});
  const auto listed = devices();
  EXPECT_EQ(listed.at("count"), 1);
  EXPECT_EQ(listed.at("devices")[0].at("card"), "card0");
  EXPECT_EQ(listed.at("devices")[0].at("function"), "PF");
  EXPECT_EQ(listed.at("devices")[0].at("cores"), 1);
  EXPECT_EQ(listed.at("devices")[0].at("memory_bytes"), 50 * wire::kGiB);
  EXPECT_EQ(devices({{"FLEX_DEVICE", "VF"}}).at("count"), 3);
  EXPECT_EQ(devices({{"FLEX_DEVICE", "VF"}, {"AIU_WORLD_SIZE", "2"}}).at("count"), 2);
  const auto chosen = devices({{"FLEX_DEVICE", "VF"}, {"SPYRE_DEVICES", "2, 0, 9"}});
  EXPECT_EQ(chosen.at("count"), 2);
  EXPECT_EQ(chosen.at("devices")[0].at("function"), "VF3");
  EXPECT_EQ(chosen.at("devices")[1].at("function"), "VF1");
  EXPECT_EQ(devices({{"FLEX_DEVICE", "MOCK"}, {"AIU_WORLD_SIZE", "5"}}).at("count"), 5);

  EXPECT_EQ(run_spyre({"stop", "card0"}).code, 0);
  EXPECT_EQ(card.wait_exit(), 0) << card.output();
  EXPECT_EQ(devices().at("count"), 0);
  EXPECT_THAT(left_in_runtime_folder(), IsEmpty());
}

TEST_F(LongLivedCard, AMalformedVariableIsNamed) {
  const auto listed = run_spyre({"devices"}, {{"SPYRE_DEVICES", "0,first"}});
  EXPECT_EQ(listed.code, 2);
  EXPECT_THAT(listed.output, HasSubstr("SPYRE_DEVICES"));
  EXPECT_THAT(listed.output, HasSubstr("'first'"));
  EXPECT_THAT(listed.output, HasSubstr("0,2,3"));
  EXPECT_EQ(std::ranges::count(listed.output, '\n'), 1) << "one line: " << listed.output;
}

TEST_F(LongLivedCard, ProgramsAttachByTheirEnvironmentOneAfterTheOther) {
  boot("card0");
  boot("card1", {"--vfs", "1"});
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "PF"}}).output, "PF of card0, 2 devices: right\n");
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "PF"}, {"LOCAL_RANK", "1"}}).output, "PF of card1, 2 devices: right\n");
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "VF"}, {"LOCAL_RANK", "4"}}).output, "VF1 of card1, 5 devices: right\n");
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "VF"}, {"SPYRE_DEVICES", "3"}}).output,
            "VF4 of card0, 1 devices: right\n");
  // The same function again: its next owner gets a fresh slot.
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "PF"}}).output, "PF of card0, 2 devices: right\n");
  EXPECT_EQ(run_rank("work").output, "PF of an embedded card, 2 devices: right\n") << "FLEX_DEVICE is not set";
  const auto beyond = run_rank("work", {{"FLEX_DEVICE", "PF"}, {"LOCAL_RANK", "2"}});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.output, HasSubstr("index 2 is out of range: 2 devices"));
}

TEST_F(LongLivedCard, RunMatmulTakesTheDeviceOfTheEnvironment) {
  boot("card0");
  const auto ran =
      run_spyre({"run", "matmul", "--m", "64", "--n", "64", "--k", "64", "--json"}, {{"FLEX_DEVICE", "VF"}});
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto report = nlohmann::json::parse(ran.output);
  EXPECT_EQ(report.at("device"), "VF1 of card0");
  EXPECT_EQ(report.at("mismatches"), 0);
  const auto own = run_spyre({"run", "matmul", "--m", "64", "--n", "64", "--k", "64", "--vf", "1", "--json"},
                             {{"FLEX_DEVICE", "PF"}});
  ASSERT_EQ(own.code, 0) << own.output;
  EXPECT_EQ(nlohmann::json::parse(own.output).at("device"), "VF1 of an embedded card") << "options win";
}

TEST_F(LongLivedCard, ASecondOwnerIsToldThePidOfTheFirst) {
  Program& card = boot("card0");
  const test::Environment pf = {{"FLEX_DEVICE", "PF"}};
  Program first({SPYRE_RANK, "hold"}, environment(pf));
  ASSERT_EQ(first.wait_for_line("holding"), "holding PF of card0") << first.output();
  const auto second = run_rank("work", pf);
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.output, HasSubstr("owned by pid " + std::to_string(first.pid())));
  EXPECT_EQ(devices(pf).at("devices")[0].at("owner"), first.pid());
  EXPECT_THAT(card.wait_for_line(std::to_string(first.pid())), HasSubstr("PF")) << "one line per change of an owner";
  first.close_stdin();
  EXPECT_EQ(first.wait_exit(), 0) << first.output();
  EXPECT_EQ(run_rank("work", pf).code, 0);
}

TEST_F(LongLivedCard, AStoppedCardTellsItsOwners) {
  Program& card = boot("card0");
  Program owner({SPYRE_RANK, "hold"}, environment({{"FLEX_DEVICE", "VF"}}));
  ASSERT_EQ(owner.wait_for_line("holding"), "holding VF1 of card0") << owner.output();
  EXPECT_EQ(run_spyre({"stop", "--all"}).code, 0);
  EXPECT_EQ(card.wait_exit(), 0) << card.output();
  owner.close_stdin();
  EXPECT_EQ(owner.wait_exit(), 2) << "typed, not a hang: " << owner.output();
}

class LongLivedCardSignals : public LongLivedCard, public testing::WithParamInterface<int> {};

TEST_P(LongLivedCardSignals, EndItCleanly) {
  Program& card = boot("card0");
  const pid_t emulator = emulator_of("card0");
  ASSERT_TRUE(qemu::test::is_alive(emulator));
  card.send(GetParam());
  EXPECT_EQ(card.wait_exit(), 0) << card.output();
  EXPECT_TRUE(qemu::test::wait_for_end(emulator, test_bounds::kConnection));
  EXPECT_THAT(left_in_runtime_folder(), IsEmpty());
}
INSTANTIATE_TEST_SUITE_P(Signals, LongLivedCardSignals, testing::Values(SIGTERM, SIGINT, SIGHUP));

TEST_F(LongLivedCard, AKilledBrokerLeavesNoCard) {
  Program& card = boot("card0");
  const pid_t emulator = emulator_of("card0");
  card.send(SIGKILL);
  EXPECT_EQ(card.wait_exit(), 128 + SIGKILL);
  EXPECT_TRUE(qemu::test::wait_for_end(emulator, test_bounds::kConnection));
  EXPECT_EQ(devices().at("count"), 0);
  boot("card0");
  EXPECT_EQ(devices().at("count"), 1) << "its name is free again";
}

TEST_F(LongLivedCard, ANameInUseIsRefusedWithThePidThatHoldsIt) {
  Program& card = boot("card0");
  const auto second = run_spyre({"boot", "--name", "card0"});
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.output, HasSubstr(std::to_string(card.pid())));
  EXPECT_EQ(run_spyre({"boot", "--name", "no/slashes"}).code, 2);
}

TEST_F(LongLivedCard, ResetsFreeAFunctionOrTheWholeCard) {
  boot("card0", {"--spares", "2"});
  EXPECT_EQ(run_spyre({"reset", "card0", "--function", "VF1"}).code, 0);
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "VF"}}).output, "VF1 of card0, 4 devices: right\n");
  const auto unknown = run_spyre({"reset", "card0", "--function", "VF9"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("VF9"));
  EXPECT_EQ(run_spyre({"reset", "card0", "--function", "VF"}).code, 2);
  const pid_t emulator = emulator_of("card0");
  EXPECT_EQ(run_spyre({"reset", "card0", "--power-cycle"}).code, 0);
  EXPECT_TRUE(qemu::test::wait_for_end(emulator, test_bounds::kConnection));
  EXPECT_NE(emulator_of("card0"), emulator);
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "PF"}}).output, "PF of card0, 1 devices: right\n");
}

TEST_F(LongLivedCard, CommandsToACardThatIsNotThereSayWhatToDo) {
  for (const auto& words : {std::vector<std::string>{"stop", "card7"}, {"reset", "card7", "--power-cycle"}}) {
    const auto refused = run_spyre(words);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.output, HasSubstr("card7"));
    EXPECT_THAT(refused.output, HasSubstr("next: "));
  }
  EXPECT_EQ(run_spyre({"stop", "--all"}).code, 0) << "nothing to stop is nothing wrong";
}

TEST_F(LongLivedCard, InTheBackgroundItIsReadyWhenTheCommandReturns) {
  const auto booted = run_spyre({"boot", "--name", "card0", "--vfs", "1", "--array", "auto", "--detach"});
  EXPECT_EQ(booted.code, 0) << booted.output;
  EXPECT_THAT(booted.output, HasSubstr("card0: ready: PF, VF1"));
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "PF"}}).code, 0);

  const auto json = nlohmann::json::parse(run_spyre({"inspect", "card0", "--json"}).output, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["name"], "card0");
  EXPECT_EQ(json["functions"].size(), 2u);
  EXPECT_EQ(json["array"], wire::array::kVersion);
  EXPECT_THAT(run_spyre({"inspect", "card0"}).output, AllOf(HasSubstr("VF1"), HasSubstr("array          version ")));

  Program follower(spyre({"logs", "card0", "--follow"}), environment());
  EXPECT_THAT(follower.wait_for_line("ready:"), HasSubstr("PF, VF1"));
  EXPECT_THAT(run_spyre({"logs", "card0", "--console"}).output, HasSubstr("post 0x80"));
  EXPECT_EQ(std::ranges::count(run_spyre({"logs", "card0", "-n", "2"}).output, '\n'), 2);
  EXPECT_EQ(run_spyre({"reset", "card0", "--function", "VF1"}).code, 0);
  EXPECT_THAT(follower.wait_for_line("reset"), HasSubstr("VF1: reset"));

  EXPECT_EQ(run_spyre({"stop", "card0"}).code, 0);
  EXPECT_EQ(follower.wait_exit(), 0) << "it ends with the card";
  EXPECT_THAT(left_in_runtime_folder(), IsEmpty());
}

TEST_F(LongLivedCard, SmiAndStatsShowWhatTheCardHasCounted) {
  EXPECT_THAT(run_spyre({"smi"}).output, HasSubstr("no card"));
  boot("card0", {"--vfs", "1", "--quota", "1G"});
  Program owner({SPYRE_RANK, "hold"}, environment({{"FLEX_DEVICE", "PF"}}));
  ASSERT_FALSE(owner.wait_for_line("holding").empty()) << owner.output();

  const auto json = nlohmann::json::parse(run_spyre({"smi", "--json"}).output, nullptr, false);
  ASSERT_TRUE(json.is_object());
  const auto& pf = json["cards"][0]["functions"][0];
  EXPECT_EQ(json["cards"][0]["array"], wire::array::kVersion);
  EXPECT_THAT(run_spyre({"smi"}).output, HasSubstr(fmt::format("v{}  PF", wire::array::kVersion)));
  EXPECT_EQ(pf["function"], "PF");
  EXPECT_EQ(pf["owner"], owner.pid());
  EXPECT_GE(pf["utilisation"], 0.0);
  EXPECT_GT(pf["granted_bytes"], 0u) << "the Program region";
  EXPECT_EQ(json["cards"][0]["functions"][1]["quota_bytes"], wire::kGiB);

  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "VF"}}).code, 0);
  const auto counted =
      nlohmann::json::parse(run_spyre({"stats", "card0", "--function", "VF1", "--json"}).output, nullptr, false);
  ASSERT_TRUE(counted.is_object());
  ASSERT_EQ(counted["functions"].size(), 1u);
  EXPECT_GT(counted["functions"][0]["resets"], 0u) << "its owner has gone";
  EXPECT_EQ(run_spyre({"stats", "card0", "--function", "VF2"}).code, 2);
  const auto csv = run_spyre({"smi", "--csv"}).output;
  EXPECT_THAT(csv, HasSubstr("card,state,function,use,owner,utilisation,time_ticks"));
  EXPECT_EQ(std::ranges::count(csv, '\n'), 3) << csv;

  EXPECT_FALSE(pf.contains("no_answer"));

  Program loop(spyre({"smi", "--loop", "0.1"}), environment());
  EXPECT_FALSE(loop.wait_for_line("VF1").empty());
  EXPECT_FALSE(loop.wait_for_line("VF1").empty()) << "again";
  loop.send(SIGINT);
  EXPECT_EQ(loop.wait_exit(), 0);
}

TEST_F(LongLivedCard, ACardWithoutArraySaysSoEverywhere) {
  boot("card0", {"--array", "off"});
  EXPECT_THAT(run_spyre({"inspect", "card0"}).output, HasSubstr("array          none"));
  const auto json = nlohmann::json::parse(run_spyre({"smi", "--json"}).output, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["cards"][0]["array"], 0);
  EXPECT_THAT(run_spyre({"smi"}).output, HasSubstr("-  PF"));
  const auto installed = nlohmann::json::parse(run_spyre({"version", "--json"}).output, nullptr, false);
  ASSERT_TRUE(installed.is_object());
  EXPECT_EQ(installed["array_contract_version"], wire::array::kVersion) << "other cards would have it";
}

TEST_F(LongLivedCard, SmiSaysWhyARowHasNoFigures) {
  boot("card0", {"--vfs", "1"});
  ASSERT_EQ(::kill(emulator_of("card0"), SIGKILL), 0);
  const auto is_dead = [&] {
    const auto json = nlohmann::json::parse(run_spyre({"smi", "--json"}).output, nullptr, false);
    return json["cards"][0]["state"] == "dead";
  };
  const auto end = std::chrono::steady_clock::now() + test::kProgramBound;
  while (!is_dead()) ASSERT_LT(std::chrono::steady_clock::now(), end);
  const auto json = nlohmann::json::parse(run_spyre({"smi", "--json"}).output, nullptr, false);
  const auto& functions = json["cards"][0]["functions"];
  ASSERT_EQ(functions.size(), 2u);
  for (const auto& function : functions) {
    EXPECT_THAT(function["no_answer"].get<std::string>(), HasSubstr("the card is dead: signal 9"));
    EXPECT_FALSE(function.contains("launches"));
  }
  EXPECT_THAT(run_spyre({"smi"}).output, HasSubstr("- card0 PF, VF1: no figures: the card is dead: signal 9"));
  const auto csv = run_spyre({"smi", "--csv"}).output;
  EXPECT_THAT(csv, HasSubstr(",no_answer\n"));
  EXPECT_THAT(csv, HasSubstr(",\"the card is dead: signal 9"));
}

// The run is interrupted while the card computes: its launches are counted.
TEST_F(LongLivedCard, AnInterruptOfARunPrintsWhatItHasSoFar) {
  boot("card0");
  for (const bool json : {false, true}) {
    std::vector<std::string> words = {"run", "matmul", "--m", "32768", "--n", "1024", "--k", "1024"};
    if (json) words.emplace_back("--json");
    const std::uint64_t before = launches();
    Program program(spyre(words), environment({{"FLEX_DEVICE", "PF"}}));
    const auto end = std::chrono::steady_clock::now() + test::kProgramBound;
    while (launches() == before) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "the run has launched nothing";
    }
    program.send(SIGINT);
    EXPECT_EQ(program.wait_exit(), 130) << program.output();
    if (!json) {
      EXPECT_THAT(program.output(), HasSubstr("INTERRUPTED: "));
      EXPECT_THAT(program.output(), HasSubstr(" of 64 blocks had ended well; nothing was compared"));
      continue;
    }
    const auto report = nlohmann::json::parse(program.output(), nullptr, false);
    ASSERT_TRUE(report.is_object()) << program.output();
    EXPECT_EQ(report["interrupted"], true);
    EXPECT_EQ(report["passed"], false);
    EXPECT_EQ(report["blocks"].size(), 64u) << "each block of 32 tiles has an outcome";
    const auto ok = std::ranges::count_if(report["blocks"], [](const auto& block) { return block["outcome"] == "OK"; });
    EXPECT_LT(ok, 64);
  }
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "PF"}}).code, 0) << "the card works for the next owner";
}

TEST_F(LongLivedCard, ABootInTheBackgroundThatFailsSaysWhyAndFails) {
  boot("card0");
  const auto second = run_spyre({"boot", "--name", "card0", "--detach"});
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.output, HasSubstr("card0"));
  EXPECT_THAT(second.output, HasSubstr("next:"));
}

TEST_F(LongLivedCard, UnderJsonAnErrorIsJsonToo) {
  const auto refused = run_spyre({"inspect", "nothing", "--json"});
  EXPECT_EQ(refused.code, 2);
  const auto json = nlohmann::json::parse(refused.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << refused.output;
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["error"]["source"], "nothing");
  EXPECT_FALSE(json["error"]["next_step"].get<std::string>().empty());
}

}  // namespace
}  // namespace svp
