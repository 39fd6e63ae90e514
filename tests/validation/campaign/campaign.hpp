// SPDX-License-Identifier: Apache-2.0
// Runs scenarios one after the other on cards in the emulator, and keeps what they proved.
//
// Scenarios of one shape share a card as long as it is whole; after one that used it up (or failed) the next gets a new
// one. "Clean" is judged here: process and card are counted before a scenario and after everything of it was closed.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/validation/campaign/card_fixture.hpp"
#include "tests/validation/campaign/proof.hpp"
#include "tests/validation/campaign/scenario.hpp"

namespace svp::campaign {

struct CampaignOptions {
  std::uint64_t seed = 1;
  std::vector<std::string> only{};  // ids; empty: all
  unsigned repeat = 1;              // runs of each scenario; run r has seed + r
  Conditions conditions{};
  // A file per run that did not pass is written here (bundle.hpp). Empty: none.
  std::filesystem::path bundles{};
  // Called after each run, on the caller's thread.
  std::function<void(const Scenario&, const Result&)> on_result{};
  // Asked before each run: true ends the campaign there.
  std::function<bool()> interrupted = [] { return false; };
};

struct ScenarioReport {
  const Scenario* scenario = nullptr;
  std::vector<Result> runs;

  // The worst of all runs: Failed before Invalid before Passed.
  Verdict verdict() const;
  bool holds(Proof proof) const;  // in every run
};

struct CampaignReport {
  std::uint64_t seed = 0;
  unsigned repeat = 1;
  std::vector<ScenarioReport> scenarios;
  std::chrono::nanoseconds took{};
  bool interrupted = false;  // the last rows have fewer runs than `repeat`, or none

  std::size_t passed() const;
  bool all_passed() const { return !interrupted && passed() == scenarios.size(); }
};

// Throws svp::InvalidArgument for an id that does not exist, svp::Error when no card can be booted.
CampaignReport run_campaign(const CampaignOptions& options);

}  // namespace svp::campaign
