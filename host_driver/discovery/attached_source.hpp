// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "host_driver/device/device_source.hpp"
#include "host_driver/discovery/attach.hpp"

namespace svp {

// Opens a function of a long-lived card again: on the slot that this process has still, or, when the broker has let it
// go (a power cycle), by asking the broker for the same function. Suggests no reset level above the function reset,
// because others use the card as well; a reset of the function that does not end is the broker's to escalate.
// `attached` holds its device.
std::unique_ptr<DeviceSource> source_of(const AttachedFunction& attached, std::string card_path, OpenOptions options,
                                        Timeouts timeouts = {});

}  // namespace svp
