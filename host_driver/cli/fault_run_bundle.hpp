// SPDX-License-Identifier: Apache-2.0
// The failure bundle of `spyre fault run`: the script as it was read, with its seed, how long it ran and on what card.
//
// Which of its figures a second run has to show again:
//
//   exact, always                verdict, whether it was armed, whether a result was wrong, whether something ended untyped;
//                                each fault as the seed drew it, and whether it was armed
//   fired                        exact with one shot (once or never: the run waits for it), or when the shots need no more
//                                occurrences than the 8 rounds that every run has, not counted by time
//   results wrong, healed,       exact when each fault of the script only ends, or spoils, the block of VF 1 that it hits, or
//   counts of FAULT and TIMEOUT  delays something, and its "fired" is exact
//   how VF 2's blocks ended      (kinds) exact when no fault of the script reaches beyond VF 1
//   all else                     shown: rounds, right results, ABORTED blocks, occurrences, resets, times. Three streams race
//                                for the occurrence that fires, and the run ends when all has fired.
#pragma once

#include "host_driver/bundle/bundle.hpp"
#include "host_driver/cli/fault_run.hpp"

namespace cli {

svp::bundle::Bundle bundle_of(const FaultRun& run, const FaultRunResult& result);
// What ran, out of a bundle of this kind. REJECTED: members missing, unknown, of a wrong type or out of range; a script
// that `spyre fault run` would refuse, with its line in the script as it is written alone.
svp::Expected<FaultRun> fault_run_of(const svp::bundle::Bundle& bundle);

svp::bundle::Figures figures_of(const FaultRunResult& result);
svp::bundle::RuleOf fault_run_rules(const svp::fault::Script& script);

}  // namespace cli
