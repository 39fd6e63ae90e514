// SPDX-License-Identifier: Apache-2.0
// The failure bundle of a soak: how long, with which seed, and whether it ended with the first complaint.
//
// The seed decides what each tenant sends and which faults are drawn; when each of them meets the other is decided by
// threads. So a second run has to show the same verdict: clean or not, results wrong or not, broken off or not,
// something left or not. Who complained, every number, every event and fault is shown beside the other run's and not
// compared.
#pragma once

#include <optional>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "host_driver/bundle/bundle.hpp"
#include "tests/validation/soak/soak.hpp"

namespace svp::soak {

inline constexpr std::chrono::milliseconds kLongestReplay = std::chrono::hours{24 * 70};  // as `spyre soak --minutes`

bundle::Bundle bundle_of(const SoakOptions& options, const SoakReport& report);
// The options out of a bundle of this kind. REJECTED: members missing, unknown or out of range.
Expected<SoakOptions> soak_of(const bundle::Bundle& bundle);

bundle::Figures figures_of(const SoakReport& report);
std::optional<bundle::Rule> soak_rule(std::string_view group, std::string_view name);

}  // namespace svp::soak
