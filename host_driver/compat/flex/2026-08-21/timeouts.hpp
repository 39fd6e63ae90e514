// SPDX-License-Identifier: Apache-2.0
// Bounds on the waits of libflex, each with its reason. Those of the driver below are in host_driver/base/timeouts.hpp.
#pragma once

#include <chrono>

namespace flex::detail {

// At the end of a context: so long it waits for calls of other threads that are inside of it. Most take microseconds;
// one that waits for the card may take as long as its work. Then the device is left to the end of the process, which
// ends the card as well.
inline constexpr std::chrono::seconds kCallsEnd{2};

// Likewise for a callback of the program that is running. It may wait for a lock that the ending thread holds.
inline constexpr std::chrono::milliseconds kCallbackEnd{500};

// Who opens the device again while another thread ends its last runtime: both waits above, and the end of the device.
inline constexpr std::chrono::seconds kCloseEnd{10};

}  // namespace flex::detail
