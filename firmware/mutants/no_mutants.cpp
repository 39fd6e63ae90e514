// SPDX-License-Identifier: Apache-2.0
// The firmware as it is shipped: every check is made.
#include "firmware/mutants/mutants.hpp"

namespace fw {

bool mutated(Mutant, wire::Status) noexcept { return false; }

bool choose_mutant(std::uint64_t mutant, std::uint64_t status) noexcept { return mutant == 0 && status == 0; }

}  // namespace fw
