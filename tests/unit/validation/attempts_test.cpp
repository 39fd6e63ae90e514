// SPDX-License-Identifier: Apache-2.0
// What a hostile driver's attempts promise to those who make them (tests/validation/raw/attempts.hpp).
#include "tests/validation/raw/attempts.hpp"

#include <gtest/gtest.h>

#include "shared/control_block.hpp"

namespace {

using wire::Opcode;

TEST(Attempts, EveryWaitHasABudgetThatExpires) {
  raw::Targets targets;
  targets.window_bytes = 64 * wire::kMiB;
  targets.tensor = {.id = 0x40, .generation = 1, .bytes = 2 * wire::kMiB};
  targets.grants = {{.index = 0, .epoch = 1}};
  raw::Attempts attempts(targets, 1);
  unsigned own_waits = 0;
  for (unsigned i = 0; i < 300'000; ++i) {
    const wire::ControlBlock block = attempts.control_block({.id = 1, .incarnation = 1, .next_sequence = 1});
    if (block.header.opcode != Opcode::EventWait) continue;
    own_waits += block.payload.event.flags == 0;
    ASSERT_GT(block.header.budget, 0u) << "block " << i;
    ASSERT_LE(block.header.budget, raw::Attempts::kLongestWait) << "block " << i;
  }
  EXPECT_GT(own_waits, 100u) << "no wait for the function's own streams";
}

}  // namespace
