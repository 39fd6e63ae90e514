// SPDX-License-Identifier: Apache-2.0
// What a card may leave behind in the process that owned it, counted before and after. Each program of this folder checks
// itself as a whole; single tests check what they start and end.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <thread>

#include "tests/bounds.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp::test {

struct LeftOvers {
  std::size_t processes = 0;     // descendants, also re-parented ones
  bool uncollected = false;      // children that ended and that nobody waited for
  std::size_t descriptors = 0;   // of this process
  std::size_t memory_files = 0;  // descriptors and mappings of memfds: windows
  std::size_t threads = 0;       // of this process
  friend bool operator==(const LeftOvers&, const LeftOvers&) = default;
};
std::ostream& operator<<(std::ostream& out, const LeftOvers& left);

LeftOvers count_left_overs();

// A reaper ends a moment after its emulator, a thread a moment after it was joined by others: looks again until the count is
// `before`, for at most `bound`. Returns the last count.
LeftOvers settled_left_overs(const LeftOvers& before, std::chrono::milliseconds bound = test_bounds::kLeftOvers);

// While it lives, the count is to come back to where it was.
class NothingIsLeft {
 public:
  NothingIsLeft() : before_(count_left_overs()) {}
  ~NothingIsLeft() { EXPECT_EQ(settled_left_overs(before_), before_) << "left behind"; }
  NothingIsLeft(const NothingIsLeft&) = delete;
  NothingIsLeft& operator=(const NothingIsLeft&) = delete;

 private:
  LeftOvers before_;
};

// For a whole program: before its first card, after its last.
class ProgramLeavesNothing final : public testing::Environment {
 public:
  void SetUp() override {
    // bounded: it does nothing at all
    std::thread([] {}).join();  // a sanitizer's own thread starts with the first of the program's
    before_ = count_left_overs();
  }
  void TearDown() override { EXPECT_EQ(settled_left_overs(before_), before_) << "left behind by the program"; }

 private:
  LeftOvers before_;
};
inline testing::Environment* const kProgramLeavesNothing = testing::AddGlobalTestEnvironment(new ProgramLeavesNothing);

}  // namespace svp::test
