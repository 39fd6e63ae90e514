// SPDX-License-Identifier: Apache-2.0
// A failure bundle's run again, and both runs side by side.
#pragma once

#include <functional>
#include <string>

#include "host_driver/bundle/bundle.hpp"
#include "host_driver/bundle/figures.hpp"

namespace svp::bundle {

struct Replayed {
  bool same = false;  // everything comparable
  std::string text;   // for people
};

// `run` runs what the bundle tells of, and is not called for a bundle that names a figure which no run of its kind has:
// throws svp::Error then.
Replayed replay(const Bundle& bundle, const RuleOf& rule_of, const std::function<Figures()>& run);

}  // namespace svp::bundle
