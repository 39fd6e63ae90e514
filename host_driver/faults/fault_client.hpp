// SPDX-License-Identifier: Apache-2.0
// FAULT_ARM as a client of M uses it (docs/protocol.md, section 7): rows of the card's fault table.
#pragma once

#include <cstdint>

#include "host_driver/device/device.hpp"
#include "shared/fault.hpp"

namespace svp::fault {

// A fault of any occurrence at the point, armed for `function` (or wire::kAnyFunction), in row 0.
wire::FaultSpec spec_of(wire::FaultPoint point, wire::FaultAction action, std::uint32_t function = wire::kAnyFunction,
                        wire::FaultTrigger trigger = wire::occurrences());

// One command per call, each bounded by the device's Timeouts::admin. Errors: the card did not answer (as
// Device::admin()), or refused: layer Firmware, source "FAULT_ARM", the card's outcome, the refused field in the
// message. Threading: as Device::admin(). The device outlives the client. Rows are not freed by the destructor.
class FaultClient {
 public:
  // `management`: M.
  explicit FaultClient(Device& management) : management_(management) {}

  // Arms `spec` in its row, which must be free. What the row has counted: nothing.
  Expected<wire::FaultEvidence> arm(wire::FaultSpec spec);
  Expected<wire::FaultEvidence> query(std::uint32_t row);
  // Frees the row. Returns its last evidence.
  Expected<wire::FaultEvidence> disarm(std::uint32_t row);
  Expected<void> disarm_all();
  // Device time, from QUERY.
  Expected<std::uint64_t> time();

 private:
  Expected<wire::FaultEvidence> send(const wire::FaultSpec& spec);

  Device& management_;
};

}  // namespace svp::fault
