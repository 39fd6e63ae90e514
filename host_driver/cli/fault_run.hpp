// SPDX-License-Identifier: Apache-2.0
// One run of a fault script against a card of its own: what `spyre fault run` does and `spyre replay` does again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host_driver/cli/card_shape.hpp"
#include "host_driver/faults/evidence.hpp"
#include "host_driver/faults/script.hpp"
#include "host_driver/faults/standard_workload.hpp"

namespace cli {

inline constexpr unsigned kMostFaultRunSeconds = 600;

// Everything that decides a run.
struct FaultRun {
  svp::fault::Script script{};
  unsigned seconds = 10;  // how long it may wait for a fault to fire
  CardShape shape{};
};

struct FaultRunResult {
  std::uint64_t seed = 0;
  std::vector<svp::fault::Evidence> evidence{};
  svp::fault::WorkloadReport victim{};     // on VF 1
  svp::fault::WorkloadReport neighbour{};  // on VF 2
  std::string refused{};                   // why the card did not take the script; empty: it was armed
  std::string disarm_error{};
  std::string emulator{};  // its version
  std::string console{};

  // 0 OK; 1 FAILED: something ended untyped, not at all or wrong; 2 REFUSED: not armed; 4 INVALID: a fault did not fire.
  int exit_code() const;
  const char* verdict() const;
};

// Boots a card, arms the script, runs the standard workload on VF 1 until all has fired and it is whole, with another one on
// VF 2 beside it. Throws svp::Error when no card can be booted.
FaultRunResult run_fault_script(const FaultRun& run);

}  // namespace cli
