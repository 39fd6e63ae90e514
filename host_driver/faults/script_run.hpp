// SPDX-License-Identifier: Apache-2.0
// One run of a fault script against a card of its own, and the verdict on it: `spyre fault run` and `spyre replay` do
// this.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/device/card_options.hpp"
#include "host_driver/faults/evidence.hpp"
#include "host_driver/faults/script.hpp"
#include "host_driver/faults/standard_workload.hpp"

namespace svp::fault {

enum class Verdict : std::uint8_t {
  Ok,       // every fault fired, and everything ended typed, once and right
  Failed,   // something ended untyped, not at all or wrong
  Refused,  // the card did not take the script: nothing ran
  Invalid,  // a fault did not fire: nothing was shown of it
};

// "OK", "FAILED", "REFUSED", "INVALID".
std::string_view name(Verdict verdict);

struct ScriptRun {
  Script script{};
  std::chrono::seconds limit{10};                            // how long it waits for a fault to fire
  CardOptions card{};                                        // two VFs at least
  std::function<bool()> interrupted = [] { return false; };  // asked now and then: true ends the run early
};

struct ScriptRunResult {
  std::uint64_t seed = 0;
  std::vector<Evidence> evidence{};
  WorkloadReport victim{};     // on VF 1
  WorkloadReport neighbour{};  // on VF 2
  std::string refused{};       // why the card did not take the script; empty: it was armed
  std::string disarm_error{};
  std::string emulator{};  // its version
  std::string console{};

  Verdict verdict() const;
};

// Boots a card, arms the script, runs the standard workload on VF 1 until all has fired and it is whole, with another
// one on VF 2 beside it. Throws Error when no card can be booted.
ScriptRunResult run_script(const ScriptRun& run);

}  // namespace svp::fault
