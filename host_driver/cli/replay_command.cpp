// SPDX-License-Identifier: Apache-2.0
// `spyre replay`: the run of a failure bundle again, with its script and its seed, and both side by side.
#include <fmt/format.h>

#include <utility>

#include "host_driver/bundle/bundle.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/fault_run_bundle.hpp"
#include "tests/validation/campaign/bundle.hpp"
#include "tests/validation/campaign/campaign.hpp"
#include "tests/validation/soak/bundle.hpp"

namespace cli {

namespace {

using flex::bundle::Bundle;
using flex::bundle::Figures;
using flex::bundle::Kind;
using flex::bundle::RuleOf;

struct Again {
  Figures seen;
  RuleOf rule_of;
};

// A file can name figures that no run has; it is refused before anything runs.
void require_known_figures(const Bundle& bundle, const RuleOf& rule_of) {
  for (const auto& figure : bundle.seen) {
    if (rule_of(figure.group, figure.name)) continue;
    throw flex::Error({.layer = flex::Layer::Driver,
                       .culprit = "seen",
                       .outcome = wire::Outcome::Rejected,
                       .recoverable = true,
                       .next_step = "name a file that a failed run left in its --bundles folder",
                       .message = fmt::format("this is no failure bundle: a run of this kind has no figure '{}: {}'",
                                              figure.group.substr(0, 60), figure.name.substr(0, 60))});
  }
}

Again scenario_again(const Bundle& bundle) {
  const auto* scenario = flex::value_or_throw(flex::campaign::scenario_of(bundle));
  const RuleOf rule_of = flex::campaign::campaign_rule;
  require_known_figures(bundle, rule_of);
  flex::campaign::CampaignOptions campaign;
  campaign.seed = bundle.seed;
  campaign.only = {std::string(scenario->id)};
  const auto report = flex::campaign::run_campaign(campaign);
  return {flex::campaign::figures_of(report.scenarios.front().runs.front()), rule_of};
}

Again fault_run_again(const Bundle& bundle) {
  const FaultRun run = flex::value_or_throw(fault_run_of(bundle));
  const RuleOf rule_of = fault_run_rules(run.script);
  require_known_figures(bundle, rule_of);
  return {figures_of(run_fault_script(run)), rule_of};
}

Again soak_again(const Bundle& bundle) {
  const auto options = flex::value_or_throw(flex::soak::soak_of(bundle));
  const RuleOf rule_of = flex::soak::soak_rule;
  require_known_figures(bundle, rule_of);
  return {flex::soak::figures_of(flex::soak::run_soak(options)), rule_of};
}

Again run_again(const Bundle& bundle) {
  switch (bundle.kind) {
    case Kind::Campaign: return scenario_again(bundle);
    case Kind::FaultRun: return fault_run_again(bundle);
    case Kind::Soak: return soak_again(bundle);
  }
  throw flex::InvalidArgument("bundle", "its kind is not known", "name another bundle");
}

}  // namespace

int replay(const ReplayOptions& options) {
  const Bundle bundle = flex::value_or_throw(flex::bundle::read(options.bundle));
  const Again again = run_again(bundle);
  const auto rows = flex::bundle::compare(bundle.seen, again.seen, again.rule_of);
  fmt::print("{} with seed {}\n", name(bundle.kind), bundle.seed);
  for (const auto& [what, version] : bundle.versions) fmt::print("  {} of the bundle: {}\n", what, version);
  fmt::print("\n{}\n", flex::bundle::to_table(rows));
  const bool same = flex::bundle::same(rows);
  fmt::print("{}\n", same ? "the same run: everything comparable is the same" : "NOT the same run");
  return same ? kOk : kNotAsWanted;
}

}  // namespace cli
