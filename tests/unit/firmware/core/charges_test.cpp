// SPDX-License-Identifier: Apache-2.0
// Everything that a function can ask for is charged to it, with what firmware/core/charges.hpp says; docs/isolation.md
// says the same.
#include "firmware/core/charges.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/docs/page_rows.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using wire::AdminCommand;
using wire::Opcode;

std::vector<AdminCommand> commands() {
  std::vector<AdminCommand> all;
  for (unsigned i = 1; i <= static_cast<unsigned>(wire::kLastAdminCommand); ++i) {
    all.push_back(static_cast<AdminCommand>(i));
  }
  return all;
}

// Bare requests, most of which are refused: that is charged as well.
TEST(Charges, EachCommandIsChargedAndAQuantumOfThemIsBounded) {
  for (const AdminCommand command : commands()) {
    if (command == AdminCommand::FirmwareRestart) continue;
    SCOPED_TRACE(wire::name(command));
    fwtest::TestCard card({.virtual_functions = 1});
    fwtest::RawDriver& driver = card.driver(2);
    ASSERT_TRUE(driver.bring_up());
    std::vector<std::uint16_t> slots;
    for (int i = 0; i < 16; ++i) slots.push_back(driver.send_admin(driver.admin_request(command)));
    const std::uint64_t began = card.function(2).charged();
    for (int iterations = 0; !slots.empty(); ++iterations) {
      ASSERT_LT(iterations, 100);
      const std::uint64_t before = card.function(2).charged();
      fw::run_iteration(card.card());
      EXPECT_LE(card.function(2).charged() - before, fw::kQuantumBytes * 3 / 2 + fw::Traces::kEmptyingCost);
      std::erase_if(slots, [&](std::uint16_t slot) { return driver.take_admin(slot).has_value(); });
    }
    EXPECT_GE(card.function(2).charged() - began, 16 * fw::charge_of(command));
  }
}

std::string_view name(fw::BlockCharge charge) {
  switch (charge) {
    case fw::BlockCharge::Nothing: return "nothing";
    case fw::BlockCharge::Bytes: return "bytes moved";
    case fw::BlockCharge::Image: return "image and slices";
    case fw::BlockCharge::Looks: return "waits looked at";
    case fw::BlockCharge::Judged: return "blocks of the buffer";
    case fw::BlockCharge::Patch: return "bytes and one block";
  }
  return "?";
}

TEST(Charges, ThePageHasTheSameTables) {
  const std::string page = docs::read_page(SPYRE_SOURCE_DIR "/docs/isolation.md");
  std::vector<std::string> expected;
  for (const AdminCommand command : commands()) {
    const bool heavy = fw::charge_of(command) == fw::kHeavyCommand;
    expected.push_back("| " + std::string(wire::name(command)) + " | " + (heavy ? "1" : "4") + " |");
  }
  EXPECT_EQ(docs::rows_on_page(page, "Admin commands in a quantum"), expected);
  expected.clear();
  for (unsigned i = 0; i <= static_cast<unsigned>(wire::kLastOpcode); ++i) {
    const auto opcode = static_cast<Opcode>(i);
    expected.push_back("| " + std::string(wire::name(opcode)) + " | " + std::string(name(fw::charge_of(opcode))) +
                       " |");
  }
  EXPECT_EQ(docs::rows_on_page(page, "Charges of control blocks"), expected);
}

}  // namespace
