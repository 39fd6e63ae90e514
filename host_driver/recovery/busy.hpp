// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_driver/base/error.hpp"

namespace svp {

// The driver's own refusal of a command because another one has not ended yet: nothing was sent and nothing has
// changed. It says nothing about the card, so nobody may take it for a failure of the card.
inline bool refused_as_busy(const ErrorInfo& error) {
  return error.layer == Layer::Driver && error.status == wire::Status::Busy;
}

}  // namespace svp
