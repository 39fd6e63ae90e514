// SPDX-License-Identifier: Apache-2.0
// Whether M finds a function as it was.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tests/validation/campaign/card_fixture.hpp"
#include "tests/validation/campaign/management.hpp"

namespace svp::campaign {

inline constexpr wire::Target kFaultingTarget = wire::target_of_virtual(kFaulting);
inline constexpr wire::Target kNeighbour = wire::target_of_virtual(kBystander);

// What the card says of a function and no reset of another one may change.
struct Standing {
  wire::FunctionState state{};
  std::uint64_t generation = 0;
  std::uint64_t resets = 0;
  std::uint64_t granted_bytes = 0;
  std::uint64_t violations = 0;
  friend bool operator==(const Standing&, const Standing&) = default;
};
inline Standing standing_of(Device& management, wire::Target target) {
  const auto figures = figures_of(management, target);
  return {figures.state, figures.generation, figures.resets, figures.granted_bytes, figures.violations};
}
inline std::vector<Standing> standings(Device& management, std::initializer_list<wire::Target> targets) {
  std::vector<Standing> all;
  for (const wire::Target target : targets) all.push_back(standing_of(management, target));
  return all;
}

}  // namespace svp::campaign
