// SPDX-License-Identifier: Apache-2.0
// How many launches, contexts and address spaces there can be.
#pragma once

#include <cstdint>

#include "shared/boot_arguments.hpp"

namespace fw {

inline constexpr unsigned kMaxCores = 64;        // bits of a core mask
inline constexpr unsigned kContextsPerCore = 4;  // of one address space on one core
inline constexpr unsigned kLaunchFunctions = wire::boot::kMaxVirtualFunctions + 2;
inline constexpr unsigned kLaunchesPerFunction = 8;  // under way
inline constexpr unsigned kMaxLaunches = kLaunchFunctions * kLaunchesPerFunction;
inline constexpr unsigned kSpacesPerFunction = 4;  // the current one and those that only wait for their launches

}  // namespace fw
