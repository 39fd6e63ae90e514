// SPDX-License-Identifier: Apache-2.0
// Devices as a program of torch-spyre counts them: indices 0 … device_count() − 1, chosen by FLEX_DEVICE, SPYRE_DEVICES
// and AIU_WORLD_SIZE (rules: docs/cards.md). Enumerated once per process. Thread-safe.
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <string>

namespace spyre::inline v0 {

// No card: 0. Throws Error when a variable is malformed, naming it.
SPYRE_API std::size_t device_count();
inline bool is_available() { return device_count() != 0; }

// The device that Context::open() takes: LOCAL_RANK, else 0. Throws Error when it is out of range, naming index and
// count.
SPYRE_API std::size_t default_device();

// "VF2 of card0". Throws Error when the index is out of range.
SPYRE_API std::string device_name(std::size_t index);

}  // namespace spyre::inline v0
