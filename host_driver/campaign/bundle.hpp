// SPDX-License-Identifier: Apache-2.0
// A failure bundle: everything that somebody needs to look at a run that did not pass, and to run it again, in one JSON file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "host_driver/campaign/artifacts.hpp"
#include "host_driver/campaign/proof.hpp"
#include "host_driver/campaign/scenario.hpp"
#include "host_driver/error.hpp"

namespace flex::campaign {

// Writes "<id>-seed-<seed>.spyre-bundle.json" into the folder, which is made when it is missing. Throws flex::Error.
std::filesystem::path write_bundle(const std::filesystem::path& folder, const Scenario& scenario, const Result& result);

struct Bundle {
  std::string scenario;
  std::uint64_t seed = 0;
  std::string verdict;                            // as it was
  std::string proofs;                             // "+-+++", in the order of kProofs
  std::map<std::string, std::uint64_t> outcomes;  // Artifacts::outcomes()
};
// REJECTED with the reason when the file is none of ours.
Expected<Bundle> read_bundle(const std::filesystem::path& file);

}  // namespace flex::campaign
