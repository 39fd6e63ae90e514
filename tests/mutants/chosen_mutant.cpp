// SPDX-License-Identifier: Apache-2.0
// Takes the place of host_driver/base/no_mutant.cpp.
#include "tests/mutants/chosen_mutant.hpp"

#include <atomic>

namespace {

std::atomic<flex::HostMutant> chosen{flex::HostMutant::None};

}  // namespace

namespace flex {

HostMutant active_mutant() noexcept { return chosen.load(std::memory_order_relaxed); }

}  // namespace flex

namespace mutants {

void choose_host_mutant(flex::HostMutant mutant) { chosen = mutant; }

}  // namespace mutants
