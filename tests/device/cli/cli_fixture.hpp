// SPDX-License-Identifier: Apache-2.0
// The `spyre` command as people run it, in a runtime folder of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/device/cli/program.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp::test {

class Cli : public testing::Test {
 protected:
  Cli() {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
    runtime_ = folder_.path() / "cards";
  }

  // Where the test's cards are, and none of the variables that choose among them.
  Environment environment(const Environment& changes = {}) const {
    Environment all = {{"SPYRE_RUNTIME_DIR", runtime_.string()},
                       {"FLEX_DEVICE", std::nullopt},
                       {"SPYRE_DEVICES", std::nullopt},
                       {"AIU_WORLD_SIZE", std::nullopt},
                       {"LOCAL_RANK", std::nullopt}};
    for (const auto& [name, value] : changes) all[name] = value;
    return all;
  }
  static std::vector<std::string> spyre(std::vector<std::string> words) {
    words.insert(words.begin(), SPYRE_PROGRAM);
    return words;
  }
  Finished run_spyre(std::vector<std::string> words, const Environment& changes = {},
                     std::chrono::seconds bound = kProgramBound) const {
    return test::run(spyre(std::move(words)), environment(changes), bound);
  }
  Finished run_rank(const char* command, const Environment& changes = {}) const {
    return test::run({SPYRE_RANK, command}, environment(changes));
  }
  // `spyre devices --json` with these variables.
  nlohmann::json devices(const Environment& changes = {}) const {
    const auto listed = run_spyre({"devices", "--json"}, changes);
    EXPECT_EQ(listed.code, 0) << listed.output;
    return nlohmann::json::parse(listed.output, nullptr, false);
  }
  // Cards, private folders, anything.
  std::vector<std::string> left_in_runtime_folder() const {
    std::vector<std::string> names;
    std::error_code none_yet;
    for (const auto& entry : std::filesystem::directory_iterator(runtime_, none_yet)) names.push_back(entry.path());
    return names;
  }
  const std::filesystem::path& runtime() const { return runtime_; }

 private:
  qemu::test::TemporaryFolder folder_;
  std::filesystem::path runtime_;
};

}  // namespace svp::test
