// SPDX-License-Identifier: Apache-2.0
// Runs a scenario twice on the mutants' firmware and with the mutants' driver: with no mutant chosen (the control run,
// which has to pass), and with one (which has to fail as the mutant says).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/mutants/mutant.hpp"

namespace mutants {

enum class Found : std::uint8_t {
  Killed,      // the claim failed, and nothing else
  Survived,    // everything passed: nothing looks at what the mutant does not do
  Elsewhere,   // it was noticed, but not by the claim, or by more than that
  Apart,       // the claim failed, but one that is said to be the same check did not
  Unfired,     // the scenario's fault did not happen: nothing was tested
  BadControl,  // the scenario fails without a mutant
};

constexpr std::string_view name(Found found) {
  constexpr std::string_view kNames[] = {"killed",       "survived",      "failed elsewhere", "not the same check",
                                         "did not fire", "control failed"};
  return kNames[static_cast<std::size_t>(found)];
}

struct Run {
  const Mutant* mutant = nullptr;
  Found found{};
  std::string seen;                          // what the claim said, or what was wrong
  std::vector<svp::campaign::Claim> failed;  // all claims that did not hold with the mutant, in their order
  std::chrono::nanoseconds took{};
};

// Throws svp::Error when no card can be booted. On the firmware that SPYRE_FIRMWARE names.
Run run(const Mutant& mutant, std::uint64_t seed);

}  // namespace mutants
