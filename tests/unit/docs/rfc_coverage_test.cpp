// SPDX-License-Identifier: Apache-2.0
// docs/rfc-coverage.md: each header declares what its row says, each test is in the sources of the tests, and what a
// row quotes of it is a line that asserts. So has a row of what is there in part, for the part that is.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SPYRE_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// "Suite.Name" of every GoogleTest below tests/, with the lines of its body.
const std::map<std::string, std::vector<std::string>>& tests() {
  static const auto all = [] {
    const std::regex kTest(R"(TEST(?:_F|_P)?\((\w+),\s*(\w+)\).*)");
    std::map<std::string, std::vector<std::string>> bodies;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
      if (entry.path().extension() != ".cpp") continue;
      std::ifstream in(entry.path());
      std::smatch match;
      std::vector<std::string>* body = nullptr;
      for (std::string line; std::getline(in, line);) {
        if (line.starts_with("TEST") && std::regex_match(line, match, kTest)) {
          body = &bodies[match[1].str() + "." + match[2].str()];
        } else if (line == "}") {
          body = nullptr;
        } else if (body != nullptr) {
          body->push_back(line);
        }
      }
    }
    return bodies;
  }();
  return all;
}

// Of the test equipment's own: expect_product(…), expect_same(…).
bool asserts(const std::string& line) {
  static const std::regex kAssertion(R"(\b(EXPECT_|ASSERT_|RC_ASSERT|expect_)\w*\()");
  const auto text = line.find_first_not_of(' ');
  return text != std::string::npos && line.compare(text, 2, "//") != 0 && std::regex_search(line, kAssertion);
}

// What a row names: `Suite.Name`: `text of an asserting line`.
struct Assertion {
  std::string test;
  std::string text;
};

std::optional<Assertion> assertion_of(const std::string& cell) {
  static const std::regex kCell(R"(`(\w+\.\w+)`: `([^`]+)`)");
  std::smatch match;
  if (!std::regex_match(cell, match, kCell)) return std::nullopt;
  return Assertion{match[1], match[2]};
}

// Empty: the test is there, and the text stands in a line of its body that asserts something.
std::string wrong_with(const Assertion& row) {
  const auto body = tests().find(row.test);
  if (body == tests().end()) return "there is no test " + row.test;
  bool elsewhere = false;
  for (const std::string& line : body->second) {
    if (line.find(row.text) == std::string::npos) continue;
    if (asserts(line)) return {};
    elsewhere = true;
  }
  return row.test + (elsewhere ? " does not assert: " : " has no line: ") + row.text;
}

// Of one of the page's tables: cells without blanks at their ends.
struct Row {
  std::string section;
  std::vector<std::string> cells;
};

// Without the heads of the tables.
std::vector<Row> rows() {
  std::vector<Row> all;
  std::string section;
  std::istringstream page(text_of(kRoot / "docs/rfc-coverage.md"));
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) section = line.substr(3);
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
      all.push_back({section, std::move(cells)});
    }
  }
  return all;
}

std::string unquoted(const std::string& cell) {
  return cell.size() > 2 && cell.front() == '`' && cell.back() == '`' ? cell.substr(1, cell.size() - 2) : "";
}

// Columns: document, statement, what is there and what is missing, test of what is there.
bool tells_what_is_missing(const Row& row) { return row.section.starts_with("Partly there"); }

// Of a row of that table: what stands before "Missing", which begins with a capital letter.
std::string there(const Row& row) { return row.cells[2].substr(0, row.cells[2].find("Missing")); }

TEST(RfcCoverage, EveryRowNamesAnAssertionOfItsTest) {
  ASSERT_GT(tests().size(), 1000u) << "this test has lost its way to find tests";
  unsigned found = 0;
  for (const auto& row : rows()) {
    if (tells_what_is_missing(row)) continue;
    const auto& cells = row.cells;
    const auto assertion = assertion_of(cells.back());
    if (!assertion) {
      // Nothing shows it: the row says why.
      EXPECT_TRUE((cells.back() + cells[cells.size() - 2]).find("not built") != std::string::npos)
          << cells[0] << ": " << cells[1] << " names neither an assertion nor why there is none: " << cells.back();
      continue;
    }
    ++found;
    EXPECT_EQ(wrong_with(*assertion), "") << cells[0] << ": " << cells[1];
  }
  EXPECT_GT(found, 60u);
}

TEST(RfcCoverage, ATextThatIsNotAssertedIsFound) {
  const std::string here = "RfcCoverage.ATextThatIsNotAssertedIsFound";
  const int asserted = 1;
  const int computed = asserted + 1;
  EXPECT_EQ(computed, 2);
  EXPECT_EQ(wrong_with({here, "EXPECT_EQ(computed, 2)"}), "");
  EXPECT_NE(wrong_with({here, std::string("computed ") + "= asserted"}).find("does not assert"), std::string::npos);
  EXPECT_NE(wrong_with({here, std::string("EXPECT_EQ(computed, ") + "3)"}).find("has no line"), std::string::npos);
  EXPECT_NE(wrong_with({"RfcCoverage.NoSuchTest", "1"}).find("there is no test"), std::string::npos);
  EXPECT_FALSE(assertion_of("`RfcCoverage.NoSuchTest`")) << "a name alone";
}

