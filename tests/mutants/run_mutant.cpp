// SPDX-License-Identifier: Apache-2.0
#include "tests/mutants/run_mutant.hpp"

#include <algorithm>
#include <iterator>

#include "shared/boot_arguments.hpp"
#include "tests/mutants/chosen_mutant.hpp"
#include "tests/validation/campaign/campaign.hpp"

namespace mutants {

namespace {

using svp::campaign::CampaignOptions;
using svp::campaign::Claim;
using svp::campaign::Conditions;
using svp::campaign::kProofs;
using svp::campaign::Result;
using svp::campaign::Verdict;

Result run_once(const Mutant& mutant, std::uint64_t seed, Conditions conditions) {
  CampaignOptions options;
  options.seed = seed;
  options.only = {std::string(mutant.scenario)};
  options.conditions = std::move(conditions);
  return svp::campaign::run_campaign(options).scenarios.front().runs.front();
}

// Whatever happens, the next run is without it.
class HostMutantChosen {
 public:
  explicit HostMutantChosen(svp::HostMutant mutant) { choose_host_mutant(mutant); }
  ~HostMutantChosen() { choose_host_mutant(svp::HostMutant::None); }
  HostMutantChosen(const HostMutantChosen&) = delete;
  HostMutantChosen& operator=(const HostMutantChosen&) = delete;
};

Conditions conditions_of(const Mutant& mutant) {
  Conditions conditions{.words = {}, .short_timeout = true};
  if (mutant.card == fw::Mutant::None) return conditions;
  const auto word = [](std::string_view key, unsigned value) { return std::string(key) + "=" + std::to_string(value); };
  conditions.words = word(wire::boot::kMutant, static_cast<unsigned>(mutant.card));
  if (mutant.status != wire::Status::None) {
    conditions.words += " " + word(wire::boot::kMutantStatus, static_cast<unsigned>(mutant.status));
  }
  return conditions;
}

std::string failures(const Result& result) {
  std::string text;
  for (const Proof proof : kProofs) {
    if (result[proof].holds) continue;
    text += std::string(name(proof)) + ": " + (result[proof].given ? result[proof].seen : "not proved") + ". ";
  }
  if (!result.trouble.empty()) text += "broken off: " + result.trouble;
  return text;
}

const Claim* failed_claim(const Mutant& mutant, const Result& result) {
  const auto found = std::ranges::find_if(result.claims, [&](const Claim& claim) {
    return claim.proof == mutant.proof && claim.name == mutant.claim && !claim.holds;
  });
  return found == result.claims.end() ? nullptr : &*found;
}

bool failed(const Result& result, const Claim& like) {
  return std::ranges::any_of(result.claims, [&](const Claim& claim) {
    return claim.proof == like.proof && claim.name == like.name && !claim.holds;
  });
}

// The first claim that is said to be the row's check, and holds. One that is made for several things need fail for one.
const Claim* other_check(const Mutant& mutant, const Result& result) {
  const auto found = std::ranges::find_if(result.claims, [&](const Claim& claim) {
    const SameCheck* same = cover_of(result.id, claim.proof, claim.name).same;
    return same != nullptr && !same->apart && same->row == name_of(mutant) && !failed(result, claim);
  });
  return found == result.claims.end() ? nullptr : &*found;
}

void judge(Run& run, const Result& result) {
  const Mutant& mutant = *run.mutant;
  run.seen = failures(result);
  std::ranges::copy_if(result.claims, std::back_inserter(run.failed), [](const Claim& claim) { return !claim.holds; });
  const Proofs expected = only(mutant.proof) | mutant.also;
  if (!result[Proof::Fired].holds && (expected & only(Proof::Fired)) == 0) {
    run.found = Found::Unfired;
    return;
  }
  if (result.verdict() == Verdict::Passed) {
    run.found = Found::Survived;
    return;
  }
  const Claim* claim = failed_claim(mutant, result);
  const bool nothing_else =
      std::ranges::all_of(kProofs, [&](Proof proof) { return result[proof].holds || (expected & only(proof)) != 0; });
  const bool to_the_end = result.trouble.empty() || mutant.breaks_off;
  run.found = claim != nullptr && nothing_else && to_the_end ? Found::Killed : Found::Elsewhere;
  if (run.found != Found::Killed) return;
  run.seen = claim->seen;
  if (const Claim* other = other_check(mutant, result)) {
    run.found = Found::Apart;
    run.seen = other->name + " holds";
  }
}

}  // namespace

Run run(const Mutant& mutant, std::uint64_t seed) {
  const auto began = std::chrono::steady_clock::now();
  Run run{.mutant = &mutant, .found = Found::BadControl, .seen = {}, .failed = {}, .took = {}};
  const Result control = run_once(mutant, seed, {});
  if (control.verdict() == Verdict::Passed) {
    const HostMutantChosen chosen(mutant.driver);
    judge(run, run_once(mutant, seed, conditions_of(mutant)));
  } else {
    run.seen = failures(control);
  }
  run.took = std::chrono::steady_clock::now() - began;
  return run;
}

}  // namespace mutants
