// SPDX-License-Identifier: Apache-2.0
// The longest iteration of hart 0's loop that a function can cause with each admin command and each control block while
// a neighbour is busy, in instructions: a ring full of the same, with the arguments and the state that make it dearest.
// Nothing here depends on the clock but what the card itself does now and then (it beats, it polls), which is small.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "shared/command_buffer.hpp"
#include "tests/bench/counts/counting_card.hpp"
#include "tests/validation/raw/bare_slot.hpp"
#include "tests/validation/raw/raw_driver.hpp"

namespace counts {

// A function in the hands of a raw client.
struct Client {
  Client(CountingCard& card, unsigned index);
  raw::BareSlot slot;
  std::function<void()> meanwhile = [] {};  // while it waits
  raw::RawDriver driver;
};

class WorstQuanta : public testing::Test {
 public:
  // Every command and every opcode of the contract has had its row.
  static void TearDownTestSuite();

 protected:
  static constexpr unsigned kManagement = 0, kTenant = 2, kOther = 3, kThird = 4, kSpare = 5;  // slots
  static constexpr unsigned kSpareSlots = 2;
  static constexpr wire::Target kTenantTarget = wire::target_of_virtual(1);
  static constexpr wire::Target kOtherTarget = wire::target_of_virtual(2);
  static constexpr wire::Target kThirdTarget = wire::target_of_virtual(3);
  static constexpr std::uint64_t kSource = wire::kHostMemoryOffset + wire::kMiB;

  WorstQuanta();

  // The neighbour always has work that it has submitted already, however late this thread is: the card is contended,
  // and each function gets its smaller quanta.
  void keep_neighbour_busy();

  // ---- rows

  using Measured = std::variant<wire::AdminCommand, wire::Opcode>;
  // fw::kQuantumTicks are 60 microseconds, and the emulator executes about a thousand instructions of the firmware in
  // one (docs/performance.md, "Counts").
  static constexpr std::uint64_t kMostInstructions = 60'000;
  // Prints and judges one row. `measured`: what it is a row of.
  void expect_bounded(const std::string& what, std::initializer_list<Measured> measured,
                      const std::function<void()>& work, std::uint64_t most = kMostInstructions);

  using MakeRequest = std::function<wire::AdminRequest()>;
  // Requests go out together, so that a quantum takes as many as it may.
  void flood(raw::RawDriver& driver, const MakeRequest& make, unsigned requests, wire::Outcome expected);
  void flood_tenant(const MakeRequest& make, wire::Outcome expected = wire::Outcome::Ok,
                    unsigned requests = 4 * wire::kAdminSlots) {
    flood(tenant_.driver, make, requests, expected);
  }
  void flood_management(const MakeRequest& make, unsigned requests = 4 * wire::kAdminSlots) {
    flood(manager_.driver, make, requests, wire::Outcome::Ok);
  }
  void ask(raw::RawDriver& driver, const wire::AdminRequest& request);  // and is answered OK
  using MakeBlock = std::function<wire::ControlBlock()>;
  void flood_blocks(const MakeBlock& make);

  wire::AdminRequest request(wire::AdminCommand command) const { return tenant_.driver.admin_request(command); }
  // Of M, about another function.
  wire::AdminRequest request_about(wire::AdminCommand command, wire::Target target) const;

  // ---- states that make a command dear

  std::vector<raw::StreamHandle> open_all(raw::RawDriver& driver);
  std::vector<raw::StreamHandle> open_all() { return open_all(tenant_.driver); }
  void begin_again();
  // As many blocks as a stream may have, behind a wait that nothing fulfils.
  void fill_stream(raw::StreamHandle& stream, const raw::StreamHandle& awaited);
  void settle(raw::RawDriver& driver);
  void settle() { settle(tenant_.driver); }
  using BufferHandle = decltype(wire::AdminReply::Values::buffer);
  BufferHandle make_buffer(raw::RawDriver& driver, const wire::ControlBlock& block,
                           unsigned blocks = wire::kMaxBufferBlocks);
  static wire::ControlBlock call_of(const BufferHandle& buffer, wire::Opcode opcode = wire::Opcode::Call);
  raw::GrantHandle grant(const raw::StreamHandle& of_other, wire::Target to, const raw::RawDriver& grantee);
  // Everything at once: a wait in each stream, all grants that a function can have, and many command buffers.
  void hold_everything(raw::RawDriver& driver, wire::Target target, const raw::RegionHandle& region);

  CountingCard card_{{.virtual_functions = 3, .cores = 2, .spare_slots = kSpareSlots}};
  Client manager_{card_, kManagement};
  Client tenant_{card_, kTenant};
  Client other_{card_, kOther};
  raw::RegionHandle region_{};
  raw::StreamHandle other_stream_;

 private:
  std::vector<raw::StreamHandle> others_streams_;  // to be granted
  BufferHandle others_fills_{};                    // what it is busy with
};

}  // namespace counts
