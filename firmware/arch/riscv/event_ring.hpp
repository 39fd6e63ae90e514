// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shared/fatal_record.hpp"

namespace riscv {

// The last events (hal::note), with the index of the oldest.
void copy_events(wire::FatalRecord& record);

}  // namespace riscv
