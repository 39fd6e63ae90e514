// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <random>

#include "shared/crc32c.hpp"
#include "tests/mutants/mutant.hpp"

namespace mutants {

std::string name_of(const Mutant& mutant) {
  const std::string_view claim = mutant.claim.empty() ? name(mutant.proof) : mutant.claim;
  return std::string(mutant.scenario) + "/" + std::string(claim);
}

std::vector<const Mutant*> find(std::string_view name) {
  std::vector<const Mutant*> found;
  for (const Mutant& mutant : all()) {
    if (mutant.scenario == name || name_of(mutant) == name) found.push_back(&mutant);
  }
  return found;
}

std::vector<const Mutant*> choose(std::size_t count, std::string_view by) {
  std::vector<const Mutant*> chosen;
  for (const Mutant& mutant : all()) chosen.push_back(&mutant);
  if (by.empty()) return chosen;
  // Not std::shuffle: which ones it takes is the library's affair, and a commit's are the same everywhere.
  std::mt19937 random(wire::crc32c(0, by.data(), by.size()));
  for (std::size_t i = 0; i + 1 < chosen.size(); ++i) std::swap(chosen[i], chosen[i + random() % (chosen.size() - i)]);
  chosen.resize(std::min(count, chosen.size()));
  return chosen;
}

}  // namespace mutants
