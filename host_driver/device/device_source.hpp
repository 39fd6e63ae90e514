// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "host_driver/device/device.hpp"
#include "host_driver/device/timeline_sharing.hpp"
#include "host_driver/recovery/reset_level.hpp"

namespace svp {

// Where a runtime's device comes from. One user at a time; calls block within the budgets of their reset levels.
class DeviceSource {
 public:
  virtual ~DeviceSource() = default;

  // The function, brought up afresh, which resets it. The device that came before is closed.
  virtual Expected<std::unique_ptr<Device>> open() = 0;
  // Firmware and above. Afterwards open() is worth trying; all other functions of the card are reset as well. A card
  // that somebody else has brought back since the last open() is left as it is.
  // `wanted`: the caller asked for this very reset level; else those below it have failed, which counts as a death of
  // the card when it is the power cycle.
  virtual Expected<void> raise(ResetLevel level, bool wanted) = 0;
  virtual ResetLevel highest() const = 0;
  // Waits for other functions of the card; null: there is nobody to grant them. The same for every device.
  virtual std::shared_ptr<TimelineSharing> sharing() { return nullptr; }
};

}  // namespace svp
