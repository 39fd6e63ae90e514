// SPDX-License-Identifier: Apache-2.0
#include "tests/mutants/claims.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "tests/mutants/mutant.hpp"
#include "tests/validation/campaign/campaign.hpp"

namespace mutants {

namespace {

using svp::campaign::Claim;
using svp::campaign::Result;

// "own mutant", "same check as ROW: WHERE", or that there is nothing.
std::string text_of(const Cover& cover) {
  if (cover.own != nullptr) return "own mutant";
  if (cover.same != nullptr) return fmt::format("same check as {}: {}", cover.same->row, cover.same->why);
  return "NONE";
}

struct Sums {
  std::size_t own = 0, same = 0, none = 0, evidence = 0;
};

// A claim that a scenario makes more than once has one line.
void print_claims(const Result& result, Sums& sums) {
  std::set<std::pair<Proof, std::string>> printed;
  for (const Claim& claim : result.claims) {
    if (!printed.emplace(claim.proof, claim.name).second) continue;
    if (!needs_cover(claim.proof)) {
      ++sums.evidence;
      continue;
    }
    const Cover cover = cover_of(result.id, claim.proof, claim.name);
    ++(cover.own != nullptr ? sums.own : cover.same != nullptr ? sums.same : sums.none);
    fmt::print("{:<4} {:<9} {:<40} {}\n", result.id, name(claim.proof), claim.name, text_of(cover));
  }
}

}  // namespace

std::size_t list_claims(const std::vector<std::string>& scenarios, std::uint64_t seed) {
  svp::campaign::CampaignOptions options;
  options.seed = seed;
  options.only = scenarios;
  Sums sums;
  for (const auto& scenario : svp::campaign::run_campaign(options).scenarios) print_claims(scenario.runs.front(), sums);
  fmt::print(
      "{} claims have a mutant of their own, {} are the same check as one that has, {} have none; {} say that "
      "the fault fired\n",
      sums.own, sums.same, sums.none, sums.evidence);
  return sums.none;
}

}  // namespace mutants
