// SPDX-License-Identifier: Apache-2.0
// docs/isolation.md promises tests: each of its names is one that the sources have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The word at the beginning of the text, which is cut off together with the blanks around it.
std::string_view take_word(std::string_view& text) {
  const auto blank = [](char c) { return c == ' ' || c == '\n'; };
  const auto letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto begin = std::find_if_not(text.begin(), text.end(), blank);
  const auto end = std::find_if_not(begin, text.end(), letter);
  const std::string_view word(begin, end);
  text = std::string_view(std::find_if_not(end, text.end(), blank), text.end());
  return word;
}

// The names of one file: "TEST(Suite, Name", with _F and _P, too. Without std::regex, which takes a minute for the tree
// under a sanitizer.
void add_tests_of(std::string_view text, std::set<std::string>& names) {
  for (std::size_t at = text.find("TEST"); at != std::string_view::npos; at = text.find("TEST", at + 1)) {
    std::string_view rest = text.substr(at);
    const std::string_view macro = take_word(rest);
    if ((macro != "TEST" && macro != "TEST_F" && macro != "TEST_P") || !rest.starts_with('(')) continue;
    rest.remove_prefix(1);
    const std::string_view suite = take_word(rest);
    if (!rest.starts_with(',')) continue;
    rest.remove_prefix(1);
    const std::string_view name = take_word(rest);
    if (rest.starts_with(')')) names.insert(std::string(suite) + "." + std::string(name));
  }
}

std::set<std::string> tests_in_sources() {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(SPYRE_SOURCE_DIR) / "tests")) {
    if (entry.path().extension() == ".cpp") add_tests_of(text_of(entry.path()), names);
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
