// SPDX-License-Identifier: Apache-2.0
// The function under test in hostile hands: makes attempts through a driver that is not ours, and holds the card to its
// promise that each ends typed, exactly once, and that the rings go on.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/conformance/attempts.hpp"
#include "tests/conformance/bare_slot.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/unit/firmware/core/raw_driver.hpp"

namespace svp::conformance {

class Attacker {
 public:
  // `foreign`: regions of others, to be aimed at. `image`: of a kernel that ends at once; empty where there are none.
  Attacker(std::vector<fwtest::RegionHandle> foreign, std::vector<std::byte> image = {});
  ~Attacker();  // status 0: the function is free again
  // Grants of events that others hold, by the names that they have there.
  void know(const std::vector<fwtest::GrantHandle>& grants);
  Attacker(const Attacker&) = delete;
  Attacker& operator=(const Attacker&) = delete;

  // From status 0: two regions of its own, one that it gave back, kStreams streams. False when a step failed.
  bool begin(std::uint64_t features = wire::kMandatoryFeatures);

  // Each makes `count` attempts and fails the test at the first that does not end as documented.
  void control_blocks(std::uint64_t seed, std::uint64_t count);
  void chains(std::uint64_t seed, std::uint64_t count);
  void admin_requests(std::uint64_t seed, std::uint64_t count);
  // Blocks and admin requests beside each other, in rounds that begin with a reset of the function. Every other round
  // nobody waits for what was submitted, and the reset of the next one meets it.
  void blocks_beside_requests(std::uint64_t seed, std::uint64_t rounds);

  // A fill that works as it should: the function is as good as new.
  void expect_works();

  // How many attempts were made, and how each kind of them ended: "REJECTED unknown region" → 17.
  std::uint64_t attempts() const { return attempts_; }
  std::uint64_t refused() const { return refused_; }
  const std::map<std::string, std::uint64_t>& endings() const { return endings_; }
  // As control_blocks(), and on with other seeds until a block of each of these opcodes was executed. Fails the test
  // when that does not come.
  void control_blocks_until(std::uint64_t seed, std::uint64_t count, std::span<const wire::Opcode> executed);
  // Attempts with this opcode, and with this command, that ended OK.
  std::uint64_t executed(wire::Opcode opcode) const { return executed_[static_cast<std::size_t>(opcode)]; }
  void print_executed() const;  // of each opcode
  std::uint64_t fulfilled(wire::AdminCommand command) const { return fulfilled_[static_cast<std::size_t>(command)]; }

  fwtest::RawDriver& driver() { return *driver_; }
  BareSlot& slot() { return slot_; }
  const Targets& targets() const { return targets_; }

 private:
  static constexpr unsigned kStreams = wire::kStreamsPerFunction;

  bool open_streams();
  bool signal();
  bool load_image();
  void heal_streams();
  void write_entries(Attempts& attempts);
  void change_buffers(Attempts& attempts);
  void submit_attempt(Attempts& attempts, const fwtest::StreamHandle& stream);
  void await_blocks(std::uint64_t first);
  void await_requests();
  void check_patch(const wire::PatchPayload& patch);
  void check_reply(const wire::AdminRequest& request, const wire::AdminReply& reply);
  void check_block_end(const wire::ControlBlock& block, const fwtest::Ended& ended);
  bool add_chain(Attempts& attempts, std::uint16_t id);
  void await_chains(std::size_t count);
  void note(wire::Outcome outcome, wire::Status status);

  BareSlot slot_;
  std::optional<fwtest::RawDriver> driver_;
  const std::vector<std::byte> image_;
  Targets targets_;
  std::vector<fwtest::StreamHandle> streams_;
  std::vector<fwtest::RegionHandle> acquired_;  // by attempts, since the last reset
  std::array<wire::ControlBlock, Attempts::kEntries> entries_{};
  std::map<std::uint16_t, wire::ControlBlock> blocks_;    // under way, by slot
  std::map<std::uint16_t, wire::AdminRequest> requests_;  // likewise
  std::array<std::uint64_t, static_cast<std::size_t>(wire::kLastOpcode) + 1> executed_{};
  std::array<std::uint64_t, static_cast<std::size_t>(wire::kLastAdminCommand) + 1> fulfilled_{};
  std::uint64_t attempts_ = 0;
  std::uint64_t refused_ = 0;
  std::map<std::string, std::uint64_t> endings_;
};

}  // namespace svp::conformance
