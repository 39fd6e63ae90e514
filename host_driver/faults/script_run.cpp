// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/script_run.hpp"

#include <atomic>
#include <memory>
#include <thread>

#include "host_driver/faults/session.hpp"

namespace svp::fault {

namespace {

// The neighbour works as long as the victim does.
void run_both(const std::shared_ptr<Card>& card, Session& session, const ScriptRun& run, ScriptRunResult& result) {
  const std::chrono::seconds limit = run.limit;
  std::atomic<bool> victim_ended{false};
  std::thread neighbour([&] {
    WorkloadOptions beside;
    beside.function = 2;
    beside.seed = result.seed + 1;
    beside.limit = 2 * limit;
    beside.enough = [&](const auto&) { return victim_ended.load(); };
    result.neighbour = run_workload(card, beside);
  });
  WorkloadOptions work;
  work.function = 1;
  work.seed = result.seed;
  work.hooks = session.hooks();
  work.limit = limit;
  work.ready = [&] { value_or_throw(session.arm_memory()); };
  work.enough = [&](const auto&) { return run.interrupted() || all_fired(session.evidence()); };
  result.victim = run_workload(card, work);
  victim_ended.store(true);
  neighbour.join();  // bounded: its workload ends with victim_ended, at the latest with its limit
}

}  // namespace

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Ok: return "OK";
    case Verdict::Failed: return "FAILED";
    case Verdict::Refused: return "REFUSED";
    case Verdict::Invalid: return "INVALID";
  }
  return "unknown verdict";
}

Verdict ScriptRunResult::verdict() const {
  if (!refused.empty()) return Verdict::Refused;
  if (!victim.contained() || !neighbour.contained()) return Verdict::Failed;
  return all_fired(evidence) ? Verdict::Ok : Verdict::Invalid;
}

ScriptRunResult run_script(const ScriptRun& run) {
  ScriptRunResult result;
  result.seed = run.script.seed();
  const std::shared_ptr<Card> card = value_or_throw(Card::boot(run.card));
  result.emulator = qemu::to_string(card->machine().version());
  const auto session = value_or_throw(Session::begin(run.script));
  if (auto armed = session->arm(*card); !armed) {
    result.refused = describe(armed.error());
  } else {
    run_both(card, *session, run, result);
  }
  if (auto disarmed = session->disarm(); !disarmed) result.disarm_error = describe(disarmed.error());
  result.evidence = session->evidence();
  result.console = card->machine().console();
  return result;
}

}  // namespace svp::fault
