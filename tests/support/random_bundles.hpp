// SPDX-License-Identifier: Apache-2.0
// Random bundles for the compiler: one to four operations over the same iteration space, with random orders, divisions
// among cores, gaps, repeated dimensions, loops, the pool and scratchpads. Or an operation over windows.
#pragma once

#include <cstdint>

#include "tests/support/bundle_builder.hpp"

namespace test {

// The same bundle for the same seed, on every machine.
BundleBuilder random_bundle(std::uint64_t seed);

// The first leaves values in the scratchpads and nowhere else, the second one begins with them.
struct BundlePair {
  BundleBuilder first;
  BundleBuilder second;
};
BundlePair random_pair(std::uint64_t seed);

}  // namespace test
