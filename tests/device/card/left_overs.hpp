// SPDX-License-Identifier: Apache-2.0
// What a card may leave behind in the process that owned it, counted before and after. Each program of this folder
// checks itself as a whole; single tests check what they start and end.
#pragma once

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/process_resources.hpp"

namespace svp::test {

// While it exists, the count is to come back to where it was.
class NothingIsLeft {
 public:
  NothingIsLeft() : before_(count_process_resources()) {}
  ~NothingIsLeft() { EXPECT_EQ(left_over(before_), "") << "left behind"; }
  NothingIsLeft(const NothingIsLeft&) = delete;
  NothingIsLeft& operator=(const NothingIsLeft&) = delete;

 private:
  ProcessResources before_;
};

// For a whole program: before its first card, after its last.
class ProgramLeavesNothing final : public testing::Environment {
 public:
  void SetUp() override {
    // bounded: it does nothing at all
    std::thread([] {}).join();  // a sanitizer's own thread starts with the first of the program's
    before_ = count_process_resources();
  }
  void TearDown() override { EXPECT_EQ(left_over(before_), "") << "left behind by the program"; }

 private:
  ProcessResources before_;
};
inline testing::Environment* const kProgramLeavesNothing = testing::AddGlobalTestEnvironment(new ProgramLeavesNothing);

}  // namespace svp::test
