// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/firmware_restart.hpp"

#include <string>

namespace svp {

Expected<void> ask_for_firmware_restart(Device& management) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::FirmwareRestart;
  const auto reply = management.admin(request);
  if (!reply) {
    // The card may restart before its reply is read.
    management.check();
    if (management.health() == Health::NeedsReset) return {};
    return std::unexpected(reply.error());
  }
  if (reply->outcome == wire::Outcome::Ok) return {};
  return std::unexpected(
      ErrorInfo{.layer = Layer::Firmware,
                .source = "M",
                .outcome = reply->outcome,
                .recoverable = true,
                .next_step = "reset the card",
                .message = "FIRMWARE_RESTART was refused: " + std::string(wire::name(reply->status))});
}

}  // namespace svp
