// SPDX-License-Identifier: Apache-2.0
// Which check of driver and broker is left out in this process. Set between two runs, while no card is there.
#pragma once

#include "host_driver/base/mutants.hpp"

namespace mutants {

void choose_host_mutant(svp::HostMutant mutant);

}  // namespace mutants
