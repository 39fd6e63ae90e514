// SPDX-License-Identifier: Apache-2.0
// docs/isolation.md promises tests: each of its names is one that the sources have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// "Suite.Name" of every test in the tree.
std::set<std::string> tests_in_sources() {
  static const std::regex kTest(R"(\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\))");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SPYRE_SOURCE_DIR) / "tests")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator at(text.begin(), text.end(), kTest), end; at != end; ++at) {
      names.insert((*at)[1].str() + "." + (*at)[2].str());
    }
  }
  return names;
}

struct Row {
  std::string threat;
  std::vector<std::string> tests;
};

std::vector<Row> rows_of(const std::string& page) {
  static const std::regex kName(R"(`(\w+\.\w+)`)");
  std::vector<Row> rows;
  std::istringstream lines(page);
  bool promises = false;  // whether the present table is one of threats or of promises
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) promises = false;
    if (line.starts_with("| threat") || line.starts_with("| promise")) {
      promises = true;
      continue;
    }
    if (!promises || !line.starts_with("| ")) continue;
    const std::size_t last_cell = line.rfind(" | ");
    Row row{line.substr(2, line.find(" | ") - 2), {}};
    const std::string tests = line.substr(last_cell);
    for (std::sregex_iterator at(tests.begin(), tests.end(), kName), end; at != end; ++at) {
      row.tests.push_back((*at)[1].str());
    }
    rows.push_back(row);
  }
  return rows;
}

TEST(IsolationPage, EveryThreatNamesTestsThatExist) {
  const auto page = text_of(fs::path(SPYRE_SOURCE_DIR) / "docs/isolation.md");
  const auto known = tests_in_sources();
  const auto rows = rows_of(page);
  ASSERT_GE(rows.size(), 20u);
  for (const Row& row : rows) {
    EXPECT_FALSE(row.tests.empty()) << row.threat;
    for (const auto& test : row.tests) EXPECT_TRUE(known.contains(test)) << test << " (" << row.threat << ")";
  }
}

TEST(IsolationPage, SaysWhatIsNotProtected) {
  const auto page = text_of(fs::path(SPYRE_SOURCE_DIR) / "docs/isolation.md");
  EXPECT_THAT(page, testing::HasSubstr("## What is not protected"));
  EXPECT_THAT(page, testing::HasSubstr("can trace each other"));
}

}  // namespace
