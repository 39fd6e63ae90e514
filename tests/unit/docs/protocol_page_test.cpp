// SPDX-License-Identifier: Apache-2.0
// docs/protocol.md says what the headers say. `protocol_page_test --print-tables` prints the tables for the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "shared/version.hpp"
#include "tests/unit/docs/contract_tables.hpp"
#include "tests/unit/docs/page_rows.hpp"

namespace {

std::string page_text() { return docs::read_page(SPYRE_SOURCE_DIR "/docs/protocol.md"); }

TEST(ProtocolPage, EveryTableIsWhatTheCompilerSees) {
  const std::string page = page_text();
  ASSERT_FALSE(page.empty());
  for (const auto& table : docs::contract_tables()) {
    EXPECT_THAT(docs::rows_on_page(page, table.name), testing::ElementsAreArray(table.rows)) << table.name;
  }
}

TEST(ProtocolPage, NamesTheAbiVersionOfTheHeaders) {
  EXPECT_THAT(page_text(), testing::HasSubstr("ABI version **" + std::to_string(wire::kAbiVersion) + "**"));
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
