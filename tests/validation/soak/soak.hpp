// SPDX-License-Identifier: Apache-2.0
// `spyre soak`: a card under mixed load on all of its functions, with faults and resets at every level, for as long as
// anybody likes. Every result is compared, every block is accounted for, and what was there before is there afterwards.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host_driver/faults/standard_workload.hpp"
#include "tests/validation/soak/fault_scheduler.hpp"
#include "tests/validation/soak/stress_client.hpp"

namespace svp::soak {

struct SoakProgress {
  std::chrono::seconds ran{};
  std::uint64_t rounds = 0;  // of all stress clients
  std::uint64_t events = 0;  // of all disturbances
};

struct SoakOptions {
  std::chrono::milliseconds length{60'000};
  std::uint64_t seed = 1;
  bool until_complaint = false;                              // ends with the first one of a stress client
  std::function<bool(const struct SoakReport&)> enough{};    // asked now and then with what there is: true ends it
  bool undisturbed = false;                                  // the load only, in undisturbed time
  std::string words{};                                       // more boot words of the card; of tests
  std::function<bool()> interrupted = [] { return false; };  // asked now and then: true ends it early
  std::function<void(const SoakProgress&)> on_progress = [](const SoakProgress&) {};  // about every ten seconds
};

// PF and VF1 run the standard workload (kernels and transfers by way of streams and launch plans, results compared with
// the golden model); VF2 … VF4 are stress clients.
struct SoakReport {
  std::uint64_t seed = 0;
  std::chrono::nanoseconds took{};
  std::vector<fault::WorkloadReport> workloads{};
  std::vector<StressClientReport> clients{};
  FaultSchedulerReport disturbances{};
  std::vector<std::string> left{};  // what is there and was not before, or the other way round
  std::string broken_off{};         // why; empty: it came to its end
  bool interrupted = false;         // it ended early, because it was asked to

  bool clean() const;
  std::vector<std::string> complaints() const;  // of everybody
};

// Boots a card of its own. Throws svp::Error when it does not come up; never for what happens to it afterwards.
SoakReport run_soak(const SoakOptions& options);

std::string to_text(const SoakReport& report);
// {"schema_version", "seed", "interrupted", "seconds", "clean", "complaints": [text], "left": [text], "events": {name:
// n}, "faults": {name: {"armed", "fired"}}, "clients": [{"function", "blocks", "outcomes": {name: n}, "batches",
// "strict", "bytes_checked", "attachments", "stream_resets", "queue_resets", "function_resets", "regions",
// "waits", "statistics", "starved"}], "workloads": [{"function", "rounds", "results_right", "results_wrong",
// "stream_resets", "attachments", "outcomes": {name: n}}]}
std::string to_json(const SoakReport& report);

}  // namespace svp::soak
