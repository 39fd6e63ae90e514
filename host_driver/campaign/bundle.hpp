// SPDX-License-Identifier: Apache-2.0
// The failure bundle of a scenario: its id and its seed, which decide what it does.
//
// Which of its figures a second run has to show again: the verdict, each proof, whether the run came to its end, the faults
// that were armed (place, action and trigger) and whether each fired, and which kinds of ends its blocks had. Shown only: how
// many blocks ended in which way, occurrences counted, numbers of shots beyond the first (scenarios race with the card).
#pragma once

#include <filesystem>
#include <string>

#include "host_driver/bundle/bundle.hpp"
#include "host_driver/campaign/artifacts.hpp"
#include "host_driver/campaign/proof.hpp"
#include "host_driver/campaign/scenario.hpp"
#include "host_driver/error.hpp"

namespace flex::campaign {

// Writes "<id>-seed-<seed>.spyre-bundle.json" into the folder, which is made when it is missing. Throws flex::Error.
std::filesystem::path write_bundle(const std::filesystem::path& folder, const Scenario& scenario, const Result& result);

// The scenario of a bundle of this kind. REJECTED: members missing or unknown, a scenario that does not exist.
Expected<const Scenario*> scenario_of(const bundle::Bundle& bundle);

bundle::Figures figures_of(const Result& result);
std::optional<bundle::Rule> campaign_rule(std::string_view group, std::string_view name);

}  // namespace flex::campaign
