// SPDX-License-Identifier: Apache-2.0
// What happens when what a command prints cannot be written, for every command; files larger than a limit; output files
// that are none.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using test::Finished;
using test::Program;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class Output : public test::Cli {
 protected:
  // With the program's words behind a piece of shell that says where they go: "exec \"$@\" > /dev/full".
  Finished run_shell(const std::string& shell, const Words& words) const {
    Words all = {"sh", "-c", shell, "sh"};
    const Words program = spyre(words);
    all.insert(all.end(), program.begin(), program.end());
    return test::run(all, environment());
  }
  // Commands below these words, as completion knows them.
  Words names_below(const Words& above) const {
    Words words = {"__complete", "--"};
    words.insert(words.end(), above.begin(), above.end());
    words.emplace_back();
    std::istringstream lines(run_spyre(words).output);
    Words names;
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.front() != '-') names.push_back(line);
    }
    return names;
  }
  std::filesystem::path folder() const { return runtime().parent_path(); }
};

// Words of a run of each command that prints something. `run` and its operations are one command here.
std::vector<Words> printing_commands() {
  return {{"version"},
          {"version", "--json"},
          {"--version"},
          {"--help"},
          {"help", "run", "add"},
          {"ops"},
          {"ops", "--json"},
          {"convert", "--to", "dl16", "--", "1"},
          {"layout", "--size", "64,64", "--dma"},
          {"devices"},
          {"devices", "--json"},
          {"inspect", "card0"},
          {"stats", "card0"},
          {"logs", "card0"},
          {"smi", "--csv"},
          {"smi", "--loop", "1"},
          {"fault", "list"},
          {"fault", "run", "--help"},
          {"fault", "campaign", "--help"},
          {"soak", "--help"},
          {"replay", "--help"},
          {"exec", "--help"},
          {"trace", "--help"},
          {"debug", "card0", "--batch"},
          {"spyrecode", "make", "add", "--shapes", "M=64,N=64", "-o", "plan"},
          {"spyrecode", "show", "plan"},
          {"sdsc", "explain", "--help"},
          {"sdsc", "check", "--help"},
          {"sdsc", "run", "--help"},
          {"env"},
          {"reset", "card0", "--function", "PF"},
          {"run", "add", "--shape", "4x64", "--repeat", "1", "--verify", "--json"},
          {"run", "add", "--shape", "4x64", "--repeat", "1"},
          {"boot", "--memory", "4G"},
          {"stop", "card0"}};
}

TEST_F(Output, TheTableHasEveryCommand) {
  std::set<std::string> known;
  for (const Words& words : printing_commands()) known.insert(words.front());
  for (const std::string& name : names_below({})) EXPECT_TRUE(known.contains(name) || name == "help") << name;
  for (const char* parent : {"fault", "sdsc", "spyrecode"}) {
    for (const std::string& name : names_below({parent})) {
      const bool has = std::ranges::any_of(printing_commands(), [&](const Words& words) {
        return words.size() > 1 && words[0] == parent && words[1] == name;
      });
      EXPECT_TRUE(has) << parent << " " << name;
    }
  }
}

TEST_F(Output, WhatCannotBePrintedIsToldByEveryCommand) {
  Program card(spyre({"boot", "--name", "card0", "--vfs", "1", "--memory", "4G"}), environment());
  ASSERT_THAT(card.wait_for_line("ready"), HasSubstr("card0"));
  const std::string in_folder = "cd '" + folder().string() + "' && ";
  for (const Words& words : printing_commands()) {
    const std::string shown = testing::PrintToString(words);
    if (words.front() != "stop") {  // the card is needed for both
      const Finished closed = run_shell(in_folder + "exec \"$@\" >&-", words);
      EXPECT_NE(closed.code.value_or(0), 0) << shown << closed.output;
      EXPECT_THAT(closed.output, HasSubstr("what was printed is not complete")) << shown;
    }
    const Finished full = run_shell(in_folder + "exec \"$@\" >/dev/full", words);
    EXPECT_NE(full.code.value_or(0), 0) << shown << full.output;
    EXPECT_THAT(full.output, HasSubstr("what was printed is not complete: No space left on device")) << shown;
  }
  EXPECT_EQ(card.wait_exit(), 0) << "its reader may leave";
}

