// SPDX-License-Identifier: Apache-2.0
// The commands of docs/ci.md, of its examples and of docs/campaign.md are understood by the programs.
#include <gtest/gtest.h>

#include <CLI/Error.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "host_driver/cli/command_line.hpp"
#include "tests/validation/command_line.hpp"

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SPYRE_SOURCE_DIR;

// Lines that begin with `spyre` and a command, in code. What follows two blanks is an explanation. A line of a shell
// script may begin with a test: `(($# == 0)) || spyre exec …`.
std::vector<std::string> commands_in(const fs::path& path) {
  static const std::regex kCommand(R"(^(?:[^`]*\|\| |\s*|\s*(?:- )?run: )(?:\S*/bin/)?spyre ([a-z].*)$)");
  std::vector<std::string> commands;
  std::ifstream in(kRoot / path);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kCommand)) commands.push_back(match[1].str());
  }
  return commands;
}

// Quotes go; places for the reader's own words ("COMMAND…", "$@") are words like any other.
std::vector<std::string> words_of(std::string command) {
  command = std::regex_replace(command, std::regex("  .*$"), "");
  command = std::regex_replace(command, std::regex("[\"'`]"), "");
  std::istringstream in(command);
  std::vector<std::string> words{"spyre"};
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// `spyre` itself leaves the words of the validation program alone.
void expect_understood(const std::string& command) {
  const std::vector<std::string> words = words_of(command);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  try {
    cli::CommandLine line;
    line.parse(static_cast<int>(argv.size()), argv.data());
    if (line.validation.empty()) return;
    validation::CommandLine behind;
    behind.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const CLI::ParseError& error) {
    ADD_FAILURE() << "spyre " << command << ": " << error.what();
  }
}

TEST(CiPage, CommandsAreUnderstood) {
  for (const auto& [path, least] :
       {std::pair{"docs/ci.md", 3u}, {".ci/examples/spyre-tests", 4u}, {"docs/campaign.md", 4u}}) {
    const auto commands = commands_in(path);
    EXPECT_GE(commands.size(), least) << path;
    for (const std::string& command : commands) {
      SCOPED_TRACE(path);
      expect_understood(command);
    }
  }
}

}  // namespace
