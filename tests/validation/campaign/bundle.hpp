// SPDX-License-Identifier: Apache-2.0
// The failure bundle of a scenario: its id and its seed, which decide what it does.
//
// Which of its figures a second run has to show again: the verdict, each proof, whether the run came to its end, the
// faults that were armed (place, action and trigger) and whether each fired, and how many blocks ended REJECTED,
// TIMEOUT or FAULT for which reason, but for those that were stopped. Shown only: OK, ABORTED, LOST, INDETERMINATE and
// stopped blocks (a scenario races with the card: whether a block had begun when it was stopped), occurrences and shots
// counted.
#pragma once

#include <filesystem>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/bundle/bundle.hpp"
#include "tests/validation/campaign/artifacts.hpp"
#include "tests/validation/campaign/proof.hpp"
#include "tests/validation/campaign/scenario.hpp"

namespace svp::campaign {

// Writes "<id>-seed-<seed>.spyre-bundle.json" into the folder, which is made when it is missing. Throws svp::Error.
std::filesystem::path write_bundle(const std::filesystem::path& folder, const Scenario& scenario, const Result& result);

// The scenario of a bundle of this kind. REJECTED: members missing or unknown, a scenario that does not exist.
Expected<const Scenario*> scenario_of(const bundle::Bundle& bundle);

bundle::Figures figures_of(const Result& result);
std::optional<bundle::Rule> campaign_rule(std::string_view group, std::string_view name);

}  // namespace svp::campaign
