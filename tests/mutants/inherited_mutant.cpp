// SPDX-License-Identifier: Apache-2.0
// Takes the place of host_driver/base/no_mutant.cpp in a program that spyre-mutant's campaign starts: the mutant is
// that of the parent, which says so in the environment.
#include <cstdlib>

#include "host_driver/base/mutants.hpp"

namespace svp {

HostMutant active_mutant() noexcept {
  static const HostMutant inherited = [] {
    const char* const number = std::getenv(kMutantVariable);
    return number == nullptr ? HostMutant::None : static_cast<HostMutant>(std::strtoul(number, nullptr, 10));
  }();
  return inherited;
}

}  // namespace svp
