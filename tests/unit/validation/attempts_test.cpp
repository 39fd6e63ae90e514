// SPDX-License-Identifier: Apache-2.0
// What a hostile driver's attempts promise to those who make them (tests/validation/raw/attempts.hpp).
#include "tests/validation/raw/attempts.hpp"

#include <gtest/gtest.h>

#include <array>

#include "shared/control_block.hpp"

namespace {

using wire::AdminCommand;
using wire::Opcode;

class Attempts : public testing::Test {
 protected:
  Attempts() {
    targets_.window_bytes = 64 * wire::kMiB;
    targets_.tensor = {.id = 0x40, .generation = 1, .bytes = 2 * wire::kMiB};
    targets_.grants = {{.index = 0, .epoch = 1}};
    targets_.buffers = {{.id = 0, .blocks = 1, .epoch = 1, .launch = true}, {.id = 1, .blocks = 4, .epoch = 2}};
  }

  raw::Targets targets_;
  raw::Attempts attempts_{targets_, 1};
};

constexpr unsigned kBlocks = 300'000;
constexpr unsigned kRequests = 100'000;

TEST_F(Attempts, EveryWaitHasABudgetThatExpires) {
  unsigned own_waits = 0, granted_waits = 0;
  const auto check = [&](const wire::ControlBlock& block) {
    if (block.header.opcode != Opcode::EventWait) return;
    ++(block.payload.event.flags == 0 ? own_waits : granted_waits);
    ASSERT_GT(block.header.budget, 0u);
    ASSERT_LE(block.header.budget, raw::Attempts::kLongestWait);
  };
  for (unsigned i = 0; i < kBlocks && !HasFatalFailure(); ++i) {
    SCOPED_TRACE(i);
    check(attempts_.control_block({.id = 1, .incarnation = 1, .next_sequence = 1}));
    check(attempts_.entry());
  }
  EXPECT_GT(own_waits, kBlocks / 100);
  EXPECT_GT(granted_waits, kBlocks / 100);
}

// In the ring as well as in command buffers, each with the size that it must have.
TEST_F(Attempts, EveryOpcodeIsDrawn) {
  std::array<unsigned, 256> in_ring{}, in_buffer{};
  const auto count = [](std::array<unsigned, 256>& counts, const wire::ControlBlock& block) {
    if (block.header.magic != wire::kControlBlockMagic) return;
    if (block.header.sticks == wire::required_sticks(block)) ++counts[static_cast<unsigned>(block.header.opcode)];
  };
  for (unsigned i = 0; i < kBlocks; ++i) {
    count(in_ring, attempts_.control_block({.id = 1, .incarnation = 1, .next_sequence = 1}));
    count(in_buffer, attempts_.entry());
  }
  for (unsigned opcode = 0; opcode <= static_cast<unsigned>(wire::kLastOpcode); ++opcode) {
    const auto named = static_cast<Opcode>(opcode);
    EXPECT_GT(in_ring[opcode], kBlocks / 50) << wire::name(named);
    if (wire::is_bufferable(named)) EXPECT_GT(in_buffer[opcode], kBlocks / 50) << wire::name(named);
  }
}

TEST_F(Attempts, EveryAdminCommandIsDrawn) {
  std::array<unsigned, static_cast<unsigned>(wire::kLastAdminCommand) + 1> drawn{};
  std::array<unsigned, 3> self_tests{};
  unsigned buffers = 0, traces = 0;
  for (unsigned i = 0; i < kRequests; ++i) {
    const wire::AdminRequest request = attempts_.admin_request();
    const auto& arguments = request.arguments;
    if (const auto command = static_cast<unsigned>(request.command); command < drawn.size()) ++drawn[command];
    if (request.command == AdminCommand::SelfTest) {
      ASSERT_LE(arguments.self_test.rounds, 100u) << "it has to be short";
      const auto kind = static_cast<unsigned>(arguments.self_test.kind);
      if (kind < self_tests.size()) ++self_tests[kind];
    }
    traces += request.command == AdminCommand::Trace && arguments.trace.on <= 1 ? 1 : 0;
    const auto& create = arguments.buffer_create;
    const bool sensible = create.offset >= raw::Attempts::entries() && create.blocks >= 1 &&
                          create.offset + create.blocks * wire::kBufferBlockBytes + create.data_bytes <=
                              raw::Attempts::entries() + raw::Attempts::kEntries * wire::kBufferBlockBytes;
    buffers += request.command == AdminCommand::BufferCreate && sensible ? 1 : 0;
  }
  for (unsigned command = 1; command < drawn.size(); ++command) {
    EXPECT_GT(drawn[command], kRequests / 50) << wire::name(static_cast<AdminCommand>(command));
  }
  for (unsigned kind = 0; kind < self_tests.size(); ++kind) EXPECT_GT(self_tests[kind], kRequests / 500) << kind;
  EXPECT_GT(buffers, kRequests / 50);
  EXPECT_GT(traces, kRequests / 100);
}

}  // namespace
