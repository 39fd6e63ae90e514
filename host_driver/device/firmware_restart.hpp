// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_driver/device/device.hpp"

namespace svp {

// Asks the firmware, through M, to restart itself: a failed assertion that M orders (FAULT_ARM), so that the restart is the
// one that a real fault causes, record and all. Returns when the card has taken the order, or is gone already; the restart
// is there when the boot epoch has changed. Errors: M does not answer; a card that cannot (refused).
Expected<void> ask_for_firmware_restart(Device& management);

}  // namespace svp
