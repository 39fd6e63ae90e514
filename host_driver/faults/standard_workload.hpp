// SPDX-License-Identifier: Apache-2.0
// What a script is triggered on: a function of a card that transfers, launches kernels on several streams and checks
// every byte that comes back, until told that it is enough. Errors are typed, or they are findings.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host_driver/transport/fault_hooks.hpp"
#include "qemu/card.hpp"

namespace svp::fault {

struct WorkloadOptions {
  unsigned function = 1;   // 0: PF; n: VF n
  std::uint64_t seed = 1;  // of the data
  FaultHooks hooks{};
  unsigned streams = 3;
  unsigned rounds = 8;  // at least
  // Called once, when it has attached and holds its memory.
  std::function<void()> ready = [] {};
  // Asked after each round beyond those that was right, with what there is until then; also ended by `limit`.
  std::function<bool(const struct WorkloadReport&)> enough = [](const auto&) { return true; };
  std::chrono::milliseconds limit{10'000};
  // What one round may take before its streams are reset: a round takes milliseconds, the card's watchdog, which ends
  // kernels that hang, less than this.
  std::chrono::milliseconds round_limit{5'000};
  // How long it goes on trying to attach, besides a few attempts: the card may be coming up.
  std::chrono::milliseconds attach_limit{0};
  bool small = false;  // regions of 256 MiB: as many functions as the card has work beside each other
};

struct WorkloadReport {
  std::string function;
  std::map<std::string, std::uint64_t> outcomes;  // of blocks: "OK", "FAULT: stray load", …
  std::map<std::string, std::uint64_t> errors;    // typed, as one line each
  std::vector<std::string> untyped;               // exceptions of other kinds, lost launches, waits without an end
  std::uint64_t rounds = 0;
  std::uint64_t results_right = 0;
  std::uint64_t results_wrong = 0;  // of launches that ended OK
  std::uint64_t stream_resets = 0;
  std::uint64_t attachments = 0;  // successful ones; more than 1: it had to start over
  bool healed = false;            // the last round was right on every stream

  // No result wrong, nothing untyped.
  bool contained() const { return results_wrong == 0 && untyped.empty(); }
};

// Never throws; bounded by `limit`, `round_limit` and the card's own time-outs. Any thread.
WorkloadReport run_workload(const std::shared_ptr<Card>& card, const WorkloadOptions& options) noexcept;

}  // namespace svp::fault
