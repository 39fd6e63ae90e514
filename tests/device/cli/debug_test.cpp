// SPDX-License-Identifier: Apache-2.0
// spyre debug as people run it: on a card that runs, one whose firmware broke, one that hangs, and on a core file.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "tests/bounds.hpp"
#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using test::Finished;
using test::Program;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;

class Debug : public test::Cli {
 protected:
  Debug() : card_(spyre({"boot", "--name", "card0", "--cores", "2"}), environment()) {
    EXPECT_THAT(card_.wait_for_line("ready"), HasSubstr("card0")) << card_.output();
  }
  ~Debug() override {
    EXPECT_EQ(run_spyre({"stop", "card0"}).code, 0);
    EXPECT_EQ(card_.wait_exit(), 0) << card_.output();
    EXPECT_THAT(left_in_runtime_folder(), IsEmpty());
  }
  Debug(const Debug&) = delete;
  Debug& operator=(const Debug&) = delete;

  std::string file(const std::string& name) const { return (runtime().parent_path() / name).string(); }
  // What the firmware has written since the card was booted.
  std::string console() const {
    std::ifstream stream(runtime() / "card0" / "console.log");
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  // Hart 0 goes on at the place; a debugger session of a person would look the same.
  void send_hart_zero(const std::string& place) {
    Program session(spyre({"debug", "card0", "--firmware", SPYRE_DEFAULT_FIRMWARE}), environment());
    session.write("set confirm off\nthread 1\nset $pc = " + place + "\ndetach\nquit\n");
    EXPECT_EQ(session.wait_exit(), 0) << session.output();
  }
  bool wait_for_console(const std::regex& text) const {
    const auto end = std::chrono::steady_clock::now() + test::kProgramBound;
    while (std::chrono::steady_clock::now() < end) {
      const std::string written = console();
      if (std::regex_search(written, text)) return true;
      std::this_thread::sleep_for(test_bounds::kRareLook);  // bounded: a pause of the loop above
    }
    return false;
  }
  Finished collect(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"debug", "--collect", "card0", "-o", file("core")};
    words.insert(words.end(), more.begin(), more.end());
    return run_spyre(words);
  }

 private:
  Program card_;
};

TEST_F(Debug, ALiveCardIsShownAndGoesOn) {
  const auto shown = run_spyre({"debug", "card0", "--batch"});
  EXPECT_EQ(shown.code, 0) << shown.output;
  EXPECT_THAT(shown.output, ContainsRegex("Thread 1.2|Thread 2"));
  EXPECT_THAT(shown.output, HasSubstr("boot_main"));
  EXPECT_THAT(shown.output, HasSubstr("core_main"));
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "PF"}}).output, "PF of card0, 1 devices: right\n");
  // Nobody may attach any more, and again when asked.
  EXPECT_FALSE(std::filesystem::exists(runtime() / "card0" / "gdb"));
  EXPECT_EQ(run_spyre({"debug", "card0", "--batch"}).code, 0);
}

TEST_F(Debug, AnOwnerWaitsForAsLongAsADebuggerHoldsTheCard) {
  Program session(spyre({"debug", "card0", "--firmware", SPYRE_DEFAULT_FIRMWARE}), environment());
  EXPECT_THAT(session.wait_for_line("Remote debugging"), HasSubstr("gdb")) << session.output();
  Program rank({SPYRE_RANK, "work"}, environment({{"FLEX_DEVICE", "PF"}}));
  EXPECT_EQ(rank.wait_exit(std::chrono::ceil<std::chrono::seconds>(test_bounds::kHeldBoot)), std::nullopt)
      << rank.output();
  session.write("set confirm off\ndetach\nquit\n");
  EXPECT_EQ(session.wait_exit(), 0) << session.output();
  EXPECT_EQ(rank.wait_exit(), 0) << rank.output();
}

TEST_F(Debug, ABrokenFirmwareIsCollectedAndExplained) {
  send_hart_zero("8");
  ASSERT_TRUE(wait_for_console(std::regex("PANIC[^]*post 0x80"))) << console();
  const auto collected = collect();
  ASSERT_EQ(collected.code, 0) << collected.output;
  EXPECT_THAT(collected.output, HasSubstr("of the boot that broke, trap"));

  const auto opened = run_spyre({"debug", "--core", file("core"), "--batch"});
  EXPECT_EQ(opened.code, 0) << opened.output;
  EXPECT_THAT(opened.output, HasSubstr("firmware ended by trap"));
  EXPECT_THAT(opened.output, HasSubstr("instruction access fault"));
  EXPECT_THAT(opened.output, HasSubstr("core_main")) << "the back trace of the other hart";

  const auto json = run_spyre({"debug", "--core", file("core"), "--json"});
  EXPECT_EQ(json.code, 0) << json.output;
  const auto record = nlohmann::json::parse(json.output, nullptr, false);
  EXPECT_EQ(record.at("kind"), "trap");
  EXPECT_EQ(record.at("harts").at(0).at("pc"), "0x8");
  EXPECT_EQ(record.at("same_build"), true);

  const auto now = collect({"--now"});
  EXPECT_EQ(now.code, 0) << now.output;
  EXPECT_THAT(now.output, HasSubstr("what its harts do now"));
}

TEST_F(Debug, ACardThatRunsIsCollectedAsItIs) {
  const auto collected = collect();
  ASSERT_EQ(collected.code, 0) << collected.output;
  EXPECT_THAT(collected.output, HasSubstr("what its harts do now"));
  const auto opened = run_spyre({"debug", "--core", file("core"), "--batch"});
  EXPECT_EQ(opened.code, 0) << opened.output;
  EXPECT_THAT(opened.output, HasSubstr("core without a fatal record"));
  EXPECT_THAT(opened.output, HasSubstr("boot_main"));
  EXPECT_EQ(run_rank("work", {{"FLEX_DEVICE", "PF"}}).output, "PF of card0, 1 devices: right\n");
}

TEST_F(Debug, WhatIsNotThereIsRefusedWithTheNextStep) {
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"debug", "card9"},
                                             {"debug", "--collect", "card9", "-o", file("core")},
                                             {"debug", "--collect", "card0", "-o", "/no/such/folder/core"}}) {
    const auto refused = run_spyre(words);
    EXPECT_EQ(refused.code, 2) << refused.output;
    EXPECT_THAT(refused.output, HasSubstr("next"));
    EXPECT_EQ(std::ranges::count(refused.output, '\n'), 1) << refused.output;
  }
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"debug", "--core", "/no/such/core", "--json"},
           {"debug", "--core", file("core"), "--json", "--firmware", "/no/such/firmware"}}) {
    const auto refused = run_spyre(words);
    EXPECT_EQ(refused.code, 2) << refused.output;
    const auto json = nlohmann::json::parse(refused.output, nullptr, false);
    ASSERT_TRUE(json.is_object()) << refused.output;
    EXPECT_FALSE(json["error"]["next_step"].get<std::string>().empty());
  }
}

}  // namespace
}  // namespace svp
