// SPDX-License-Identifier: Apache-2.0
// A campaign as a JUnit file: what CI systems show as tests.
#pragma once

#include <string>

#include "tests/validation/campaign/campaign.hpp"

namespace svp::campaign {

// One test suite; a test case per run ("F14 title", with its seed when there are several). Failed is a failure, Invalid
// an error (nothing was tested), a scenario that an interrupt left out is skipped. UTF-8; characters that XML does not
// know are replaced by "?".
std::string to_junit(const CampaignReport& report);

}  // namespace svp::campaign
