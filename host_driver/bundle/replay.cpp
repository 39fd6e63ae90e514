// SPDX-License-Identifier: Apache-2.0
#include "host_driver/bundle/replay.hpp"

#include <fmt/format.h>

namespace svp::bundle {

namespace {

void require_known_figures(const Bundle& bundle, const RuleOf& rule_of) {
  for (const Figure& figure : bundle.seen) {
    if (rule_of(figure.group, figure.name)) continue;
    throw Error(refused_by_driver("seen",
                                  fmt::format("this is no failure bundle: a run of this kind has no figure '{}: {}'",
                                              figure.group.substr(0, 60), figure.name.substr(0, 60)),
                                  "name a file that a failed run left in its --bundles folder"));
  }
}

}  // namespace

Replayed replay(const Bundle& bundle, const RuleOf& rule_of, const std::function<Figures()>& run) {
  require_known_figures(bundle, rule_of);
  const auto rows = compare(bundle.seen, run(), rule_of);
  Replayed replayed{.same = same(rows), .text = fmt::format("{} with seed {}\n", name(bundle.kind), bundle.seed)};
  for (const auto& [what, version] : bundle.versions) {
    replayed.text += fmt::format("  {} of the bundle: {}\n", what, version);
  }
  replayed.text += fmt::format("\n{}\n{}\n", to_table(rows),
                               replayed.same ? "the same run: everything comparable is the same" : "NOT the same run");
  return replayed;
}

}  // namespace svp::bundle