TEST_F(Output, ACardsLinesNeedNoReader) {
  Program card({"sh", "-c", "exec \"$@\" >/dev/full", "sh", SPYRE_PROGRAM, "boot", "--name", "card0", "--memory", "4G"},
               environment());
  const Finished booted = run_shell("until \"$1\" inspect card0 >/dev/null 2>&1; do :; done", {});
  ASSERT_EQ(booted.code, 0) << card.output();
  EXPECT_EQ(run_spyre({"stop", "card0"}).code, 0);
  EXPECT_EQ(card.wait_exit(), 0) << card.output();
}

// The smallest limit with which a program of the library gets as far as the window, and none at all.
TEST_F(Output, ALimitOnFilesIsAnErrorThatNamesIt) {
  for (const char* blocks : {"0", "1000"}) {
    const Finished ran =
        run_shell(std::string("ulimit -f ") + blocks + " && exec \"$@\"", {"run", "add", "--shape", "4x64"});
    EXPECT_EQ(ran.code, 2) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("RLIMIT_FSIZE")) << blocks;
    EXPECT_THAT(ran.output, HasSubstr("ulimit -f")) << blocks;
    const Finished program = test::run(
        {"sh", "-c", std::string("ulimit -f ") + blocks + " && exec \"$@\"", "sh", SPYRE_RANK, "work"}, environment());
    EXPECT_LT(program.code.value_or(128), 128) << "a signal ended a program of the library";
    EXPECT_THAT(program.output, HasSubstr("RLIMIT_FSIZE")) << blocks;
  }
}

// `exec` starts its command with the signals that it was started with itself.
TEST_F(Output, TheCommandOfExecDiesOfAFileTooLargeAsEver) {
  const std::string file = (folder() / "large").string();
  const Finished ran = run_spyre({"exec", "--vfs", "0", "--", "sh", "-c",
                                  "ulimit -f 1 && exec dd if=/dev/zero of='" + file + "' bs=4096 count=4 2>/dev/null"});
  EXPECT_EQ(ran.code, 128 + SIGXFSZ) << ran.output;
}

TEST_F(Output, AnOutputFileThatIsNoFileStaysWhatItIs) {
  const auto path = [&](const char* name) { return (folder() / name).string(); };
  std::ofstream(path("target")) << "old";
  std::filesystem::create_symlink("target", path("link"));
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const Finished link = run_spyre({"trace", "-o", path("link"), "--", SPYRE_RANK, "work"});
  EXPECT_EQ(link.code, 0) << link.output;
  EXPECT_TRUE(std::filesystem::is_symlink(std::filesystem::symlink_status(path("link"))));
  EXPECT_GT(std::filesystem::file_size(path("target")), 100U);
  Program reader({"cat", path("fifo")}, environment());
  const Finished fifo = run_spyre({"trace", "-o", path("fifo"), "--", SPYRE_RANK, "work"});
  EXPECT_EQ(fifo.code, 0) << fifo.output;
  EXPECT_EQ(reader.wait_exit(), 0);
  EXPECT_THAT(reader.output(), HasSubstr("traceEvents"));
  EXPECT_TRUE(std::filesystem::is_fifo(std::filesystem::symlink_status(path("fifo"))));
  const Finished out = run_spyre({"trace", "-o", "/dev/stdout", "--", SPYRE_RANK, "work"});
  EXPECT_EQ(out.code, 0) << out.output;
  EXPECT_THAT(out.output, HasSubstr("traceEvents"));
}

TEST_F(Output, HelpForWhatThereIsNotIsRefused) {
  const Finished unknown = run_spyre({"help", "nonsense"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("there is no command 'nonsense'"));
  EXPECT_EQ(run_spyre({"help", "stop"}).code, 0);
  EXPECT_EQ(run_spyre({"help"}).code, 0);
  EXPECT_EQ(run_spyre({"stop", "--help"}).code, 0);
}

TEST_F(Output, ANameThatNoCommandCouldTakeIsRefused) {
  const Finished boot = run_spyre({"boot", "--name", "-x", "--detach"});
  EXPECT_EQ(boot.code, 2);
  EXPECT_THAT(boot.output, HasSubstr("the first of which is not -"));
}

TEST_F(Output, AFolderIsNoScriptAndADeviceIsNoBundle) {
  EXPECT_THAT(run_spyre({"fault", "run", folder().string()}).output, HasSubstr("no regular file"));
  EXPECT_THAT(run_spyre({"replay", "/dev/null"}).output, HasSubstr("no regular file"));
}

}  // namespace
}  // namespace svp
