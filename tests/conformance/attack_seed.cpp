// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/conformance/attempts.hpp"

namespace svp::conformance {

std::uint64_t attack_seed() {
  static const std::uint64_t seed = [] {
    const char* text = std::getenv("SPYRE_SEED");
    const bool given = text != nullptr && *text != '\0';
    const std::uint64_t value =
        given ? std::strtoull(text, nullptr, 0) : std::random_device{}() * std::uint64_t{2654435769};
    std::printf("  attacks with seed %llu; SPYRE_SEED=%llu repeats them\n", static_cast<unsigned long long>(value),
                static_cast<unsigned long long>(value));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

void print_counts(const raw::UnawaitedRequests& tenant) {
  std::printf("  %6llu un-awaited requests\n  %6llu blocks beside them, %llu waits by a grant fulfilled\n",
              static_cast<unsigned long long>(tenant.requests()), static_cast<unsigned long long>(tenant.blocks()),
              static_cast<unsigned long long>(tenant.granted_waits_ok()));
}

}  // namespace svp::conformance
