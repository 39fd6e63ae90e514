// SPDX-License-Identifier: Apache-2.0
// The part of F47 about device memory.
#pragma once

#include "tests/validation/campaign/scenario_context.hpp"

namespace svp::campaign {

// A bit of a launch's pool, and one of a slice's scratchpad, is inverted behind the operation that writes it and before
// the one that reads it.
void flip_workspace(ScenarioContext& context, unsigned function);

}  // namespace svp::campaign
