// SPDX-License-Identifier: Apache-2.0
// `spyre replay`: the run of a failure bundle again, with its script and its seed, and both side by side.
#include <fmt/format.h>

#include "host_driver/bundle/replay.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/fault_run_bundle.hpp"

namespace cli {

int replay(const ReplayOptions& options) {
  const auto bundle = svp::value_or_throw(svp::bundle::read(options.bundle));
  if (bundle.kind != svp::bundle::Kind::FaultRun) become_validation({"replay", options.bundle});
  const FaultRun run = svp::value_or_throw(fault_run_of(bundle));
  const auto replayed =
      svp::bundle::replay(bundle, fault_run_rules(run.script), [&run] { return figures_of(run_fault_script(run)); });
  fmt::print("{}", replayed.text);
  return replayed.same ? kOk : kNotAsWanted;
}

}  // namespace cli
