// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "host_driver/device/device_source.hpp"
#include "qemu/card.hpp"

namespace svp {

// A function of an emulated card as the runtime opens it, again after each recovery: 0 the PF, n VF n. It keeps the
// card. Its highest reset level is the power cycle.
std::unique_ptr<DeviceSource> function_of(std::shared_ptr<Card> card, unsigned function, OpenOptions options = {});

}  // namespace svp
