// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/mutants/mutant.hpp"

namespace mutants {

bool names(const SameCheck& same, std::string_view scenario, Proof proof, std::string_view claim) {
  if (proof != same.proof || (same.scenario != "*" && same.scenario != scenario)) return false;
  const std::size_t star = same.claim.find('*');
  if (star == std::string_view::npos) return claim == same.claim;
  const std::string_view begin = same.claim.substr(0, star), end = same.claim.substr(star + 1);
  return claim.size() >= begin.size() + end.size() && claim.starts_with(begin) && claim.ends_with(end);
}

Cover cover_of(std::string_view scenario, Proof proof, std::string_view claim) {
  Cover cover;
  const auto own = std::ranges::find_if(all(), [&](const Mutant& mutant) {
    return mutant.scenario == scenario && mutant.proof == proof && mutant.claim == claim;
  });
  const auto same =
      std::ranges::find_if(same_checks(), [&](const SameCheck& one) { return names(one, scenario, proof, claim); });
  if (own != all().end()) {
    cover.own = &*own;
  } else if (same != same_checks().end()) {
    cover.same = &*same;
  }
  return cover;
}

}  // namespace mutants
