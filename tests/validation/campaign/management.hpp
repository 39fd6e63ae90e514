// SPDX-License-Identifier: Apache-2.0
// What scenarios ask of M about other functions, and what M is told.
#pragma once

#include <chrono>

#include "host_driver/device/device.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp::campaign {

using test::figures_of;
using test::FunctionFigures;
using test::manage;
using test::ok_or_reason;
using test::pool_figures;
using test::PoolFigures;
using test::set_quota;

// Whether an event of this kind comes in time; all that come before are taken.
inline bool told(Device& device, wire::EventKind kind, std::chrono::nanoseconds timeout) {
  bool found = false;
  (void)device.wait_until(
      [&] {
        for (const auto& event : device.take_events()) found |= event.kind == kind;
        return found;
      },
      Device::Clock::now() + timeout);
  return found;
}

}  // namespace svp::campaign
