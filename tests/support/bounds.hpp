// SPDX-License-Identifier: Apache-2.0
// What tests, benchmarks and the validation programs share of their bounds (tests/bounds.hpp,
// tests/validation/bounds.hpp).
#pragma once

#include <chrono>

namespace support_bounds {

// Descriptors, processes and threads of something that has ended are gone within this.
inline constexpr std::chrono::seconds kSettle{120};
// Between two looks at /proc.
// reached: each is followed by the next look
inline constexpr std::chrono::milliseconds kLook{2};

}  // namespace support_bounds
