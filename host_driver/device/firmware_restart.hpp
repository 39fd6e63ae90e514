// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_driver/device/device.hpp"

namespace svp {

// FIRMWARE_RESTART (docs/protocol.md, "Admin commands"). `management` is M. Returns when the card has accepted the
// command, or has restarted already; the restart is complete when the boot epoch has changed and the POST code is
// Ready. Errors: the card did not answer (Timeouts::admin), or refused the command.
Expected<void> ask_for_firmware_restart(Device& management);

}  // namespace svp
