// SPDX-License-Identifier: Apache-2.0
// docs/states-firmware.md draws what the firmware's tables of states say. `firmware_states_page_test --print` prints
// the diagrams for the page.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "firmware/core/states.hpp"

namespace {

struct Diagram {
  std::string machine;
  std::string text;  // heading, Mermaid block, numbers
};

// As Mermaid wants it: no blanks, no dashes.
std::string id_of(std::string_view name) {
  std::string id(name);
  std::ranges::replace_if(id, [](char c) { return c == ' ' || c == '-'; }, '_');
  return id;
}

// `log_number` 0: not in the log.
template <typename Table>
Diagram draw(const Table& table, unsigned log_number) {
  Diagram diagram{std::string(table.machine), {}};
  std::string& text = diagram.text;
  text = "**" + diagram.machine + "**";
  if (log_number != 0) text += " (machine " + std::to_string(log_number) + " of the log)";
  text += "\n\n```mermaid\nstateDiagram-v2\n";
  for (const std::string_view name : table.names) {
    if (id_of(name) != name) text += "  state \"" + std::string(name) + "\" as " + id_of(name) + "\n";
  }
  text += "  [*] --> " + id_of(table.names[0]) + "\n";
  for (const auto& edge : table.edges) {
    std::string when(edge.when);
    std::ranges::replace(when, ':', ',');  // Mermaid ends a label's start with one
    text += "  " + id_of(table.name(edge.from)) + " --> " + id_of(table.name(edge.to)) + ": " + when + "\n";
  }
  text += "```\n\n| number | state |\n|---|---|\n";
  for (std::size_t i = 0; i < table.names.size(); ++i) {
    text += "| " + std::to_string(i) + " | " + std::string(table.names[i]) + " |\n";
  }
  return diagram;
}

std::vector<Diagram> diagrams() {
  return {draw(fw::kCardStates, std::to_underlying(fw::Machine::Card)),
          draw(fw::kResetStates, std::to_underlying(fw::Machine::FunctionReset)),
          draw(fw::kStreamStates, std::to_underlying(fw::Machine::Stream)), draw(fw::kLaunchStates, 0)};
}

std::string page() {
  std::ifstream in(SPYRE_SOURCE_DIR "/docs/states-firmware.md");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(FirmwareStatesPage, DrawsEveryTable) {
  const std::string text = page();
  ASSERT_FALSE(text.empty());
  for (const Diagram& diagram : diagrams()) {
    EXPECT_NE(text.find(diagram.text), std::string::npos)
        << diagram.machine << ": the page should say (firmware_states_page_test --print)\n"
        << diagram.text;
  }
}

TEST(FirmwareStatesPage, DrawsNothingElse) {
  const std::string text = page();
  std::size_t drawn = 0;
  for (std::size_t at = text.find("```mermaid"); at != std::string::npos; at = text.find("```mermaid", at + 1)) ++drawn;
  EXPECT_EQ(drawn, diagrams().size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print") {
    for (const Diagram& diagram : diagrams()) std::cout << diagram.text << "\n";
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
