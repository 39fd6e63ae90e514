// SPDX-License-Identifier: Apache-2.0
// Every claim that the campaign makes, with what covers it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mutants {

// Runs these scenarios (empty: all) with nothing left out, and prints a line per claim. The number of those that
// nothing covers. Throws svp::Error when no card can be booted.
std::size_t list_claims(const std::vector<std::string>& scenarios, std::uint64_t seed);

}  // namespace mutants
