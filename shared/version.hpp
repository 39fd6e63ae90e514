// SPDX-License-Identifier: Apache-2.0
// One number for the whole contract: every layout, constant and rule in shared/. Any change of one of them increments
// it; host and card compare on attach and name both numbers when they differ.
#pragma once

#include <cstdint>

namespace wire {

inline constexpr std::uint32_t kAbiVersion = 12;

}  // namespace wire