// Of the 252 statements of the documents and of the design card those that were partly there, absent or contradicted on
// 25 November 2026, by document and number there.
constexpr const char* kStatements[] = {
    "P22",  "P23",  "P28",  "P33", "P36", "P37", "P38", "P51", "P54", "P56", "P61", "P85", "P88", "P89", "P91", "P95",
    "P104", "P108", "P110", "O1",  "O2",  "O5",  "O10", "O11", "O14", "O15", "O23", "O25", "R1",  "R5",  "R6",  "R8",
    "R12",  "R13",  "R14",  "R17", "R18", "R19", "R20", "R25", "R32", "R33", "R35", "R44", "R46", "D2",  "D3",  "D10",
    "D14",  "D17",  "D18",  "D20", "D21", "D24", "D26", "D27", "D28", "D32", "L8",  "L11", "L18", "K4",  "K13"};

// Those that are there as they stand since, and the row that shows it: a text of it.
const std::map<std::string, std::string> kThereSince{{"P28", "`stride_bytes()` in bytes, as the RFC"},
                                                     {"P85", "forbid every shape and stride but the compiled ones"},
                                                     {"O14", "tiled launch; strict launch"},
                                                     {"O15", "forbid every shape and stride but the compiled ones"},
                                                     {"R18", "attention with fewer key and value heads"}};

// Of the 252 statements, as the first cell of a row names them.
std::multiset<std::string> statements_with_rows() {
  static const std::regex kNumber(R"(\b[PORDLK]\d+\b)");
  std::multiset<std::string> all;
  for (const Row& row : rows()) {
    const std::string& named = row.cells[0];
    for (std::sregex_iterator at(named.begin(), named.end(), kNumber), end; at != end; ++at) all.insert(at->str());
  }
  return all;
}

TEST(RfcCoverage, EveryStatementThatFellShortHasARowOrIsThereSince) {
  const auto named = statements_with_rows();
  const std::string page = text_of(kRoot / "docs/rfc-coverage.md");
  std::set<std::string> known;
  for (const char* statement : kStatements) {
    known.insert(statement);
    const auto there = kThereSince.find(statement);
    if (there == kThereSince.end()) {
      EXPECT_TRUE(named.contains(statement)) << statement << " has no row";
    } else {
      EXPECT_NE(page.find(there->second), std::string::npos) << statement << " is there since, and no row says so";
    }
  }
  EXPECT_EQ(known.size(), 63u);
  for (const std::string& statement : named) EXPECT_TRUE(known.contains(statement)) << statement << " is none of them";
}

// A row of what is not there as it stands names its statement: a letter alone would be any of a document's.
TEST(RfcCoverage, EveryRowOfWhatFellShortNamesItsStatement) {
  static const std::regex kNumbers(R"([PORDLK]\d+(, [PORDLK]\d+)*)");
  for (const Row& row : rows()) {
    if (!tells_what_is_missing(row)) continue;
    EXPECT_TRUE(std::regex_match(row.cells[0], kNumbers)) << row.cells[0] << ": " << row.cells[1];
  }
}

TEST(RfcCoverage, WhatIsNotThereHasARowThatSaysWhatIsMissing) {
  unsigned found = 0;
  for (const auto& row : rows()) {
    if (!tells_what_is_missing(row)) continue;
    ++found;
    ASSERT_EQ(row.cells.size(), 4u) << row.cells[1];
    EXPECT_NE(row.cells[2].find("Missing"), std::string::npos) << row.cells[1];
  }
  EXPECT_GT(found, 30u);
}

// A row that says nothing but what is missing has no test; one that was tried by hand says so.
TEST(RfcCoverage, WhatIsThereInPartHasAnAssertionOfThePart) {
  unsigned found = 0;
  for (const auto& row : rows()) {
    if (!tells_what_is_missing(row) || there(row).empty()) continue;
    const std::string& test = row.cells.back();
    const auto assertion = assertion_of(test);
    if (!assertion) {
      EXPECT_TRUE(test.starts_with("tried by hand")) << row.cells[1] << ": nothing shows: " << there(row);
      continue;
    }
    ++found;
    EXPECT_EQ(wrong_with(*assertion), "") << row.cells[1];
  }
  EXPECT_GT(found, 25u);
}

TEST(RfcCoverage, EveryHeaderDeclaresWhatItsRowSays) {
  unsigned found = 0;
  for (const auto& row : rows()) {
    const auto& cells = row.cells;
    if (cells.size() != 5 || unquoted(cells[2]).empty()) continue;
    ++found;
    const std::string header = text_of(kRoot / unquoted(cells[2]));
    const std::regex word("\\b" + unquoted(cells[3]) + "\\b");
    EXPECT_TRUE(std::regex_search(header, word)) << cells[2] << " declares no " << cells[3];
  }
  EXPECT_GT(found, 30u);
}

// The documents have ten, five and five open questions.
TEST(RfcCoverage, EveryOpenQuestionHasAnAnswer) {
  std::set<std::string> answered;
  static const std::regex kQuestion(R"(\b([POD]) (\d+)\b)");
  for (const auto& row : rows()) {
    const auto& cells = row.cells;
    if (!row.section.starts_with("Open questions")) continue;
    EXPECT_FALSE(cells[2].empty()) << cells[0];
    for (std::sregex_iterator at(cells[0].begin(), cells[0].end(), kQuestion), end; at != end; ++at) {
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
