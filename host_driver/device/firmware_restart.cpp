// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/firmware_restart.hpp"

#include <string>

#include "shared/fault.hpp"

namespace svp {

namespace {

wire::AdminRequest order(std::uint32_t row) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::FaultArm;
  wire::FaultSpec& fault = request.arguments.fault;
  fault.operation = wire::FaultOperation::Arm;
  fault.point = wire::FaultPoint::Firmware;
  fault.action = wire::FaultAction::Assert;
  fault.fault = row;
  fault.function = wire::kAnyFunction;
  fault.stream = wire::kAnyStream;
  fault.opcode = wire::kAnyOpcode;
  fault.first = fault.shots = 1;
  return request;
}

ErrorInfo refused(const wire::AdminReply& reply) {
  return {
      .layer = Layer::Firmware,
      .source = "M",
      .outcome = reply.outcome,
      .recoverable = true,
      .next_step = "reset the card",
      .message = "the card did not take the order to restart its firmware: " + std::string(wire::name(reply.status))};
}

}  // namespace

Expected<void> ask_for_firmware_restart(Device& management) {
  wire::AdminReply last{};
  // From the last row down: scripts of faults take the first ones.
  for (std::uint32_t row = wire::kFaultRows; row-- != 0;) {
    const auto reply = management.admin(order(row));
    if (!reply) {
      // The order may be carried out before it is answered.
      management.check();
      if (management.health() == Health::NeedsReset) return {};
      return std::unexpected(reply.error());
    }
    if (reply->outcome == wire::Outcome::Ok) return {};
    last = *reply;
    if (reply->status != wire::Status::Busy) break;
  }
  return std::unexpected(refused(last));
}

}  // namespace svp
