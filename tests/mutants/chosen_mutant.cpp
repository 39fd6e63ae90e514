// SPDX-License-Identifier: Apache-2.0
// Takes the place of host_driver/base/no_mutant.cpp.
#include "tests/mutants/chosen_mutant.hpp"

#include <atomic>

namespace {

std::atomic<svp::HostMutant> chosen{svp::HostMutant::None};

}  // namespace

namespace svp {

HostMutant active_mutant() noexcept { return chosen.load(std::memory_order_relaxed); }

}  // namespace svp

namespace mutants {

void choose_host_mutant(svp::HostMutant mutant) { chosen = mutant; }

}  // namespace mutants
