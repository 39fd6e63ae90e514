// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "host_driver/bundle/replay.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "tests/validation/campaign/bundle.hpp"
#include "tests/validation/campaign/campaign.hpp"
#include "tests/validation/commands.hpp"
#include "tests/validation/soak/bundle.hpp"

namespace validation {

namespace {

using svp::bundle::Bundle;
using svp::bundle::Kind;
using svp::bundle::Replayed;

Replayed scenario_again(const Bundle& bundle) {
  const auto* scenario = svp::value_or_throw(svp::campaign::scenario_of(bundle));
  return svp::bundle::replay(bundle, svp::campaign::campaign_rule, [&] {
    svp::campaign::CampaignOptions campaign;
    campaign.seed = bundle.seed;
    campaign.only = {std::string(scenario->id)};
    return svp::campaign::figures_of(svp::campaign::run_campaign(campaign).scenarios.front().runs.front());
  });
}

Replayed soak_again(const Bundle& bundle) {
  const auto options = svp::value_or_throw(svp::soak::soak_of(bundle));
  return svp::bundle::replay(bundle, svp::soak::soak_rule,
                             [&] { return svp::soak::figures_of(svp::soak::run_soak(options)); });
}

Replayed again(const Bundle& bundle) {
  switch (bundle.kind) {
    case Kind::Campaign: return scenario_again(bundle);
    case Kind::Soak: return soak_again(bundle);
    case Kind::FaultRun: break;
  }
  throw svp::InvalidArgument("bundle", "it is of a fault script", "give it to spyre replay");
}

}  // namespace

int replay(const std::string& file) {
  const Replayed replayed = again(svp::value_or_throw(svp::bundle::read(file)));
  fmt::print("{}", replayed.text);
  return replayed.same ? cli::kOk : cli::kNotAsWanted;
}

}  // namespace validation
