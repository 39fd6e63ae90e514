// SPDX-License-Identifier: Apache-2.0
// What `spyre fault run` was asked for, and what `spyre replay` takes out of its bundle.
#pragma once

#include "host_driver/cli/card_shape.hpp"
#include "host_driver/faults/script_run.hpp"

namespace cli {

using FaultRunResult = svp::fault::ScriptRunResult;

inline constexpr unsigned kMostFaultRunSeconds = 600;

// Everything that decides a run.
struct FaultRun {
  svp::fault::Script script{};
  unsigned seconds = 10;  // how long it may wait for a fault to fire
  CardShape shape{};
};

// Throws svp::Error when no card can be booted.
FaultRunResult run_fault_script(const FaultRun& run);

int exit_code_of(svp::fault::Verdict verdict);

}  // namespace cli
