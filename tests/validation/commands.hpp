// SPDX-License-Identifier: Apache-2.0
// The subcommands of `spyre` that are test equipment: spyre passes their words on to this program. Each returns the
// process's exit code; errors travel as exceptions to main().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace validation {

struct FaultCampaignOptions {
  std::uint64_t seed = 1;
  std::vector<std::string> only{};
  unsigned repeat = 1;
  bool mutate = false;
  bool json = false;
  std::string html{};     // empty: no page
  std::string junit{};    // empty: no JUnit file
  std::string bundles{};  // empty: no failure bundles
};

// The scenarios (docs/campaign.md), on cards of its own. 0: all passed; 1: not; 4: a fault did not fire,
// and nothing else went wrong. `mutate` is refused: this program leaves no check out.
int fault_campaign(const FaultCampaignOptions& options);

struct SoakOptions {
  double minutes = 1;
  std::uint64_t seed = 1;
  bool until_complaint = false;
  bool json = false;
  std::string bundles{};  // empty: no failure bundle
};

// Works a card hard and disturbs it at every level (docs/reliability.md). 0: clean; 1: not.
int soak(const SoakOptions& options);

// The run of a failure bundle of a campaign or a soak again (`spyre replay`). 0: everything comparable is the same; 1:
// something differs.
int replay(const std::string& file);

struct FaultTenantOptions {
  std::string card{};
  std::string function{};
  std::string task{};
  std::uint64_t seed = 0;
};

// What a campaign starts in processes of their own; not for people.
int fault_tenant(const FaultTenantOptions& options);

}  // namespace validation
