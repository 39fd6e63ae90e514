// SPDX-License-Identifier: Apache-2.0
// `ras_codes_test --print` prints the golden file, and the tables of docs/errors.md.
#include "host_driver/ras/codes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace svp::ras {
namespace {

constexpr std::array kLayers{Layer::Driver, Layer::Transport, Layer::Firmware,
                             Layer::Core,   Layer::Memory,    Layer::Emulator};

std::vector<wire::Outcome> outcomes() {
  std::vector<wire::Outcome> all;
  for (std::uint8_t i = 0; i < wire::kOutcomeCount; ++i) all.push_back(static_cast<wire::Outcome>(i));
  return all;
}

std::vector<wire::Status> statuses() {
  std::vector<wire::Status> all;
  for (std::uint16_t i = 1; i < 1000; ++i) {
    if (const auto status = static_cast<wire::Status>(i); wire::name(status) != "unknown status") all.push_back(status);
  }
  return all;
}

ErrorInfo error_of(Layer layer, wire::Outcome outcome, wire::Status status) {
  return {.layer = layer,
          .source = {},
          .outcome = outcome,
          .recoverable = true,
          .next_step = {},
          .message = {},
          .status = status};
}

// Every code that an error can have, with its name.
std::vector<std::string> all_codes() {
  std::vector<std::string> lines;
  const auto add = [&](const ErrorInfo& error) { lines.push_back(to_string(code_of(error)) + " " + name_of(error)); };
  for (const wire::Outcome outcome : outcomes()) {
    if (outcome == wire::Outcome::Ok) continue;
    for (const Layer layer : kLayers) add(error_of(layer, outcome, wire::Status::None));
    for (const wire::Status status : statuses()) add(error_of(Layer::Firmware, outcome, status));
  }
  return lines;
}

// The rows of docs/errors.md.
std::vector<std::string> page_rows() {
  std::vector<std::string> rows;
  for (const wire::Outcome outcome : outcomes()) {
    if (outcome == wire::Outcome::Ok) continue;
    rows.push_back("| " + std::string(1, letter_of(outcome)) + " | " + std::string(wire::name(outcome)) + " |");
  }
  const auto three = [](unsigned number) {
    const std::string text = std::to_string(number);
    return std::string(3 - text.size(), '0') + text;
  };
  for (const Layer layer : kLayers) {
    rows.push_back("| " + three(number_of(layer)) + " | " + std::string(name(layer)) + " |");
  }
  for (const wire::Status status : statuses()) {
    rows.push_back("| " + three(static_cast<unsigned>(status)) + " | " + std::string(wire::name(status)) + " |");
  }
  return rows;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(RasCodes, NeverChangeTheirMeaning) {
  const auto golden = lines_of(SPYRE_SOURCE_DIR "/tests/unit/host_driver/ras/codes.golden");
  ASSERT_FALSE(golden.empty());
  const auto now = all_codes();
  const std::set<std::string> known(now.begin(), now.end());
  for (const auto& line : golden) EXPECT_TRUE(known.contains(line)) << "was published and is gone: " << line;
  const std::set<std::string> published(golden.begin(), golden.end());
  for (const auto& line : now) EXPECT_TRUE(published.contains(line)) << "new: add it to codes.golden: " << line;
}

TEST(RasCodes, AreDifferentForDifferentErrors) {
  std::set<std::string> codes;
  for (const auto& line : all_codes()) {
    EXPECT_TRUE(codes.insert(line.substr(0, line.find(' '))).second) << line;
  }
}

TEST(RasCodes, SayHowItEndedAndWhy) {
  const auto stray = error_of(Layer::Core, wire::Outcome::Fault, wire::Status::LoadFault);
  EXPECT_EQ(to_string(code_of(stray)), "SPYRE-F403");
  EXPECT_EQ(name_of(stray), "stray load");
  const auto died = error_of(Layer::Emulator, wire::Outcome::Lost, wire::Status::None);
  EXPECT_EQ(to_string(code_of(died)), "SPYRE-L006");
  EXPECT_EQ(name_of(died), "lost with the emulator");
}

TEST(RasCodes, StandOnThePageOfErrors) {
  std::vector<std::string> rows;
  for (const auto& line : lines_of(SPYRE_SOURCE_DIR "/docs/errors.md")) {
    const bool code_row = line.starts_with("| ") && line.size() > 6 && (line[3] == ' ' || std::isdigit(line[2]) != 0);
    if (code_row) rows.push_back(line);
  }
  EXPECT_THAT(rows, testing::ElementsAreArray(page_rows()));
}

}  // namespace

void print() {
  for (const auto& line : all_codes()) std::cout << line << "\n";
  std::cout << "\n";
  for (const auto& row : page_rows()) std::cout << row << "\n";
}

}  // namespace svp::ras

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print") {
    svp::ras::print();
    return 0;
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
