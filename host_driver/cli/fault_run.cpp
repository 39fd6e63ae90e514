// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/fault_run.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/faults/session.hpp"

namespace cli {

namespace {

// The neighbour works as long as the victim does.
void run_both(const std::shared_ptr<svp::Card>& card, svp::fault::Session& session, unsigned seconds,
              FaultRunResult& result) {
  std::atomic<bool> victim_ended{false};
  const std::chrono::seconds limit(seconds);
  std::thread neighbour([&] {
    svp::fault::WorkloadOptions beside;
    beside.function = 2;
    beside.seed = result.seed + 1;
    beside.limit = 2 * limit;
    beside.enough = [&] { return victim_ended.load(); };
    result.neighbour = svp::fault::run_workload(card, beside);
  });
  svp::fault::WorkloadOptions work;
  work.function = 1;
  work.seed = result.seed;
  work.hooks = session.hooks();
  work.limit = limit;
  work.ready = [&] { svp::value_or_throw(session.arm_memory()); };
  work.enough = [&] { return svp::fault::all_fired(session.evidence()); };
  result.victim = svp::fault::run_workload(card, work);
  victim_ended.store(true);
  neighbour.join();  // bounded: its workload ends with victim_ended, at the latest with its limit
}

// Two VFs at least, and a watchdog that ends a hung kernel long before a round of the workload is given up. What the
// caller's shape says of the rest stays.
svp::CardOptions card_for(const CardShape& shape) {
  svp::CardOptions card = card_options(shape, count_running_cards() + 1);
  card.virtual_functions = std::max(2u, card.virtual_functions);
  card.boot_arguments = "watchdog=200 " + card.boot_arguments;
  return card;
}

}  // namespace

int FaultRunResult::exit_code() const {
  if (!refused.empty()) return kRefused;
  if (!victim.contained() || !neighbour.contained()) return kNotAsWanted;
  return svp::fault::all_fired(evidence) ? kOk : kInvalid;
}

const char* FaultRunResult::verdict() const {
  switch (exit_code()) {
    case kOk: return "OK";
    case kRefused: return "REFUSED";
    case kInvalid: return "INVALID";
    default: return "FAILED";
  }
}

FaultRunResult run_fault_script(const FaultRun& run) {
  FaultRunResult result;
  result.seed = run.script.seed();
  const std::shared_ptr<svp::Card> card = svp::value_or_throw(svp::Card::boot(card_for(run.shape)));
  result.emulator = qemu::to_string(card->machine().version());
  const auto session = svp::value_or_throw(svp::fault::Session::begin(run.script));
  if (auto armed = session->arm(*card); !armed) {
    result.refused = svp::describe(armed.error());
  } else {
    run_both(card, *session, run.seconds, result);
  }
  if (auto disarmed = session->disarm(); !disarmed) result.disarm_error = svp::describe(disarmed.error());
  result.evidence = session->evidence();
  result.console = card->machine().console();
  return result;
}

}  // namespace cli
