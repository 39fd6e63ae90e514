// SPDX-License-Identifier: Apache-2.0
// What the conformance suite needs from a backend: a card with a function under test, and functions beside it. One
// backend is linked into a test program (qemu_provider.cpp, native_provider.cpp); it boots one card for the whole
// program and ends it with the program. The suite learns nothing else about what it runs on.
#pragma once

#include <cstdint>
#include <memory>

#include "host_driver/device/device.hpp"
#include "host_driver/transport/slot_handle.hpp"
#include "qemu/card.hpp"
#include "tests/conformance/workbench.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp::conformance {

class Provider {
 public:
  // PF under test: VFs 1 and 2 stand by. VF 1 under test: the PF and VF 2.
  static constexpr unsigned kBystanders = 2;

  virtual ~Provider() = default;

  // Physical or Virtual: what the function under test may do (docs/protocol.md §6).
  virtual wire::FunctionKind kind() const = 0;
  // The function under test, freshly reset. One owner at a time: a Device, or a driver of the test's own on slot().
  virtual std::unique_ptr<Device> open(OpenOptions options = {}) = 0;
  // Window and doorbells of the function under test, for a driver that is not ours.
  virtual SlotHandle slot() = 0;
  // Another function of the same card; `which` < kBystanders.
  virtual std::unique_ptr<Device> open_bystander(unsigned which = 0) = 0;
  // Fails the test when the card is not as well as it was after boot.
  virtual void expect_alive() = 0;

  // M, to grant waits across functions.
  virtual Device& management() = 0;

  // How many violations of the function under test the management function has counted since boot (FUNCTION_QUERY; it
  // is told of them by EventKind::FunctionViolation).
  virtual std::uint64_t violations() = 0;
};

// The figure of violations() as M tells it.
inline std::uint64_t violations_told_by(Device& management, unsigned function) {
  const auto reply = test::manage(management, wire::AdminCommand::FunctionQuery, wire::kTargetPhysical + function);
  EXPECT_EQ(reply.outcome, wire::Outcome::Ok) << wire::name(reply.status);
  return reply.values.function.violations;
}

// The program's backend. Good from the first test to the last.
Provider& provider();

// The card is alive, and so is this function of it: what every attack ends with.
inline void expect_healthy(Device& device) {
  provider().expect_alive();
  EXPECT_EQ(device.health(), Health::Alive);
  EXPECT_FALSE(device.failure());
  EXPECT_TRUE(device.card_statistics());
}

}  // namespace svp::conformance
