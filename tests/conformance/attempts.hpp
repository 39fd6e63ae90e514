// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "tests/validation/raw/attempts.hpp"
#include "tests/validation/raw/unawaited.hpp"

namespace svp::conformance {

using raw::Attempts;
using raw::Targets;

// SPYRE_SEED, else a new one at each run; printed the first time it is asked for, so that a failure can be repeated.
std::uint64_t attack_seed();
// How much it was; scripts/attacks adds it up.
void print_counts(const raw::UnawaitedRequests& tenant);

}  // namespace svp::conformance
