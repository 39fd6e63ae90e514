// SPDX-License-Identifier: Apache-2.0
// `spyre exec`: cards for the lifetime of one command, whatever that command does.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>

#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using test::Environment;
using test::Finished;
using test::Program;
using testing::HasSubstr;
using testing::IsEmpty;

class Exec : public test::Cli {
 protected:
  static std::vector<std::string> exec(std::vector<std::string> options, std::vector<std::string> command) {
    options.insert(options.begin(), "exec");
    options.push_back("--");
    options.insert(options.end(), command.begin(), command.end());
    return spyre(std::move(options));
  }
  Finished run_exec(std::vector<std::string> options, std::vector<std::string> command,
                    const Environment& changes = {}) const {
    return test::run(exec(std::move(options), std::move(command)), environment(changes));
  }
  // Several ranks at once, each a process; fails when one of them does.
  static std::vector<std::string> ranks(unsigned count) {
    std::string script;
    for (unsigned i = 0; i < count; ++i) {
      script += "LOCAL_RANK=" + std::to_string(i) + " " SPYRE_RANK " work & pid" + std::to_string(i) + "=$!\n";
    }
    for (unsigned i = 0; i < count; ++i) script += "wait $pid" + std::to_string(i) + " || exit 1\n";
    return {"sh", "-c", script};
  }
  // Whatever happened, its cards and their folder are gone.
  void TearDown() override { EXPECT_THAT(left_in_runtime_folder(), IsEmpty()); }
};

TEST_F(Exec, TheCommandHasAPhysicalFunction) {
  const auto ran = run_exec({}, {SPYRE_RANK, "work"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.output, "PF of card0, 1 devices: right\n");
}

TEST_F(Exec, VirtualFunctionsAreDevicesWhenTheyWereAskedFor) {
  const auto ran = run_exec({"--vfs", "2", "--cores", "1"}, {SPYRE_RANK, "work"}, {{"LOCAL_RANK", "1"}});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.output, "VF2 of card0, 2 devices: right\n");
}

TEST_F(Exec, TwoCardsServeTwoRanksAtOnce) {
  const auto ran = run_exec({"--cards", "2"}, ranks(2));
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("PF of card0, 2 devices: right\n"));
  EXPECT_THAT(ran.output, HasSubstr("PF of card1, 2 devices: right\n"));
}

// As many as one node of the paper has.
TEST_F(Exec, EightCardsServeEightRanksAtOnce) {
  const auto ran = run_exec({"--cards", "8", "--cores", "1"}, ranks(8));
  EXPECT_EQ(ran.code, 0) << ran.output;
  for (int card = 0; card < 8; ++card) {
    EXPECT_THAT(ran.output, HasSubstr("PF of card" + std::to_string(card) + ", 8 devices: right\n"));
  }
}

TEST_F(Exec, OneCardServesRanksOnItsVirtualFunctions) {
  const auto ran = run_exec({"--vfs", "3"}, ranks(3));
  EXPECT_EQ(ran.code, 0) << ran.output;
  for (const char* function : {"VF1", "VF2", "VF3"}) {
    EXPECT_THAT(ran.output, HasSubstr(std::string(function) + " of card0, 3 devices: right\n"));
  }
}

TEST_F(Exec, TheUsersFlexDeviceIsKept) {
  EXPECT_EQ(run_exec({}, {SPYRE_RANK, "count"}, {{"FLEX_DEVICE", "VF"}}).output, "4 devices\n");
  EXPECT_EQ(run_exec({"--vfs", "2"}, {SPYRE_RANK, "work"}, {{"FLEX_DEVICE", "PF"}}).output,
            "PF of card0, 1 devices: right\n");
  EXPECT_EQ(run_exec({}, {SPYRE_RANK, "work"}, {{"FLEX_DEVICE", "MOCK"}}).output,
            "PF of an embedded card, 1 devices: right\n");
  const auto malformed = run_exec({}, {SPYRE_RANK, "count"}, {{"FLEX_DEVICE", "GPU"}});
  EXPECT_EQ(malformed.code, 125) << "spyre's own failure";
  EXPECT_THAT(malformed.output, HasSubstr("PF, VF or MOCK"));
}

TEST_F(Exec, SpyreDevicesChoosesAmongItsDevices) {
  const auto ran = run_exec({"--vfs", "4"}, {SPYRE_RANK, "work"}, {{"SPYRE_DEVICES", "3,1"}, {"LOCAL_RANK", "1"}});
  EXPECT_EQ(ran.output, "VF2 of card0, 2 devices: right\n");
}

TEST_F(Exec, TheExitCodeIsTheCommands) {
  EXPECT_EQ(run_exec({}, {"sh", "-c", "exit 7"}).code, 7);
  EXPECT_EQ(run_exec({}, {"sh", "-c", "kill -KILL $$"}).code, 128 + SIGKILL);
  const auto missing = run_exec({}, {"no-such-command"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_THAT(missing.output, HasSubstr("no-such-command"));
  EXPECT_EQ(run_exec({}, {"/etc/passwd"}).code, 126) << "it is there, and no program";
}

TEST_F(Exec, WordsBehindTheDashesAreTheCommandsOwn) {
  const auto ran = run_exec({}, {"sh", "-c", R"(printf '%s|' "$@")", "sh", "--cards", "9", "--", "exec", "--help", ""});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.output, "--cards|9|--|exec|--help||");
}

TEST_F(Exec, ACardTakesNoMoreOfThisMachinesMemoryThanItsBudget) {
  const auto ran = run_exec({"--budget", "4M"}, {SPYRE_RANK, "work"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("populated-memory budget exhausted"));
  EXPECT_THAT(ran.output, HasSubstr("larger budget"));
  EXPECT_EQ(run_exec({"--budget", "256M"}, {SPYRE_RANK, "work"}).code, 0);
}

TEST_F(Exec, CardsOutsideAreNeitherSeenNorStopped) {
  Program outside(spyre({"boot", "--name", "outside"}), environment());
  ASSERT_THAT(outside.wait_for_line("ready"), HasSubstr("outside")) << outside.output();
  EXPECT_EQ(run_exec({}, {SPYRE_RANK, "work"}).output, "PF of card0, 1 devices: right\n");
  EXPECT_EQ(devices().at("devices")[0].at("card"), "outside");
  outside.send(SIGTERM);
  EXPECT_EQ(outside.wait_exit(), 0);
}

class ExecSignals : public Exec, public testing::WithParamInterface<int> {};

TEST_P(ExecSignals, ReachTheCommand) {
  Program program(exec({}, {SPYRE_RANK, "hold"}), environment());
  ASSERT_EQ(program.wait_for_line("holding"), "holding PF of card0") << program.output();
  program.send(GetParam());
  EXPECT_EQ(program.wait_exit(), 128 + GetParam()) << program.output();
}
INSTANTIATE_TEST_SUITE_P(Signals, ExecSignals, testing::Values(SIGTERM, SIGINT));

TEST_F(Exec, WithoutACommandItSaysHow) {
  for (const auto& words : {std::vector<std::string>{"exec"}, {"exec", "--"}, {"exec", "--cards", "2"}}) {
    const auto refused = run_spyre(words);
    EXPECT_EQ(refused.code, 125);
    EXPECT_THAT(refused.output, HasSubstr("behind --"));
    EXPECT_EQ(std::ranges::count(refused.output, '\n'), 1) << "one line: " << refused.output;
  }
}

}  // namespace
}  // namespace svp
