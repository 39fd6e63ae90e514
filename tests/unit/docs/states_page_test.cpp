// SPDX-License-Identifier: Apache-2.0
// docs/states.md draws the lifecycles as the code has them. `states_page_test --print` prints the diagrams for the
// page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "host_driver/base/state_machine.hpp"
#include "host_driver/broker/broker_states.hpp"
#include "host_driver/device/device_states.hpp"
#include "host_driver/runtime/recovery_phase.hpp"
#include "host_driver/runtime/stream_states.hpp"

namespace {

using svp::StateEdge;
using svp::StateTable;

// In the order of the page.
constexpr std::array kMachines{
    state_table(svp::StreamActivity{}), state_table(svp::StreamCondition{}), state_table(svp::TransferStage{}),
    state_table(svp::EventStage{}),     state_table(svp::RecoveryPhase{}),   state_table(svp::DeviceState{}),
    state_table(svp::Health{}),         state_table(svp::RingStreamState{}), state_table(svp::CardPhase{}),
    state_table(svp::FunctionPhase{}),  state_table(svp::ClientPhase{})};

// "queue reset" as Mermaid wants to name it: "queue_reset".
std::string identifier(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      text += c;
    } else if (!text.empty() && text.back() != '_') {
      text += '_';
    }
  }
  return text;
}

std::vector<std::string> diagram(const StateTable& table) {
  std::vector<std::string> lines{"stateDiagram-v2"};
  for (const std::string_view name : table.names) {
    if (identifier(name) != name) lines.push_back("  state \"" + std::string(name) + "\" as " + identifier(name));
  }
  lines.push_back("  [*] --> " + identifier(table.name(0)));
  for (const StateEdge& edge : table.edges) {
    lines.push_back("  " + identifier(table.name(edge.from)) + " --> " + identifier(table.name(edge.to)) + ": " +
                    std::string(edge.when));
  }
  return lines;
}

std::string heading(const StateTable& table) { return "### " + std::string(table.machine); }

std::string read_page() {
  std::ifstream in(SPYRE_SOURCE_DIR "/docs/states.md");
  return {std::istreambuf_iterator<char>(in), {}};
}

// The lines of the Mermaid block in the section of a machine.
std::vector<std::string> diagram_on_page(const std::string& page, const StateTable& table) {
  std::istringstream in(page);
  std::string line;
  while (std::getline(in, line) && line != heading(table)) {  // bounded: the page has an end
  }
  while (std::getline(in, line) && line != "```mermaid" && !line.starts_with("#")) {  // bounded: the page has an end
  }
  std::vector<std::string> lines;
  if (line != "```mermaid") return lines;
  while (std::getline(in, line) && line != "```") lines.push_back(line);
  return lines;
}

TEST(StatesPage, EveryDiagramIsTheTableOfTheCode) {
  const std::string page = read_page();
  ASSERT_FALSE(page.empty());
  for (const StateTable& table : kMachines) {
    EXPECT_THAT(diagram_on_page(page, table), testing::ElementsAreArray(diagram(table))) << table.machine;
  }
}

TEST(StatesPage, DrawsNoOtherMachine) {
  std::istringstream page(read_page());
  std::size_t diagrams = 0;
  for (std::string line; std::getline(page, line);) {
    if (line == "stateDiagram-v2") ++diagrams;
  }
  EXPECT_EQ(diagrams, kMachines.size());
}

TEST(StatesPage, NoLabelBreaksADiagram) {
  for (const StateTable& table : kMachines) {
    std::vector<std::string> names;
    for (const std::string_view name : table.names) names.push_back(identifier(name));
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::adjacent_find(names), names.end()) << table.machine << ": two states are drawn as one";
    for (const StateEdge& edge : table.edges) {
      EXPECT_EQ(edge.when.find_first_of(";\n\""), std::string_view::npos) << table.machine << ": " << edge.when;
    }
  }
}

void print_diagrams() {
  for (const StateTable& table : kMachines) {
    std::cout << heading(table) << "\n\n```mermaid\n";
    for (const std::string& line : diagram(table)) std::cout << line << "\n";
    std::cout << "```\n\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print") {
    print_diagrams();
    return 0;
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
