// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/fault_run.hpp"

#include <algorithm>

#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/signals.hpp"

namespace cli {

namespace {

// Two VFs at least, and a watchdog that ends a hung kernel long before a round of the workload is given up. What the
// caller's shape says of the rest stays.
svp::CardOptions card_for(const CardShape& shape) {
  svp::CardOptions card = card_options(shape, count_running_cards() + 1);
  card.virtual_functions = std::max(2u, card.virtual_functions);
  card.boot_arguments = "watchdog=200 " + card.boot_arguments;
  return card;
}

}  // namespace

FaultRunResult run_fault_script(const FaultRun& run) {
  return svp::fault::run_script({.script = run.script,
                                 .limit = std::chrono::seconds(run.seconds),
                                 .card = card_for(run.shape),
                                 .interrupted = InterruptNote::came});
}

int exit_code_of(svp::fault::Verdict verdict) {
  using svp::fault::Verdict;
  switch (verdict) {
    case Verdict::Ok: return kOk;
    case Verdict::Refused: return kRefused;
    case Verdict::Invalid: return kInvalid;
    case Verdict::Failed: break;
  }
  return kNotAsWanted;
}

}  // namespace cli
