// SPDX-License-Identifier: Apache-2.0
// docs/protocol.md says what the headers say. `protocol_page_test --print-tables` prints the tables for the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>

#include "shared/version.hpp"
#include "tests/unit/docs/contract_tables.hpp"

namespace {

// The rows (lines that begin with '|') that follow the page's heading for a table, without its two header lines.
std::vector<std::string> rows_on_page(const std::string& page, const std::string& table) {
  const std::size_t at = page.find("**" + table + "**\n");
  if (at == std::string::npos) return {};
  std::istringstream lines(page.substr(at));
  std::string line;
  std::getline(lines, line);
  std::vector<std::string> rows;
  while (std::getline(lines, line) && (line.empty() || line.starts_with("|"))) {
    if (line.empty() && !rows.empty()) break;
    if (!line.empty()) rows.push_back(line);
  }
  rows.erase(rows.begin(), rows.begin() + std::min<std::ptrdiff_t>(2, std::ssize(rows)));
  return rows;
}

std::string read_page() {
  std::ifstream in(SPYRE_SOURCE_DIR "/docs/protocol.md");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ProtocolPage, EveryTableIsWhatTheCompilerSees) {
  const std::string page = read_page();
  ASSERT_FALSE(page.empty());
  for (const auto& table : docs::contract_tables()) {
    EXPECT_THAT(rows_on_page(page, table.name), testing::ElementsAreArray(table.rows)) << table.name;
  }
}

TEST(ProtocolPage, NamesTheAbiVersionOfTheHeaders) {
  EXPECT_THAT(read_page(), testing::HasSubstr("ABI version **" + std::to_string(wire::kAbiVersion) + "**"));
}

void print_tables() {
  for (const auto& table : docs::contract_tables()) {
    const bool layout = table.name.starts_with("struct");
    const bool blocks = table.name.starts_with("blocks");
    std::cout << "**" << table.name << "**\n\n"
              << (layout   ? "| offset | bytes | field |\n|---|---|---|\n"
                  : blocks ? "| offset | bytes | block |\n|---|---|---|\n"
                           : "| number | name |\n|---|---|\n");
    for (const auto& row : table.rows) std::cout << row << "\n";
    std::cout << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print-tables") {
    print_tables();
    return 0;
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
