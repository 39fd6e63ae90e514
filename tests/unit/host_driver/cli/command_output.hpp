// SPDX-License-Identifier: Apache-2.0
// `spyre` in this process, for commands that need no card: what they print, or how they are refused.
#pragma once

#include <gtest/gtest.h>

#include <CLI/Error.hpp>
#include <string>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/command_line.hpp"

namespace cli::test {

struct Printed {
  int code = -1;
  std::string text;  // of stdout
};

// `words`: behind "spyre". Throws as the command.
inline Printed run(const std::vector<std::string>& words) {
  std::vector<const char*> argv{"spyre"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  testing::internal::CaptureStdout();
  Printed printed;
  try {
    CommandLine line;
    line.parse(static_cast<int>(argv.size()), argv.data());
    printed.code = line.execute();
  } catch (...) {
    testing::internal::GetCapturedStdout();
    throw;
  }
  printed.text = testing::internal::GetCapturedStdout();
  return printed;
}

// What the command is refused with; fails the test when it is not.
inline svp::ErrorInfo refusal_of(const std::vector<std::string>& words) {
  try {
    ADD_FAILURE() << "not refused: " << run(words).text;
  } catch (const svp::Error& error) {
    EXPECT_FALSE(error.info().next_step.empty());
    return error.info();
  }
  return {};
}

}  // namespace cli::test
