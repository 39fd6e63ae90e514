// SPDX-License-Identifier: Apache-2.0
// Driver and broker as they are shipped. Nothing else may stand in this file: a program that defines this function
// itself (tests/mutants) is linked without it.
#include "host_driver/base/mutants.hpp"

namespace svp {

HostMutant active_mutant() noexcept { return HostMutant::None; }

}  // namespace svp
