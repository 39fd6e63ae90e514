// SPDX-License-Identifier: Apache-2.0
// F46: one core of a launch traps or stops while the other one waits for it at a barrier of the engine.
#include <string>

#include "shared/kernel_abi.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/program_tenant.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

// Six slices or more each, three on each core: none is at its end when the fault fires.
constexpr std::uint32_t kIterations = 20;
// Slices of the launch before the fault. By then each core executes an operation.
constexpr std::uint64_t kLeastSlices = 12, kMoreSlices = 40;
constexpr std::uint64_t kGangBudget = 100;
constexpr std::uint64_t kMostTries = 3;
// One for each fault and try: what has failed stays poisoned until the end.
enum GangStream : std::size_t { kTraps, kEndless = kTraps + kMostTries, kHeld = kEndless + kMostTries, kBeside };
static_assert(kBeside < ProgramTenant::kStreams);

class Gang {
 public:
  Gang(ScenarioContext& context, unsigned function)
      : context_(context),
        function_(function),
        name_(function_name(function) + "/"),
        tenant_(context, function, kIterations, context.random()) {}

  // A core traps: by an instruction, or by an access.
  void trap() {
    const bool illegal = context_.random()() % 2 == 0;
    end_by("trap", kTraps, illegal ? FaultAction::Illegal : FaultAction::Stray, 0, Outcome::Fault,
           illegal ? Status::IllegalInstruction : Status::LoadFault);
  }
  // A core goes on and never comes to the barrier.
  void watchdog() {
    end_by("watchdog", kEndless, FaultAction::Hang, kGangBudget, Outcome::Timeout, Status::WatchdogExpired);
  }

  // The same, and meanwhile others use that core: a launch of this function, and `other`.
  void go_on_beside(OperationTenant& other) {
    const auto fault = arm(FaultAction::Hang);
    tenant_.start(kHeld, kBothCores, kManySlices);
    context_.fired(wait_until_fired(fault), "a core of " + name_ + " has stopped");
    const std::string same = tenant_.wrong(kBeside, kBothCores);
    context_.contained(name_ + "another launch", same.empty(), same.empty() ? "another launch is right" : same);
    const std::string beside = other.wrong(kBothCores);
    context_.contained(name_ + "another tenant", beside.empty(), beside.empty() ? "another tenant's, too" : beside);
    context_.disarm(fault);
  }

  // The launch that is held first: others may wait for it.
  void run_again() {
    std::string wrong;
    for (const GangStream stream : {kHeld, kTraps, kEndless, kBeside}) {
      tenant_.reset(stream);
      if (wrong.empty()) wrong = tenant_.wrong(stream, kBothCores);
    }
    context_.recovered(name_ + "rerun", wrong.empty(), wrong.empty() ? "right when launched again" : wrong);
  }

 private:
  struct Met {
    LaunchEnd end;
    wire::FaultEvidence evidence;
  };

  ScenarioContext::Fault arm(FaultAction action, std::uint64_t least = kLeastSlices) {
    auto spec = fault_at(function_, FaultPoint::Kernel, action);
    spec.trigger.first = least + context_.random()() % kMoreSlices;
    return context_.arm(spec);
  }

  bool wait_until_fired(ScenarioContext::Fault fault) {
    const auto limit = ScenarioContext::Clock::now() + context_.timeout();
    while (context_.evidence(fault).fired == 0) {
      if (ScenarioContext::Clock::now() > limit) return false;
    }
    return true;
  }

  // A doorbell ends a slice of core 0, so that many may be over before it has begun with the first operation. Then the
  // fault comes later.
  Met meet(GangStream stream, FaultAction action, std::uint64_t budget) {
    for (std::uint64_t tries = 1;; ++tries) {  // bounded: at most kMostTries launches
      const auto fault = arm(action, tries * kLeastSlices);
      Met met{.end = tenant_.launch(stream + tries - 1, kBothCores, budget), .evidence = context_.evidence(fault)};
      const StreamFailure& failure = met.end.failure;
      if (failure.outcome != Outcome::Ok && failure.fault.argument == 0 && tries < kMostTries) {
        context_.disarm(fault);
        continue;
      }
      context_.fired(fault);
      context_.disarm(fault);
      return met;
    }
  }

  void end_by(const char* what, GangStream stream, FaultAction action, std::uint64_t budget, Outcome outcome,
              Status status) {
    const auto [end, evidence] = meet(stream, action, budget);
    const StreamFailure& failure = end.failure;
    const std::string text = end.ok() ? "the launch ended OK" : end.error;
    context_.detected(name_ + what, failure.outcome == outcome && failure.status == status, text);
    const std::string core = ", core " + std::to_string(evidence.hart);
    context_.claim(Proof::Detected, name_ + what + "/core", failure.fault.core == evidence.hart && text.contains(core),
                   text);
    const std::uint32_t number = wire::number_of_progress(failure.fault.argument);
    context_.claim(Proof::Detected, name_ + what + "/operation",
                   wire::is_progress(failure.fault.argument) && text.contains("in " + loop_program::text_of(number)),
                   text);
  }

  ScenarioContext& context_;
  unsigned function_;
  std::string name_;
  ProgramTenant tenant_;
};

}  // namespace

void core_lost_in_a_gang(ScenarioContext& context) {
  context.bystander();
  OperationTenant other(context, kThird, context.random());
  context.trigger();
  for (const unsigned function : kEngineFunctions) {
    Gang gang(context, function);
    gang.trap();
    gang.watchdog();
    gang.go_on_beside(other);
    gang.run_again();
  }
  context.contained();
}

}  // namespace svp::campaign
