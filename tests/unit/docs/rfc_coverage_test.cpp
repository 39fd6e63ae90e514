// SPDX-License-Identifier: Apache-2.0
// docs/rfc-coverage.md: each header declares what its row says, and each test is in the sources of the tests.
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

const fs::path kRoot = SPYRE_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// "Suite.Name" of every GoogleTest below tests/.
std::set<std::string> tests() {
  static const std::regex kTest(R"(TEST(?:_F|_P)?\((\w+),\s*(\w+)\).*)");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream in(entry.path());
    std::smatch match;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("TEST") && std::regex_match(line, match, kTest)) {
        names.insert(match[1].str() + "." + match[2].str());
      }
    }
  }
  return names;
}

// Rows of the page's tables, without their heads: cells without blanks at their ends.
std::vector<std::vector<std::string>> rows() {
  std::vector<std::vector<std::string>> all;
  std::istringstream page(text_of(kRoot / "docs/rfc-coverage.md"));
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("|---")) {
      in_table = true;
    } else if (!line.starts_with("|")) {
      in_table = false;
    } else if (in_table) {
      std::vector<std::string> cells;
      std::istringstream in(line.substr(1));
      for (std::string cell; std::getline(in, cell, '|');) {
        const auto from = cell.find_first_not_of(' ');
        cells.push_back(from == std::string::npos ? "" : cell.substr(from, cell.find_last_not_of(' ') - from + 1));
      }
      all.push_back(cells);
    }
  }
  return all;
}

std::string unquoted(const std::string& cell) {
  return cell.size() > 2 && cell.front() == '`' && cell.back() == '`' ? cell.substr(1, cell.size() - 2) : "";
}

TEST(RfcCoverage, EveryTestIsThere) {
  const auto known = tests();
  ASSERT_GT(known.size(), 1000u) << "this test has lost its way to find tests";
  unsigned found = 0;
  for (const auto& row : rows()) {
    const std::string test = unquoted(row.back());
    if (test.empty()) {
      // Nothing shows it: the row says why.
      EXPECT_TRUE((row.back() + row[row.size() - 2]).find("not built") != std::string::npos)
          << row[0] << ": " << row[1];
      continue;
    }
    ++found;
    EXPECT_TRUE(known.contains(test)) << "the page names " << test;
  }
  EXPECT_GT(found, 50u);
}

TEST(RfcCoverage, EveryHeaderDeclaresWhatItsRowSays) {
  unsigned found = 0;
  for (const auto& row : rows()) {
    if (row.size() != 5 || unquoted(row[2]).empty()) continue;
    ++found;
    const std::string header = text_of(kRoot / unquoted(row[2]));
    const std::regex word("\\b" + unquoted(row[3]) + "\\b");
    EXPECT_TRUE(std::regex_search(header, word)) << row[2] << " declares no " << row[3];
  }
  EXPECT_GT(found, 30u);
}

// The documents have ten, five and five open questions.
TEST(RfcCoverage, EveryOpenQuestionHasAnAnswer) {
  std::set<std::string> answered;
  static const std::regex kQuestion(R"(\b([POD]) (\d+)\b)");
  for (const auto& row : rows()) {
    if (row.size() != 4) continue;
    EXPECT_FALSE(row[2].empty()) << row[0];
    for (std::sregex_iterator at(row[0].begin(), row[0].end(), kQuestion), end; at != end; ++at) {
      answered.insert((*at)[0].str());
    }
  }
  std::set<std::string> wanted;
  for (int i = 1; i <= 10; ++i) wanted.insert("P " + std::to_string(i));
  for (int i = 1; i <= 5; ++i) wanted.insert("O " + std::to_string(i));
  for (int i = 1; i <= 5; ++i) wanted.insert("D " + std::to_string(i));
  EXPECT_EQ(answered, wanted);
}

}  // namespace
