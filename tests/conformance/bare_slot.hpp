// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_driver/raw/bare_slot.hpp"

namespace flex::conformance {
using raw::BareSlot;
using raw::block_at;
using raw::completion_at;
}  // namespace flex::conformance
