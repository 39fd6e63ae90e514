// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/validation/raw/bare_slot.hpp"

namespace svp::conformance {
using raw::BareSlot;
using raw::block_at;
using raw::completion_at;
}  // namespace svp::conformance
