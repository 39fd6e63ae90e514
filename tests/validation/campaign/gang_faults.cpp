// SPDX-License-Identifier: Apache-2.0
// F46: one core of a launch traps or stops while the other one waits for it at a barrier of the engine.
#include <iterator>
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

// Each core begins a slice behind each barrier, so that each operation is met in every iteration but the last.
constexpr std::uint32_t kIterations = 40;
constexpr std::uint64_t kFirstIterations = 8;
constexpr std::uint32_t kMet[] = {loop_program::kAdd, loop_program::kNeg, loop_program::kSub};
constexpr std::uint64_t kGangBudget = 100;  // slices; the first of several budgets
// What has failed stays poisoned until the end.
enum GangStream : std::size_t { kTraps, kEndless, kHeld, kBeside };
static_assert(kBeside < ProgramTenant::kStreams);

class Gang {
 public:
  Gang(ScenarioContext& context, unsigned function)
      : context_(context),
        function_(function),
        name_(function_name(function) + "/"),
        tenant_(context, function, loop_program::make(kIterations), context.random()) {}

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
    const Armed armed = arm(FaultAction::Hang);
    tenant_.start(kHeld, kBothCores, kManySlices);
    context_.fired(wait_until_fired(armed.fault), "a core of " + name_ + " has stopped");
    judge_place("held", armed);
    const std::string same = tenant_.wrong(kBeside, kBothCores);
    context_.contained(name_ + "another launch", same.empty(), same.empty() ? "another launch is right" : same);
    const std::string beside = other.wrong(kBothCores);
    context_.contained(name_ + "another tenant", beside.empty(), beside.empty() ? "another tenant's, too" : beside);
    context_.disarm(armed.fault);
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
  struct Armed {
    ScenarioContext::Fault fault;
    std::uint32_t core = 0;
    std::uint32_t operation = 0;
  };

  // At the beginning of a slice of one core that is at this operation, while the other one waits at the barrier.
  Armed arm(FaultAction action) {
    auto spec = fault_at(function_, FaultPoint::Kernel, action);
    spec.trigger.core = static_cast<std::uint32_t>(context_.random()() % 2);
    spec.trigger.progress = kMet[context_.random()() % std::size(kMet)];
    spec.trigger.waiting = 1;
    spec.trigger.first = 1 + context_.random()() % kFirstIterations;
    return {context_.arm(spec), spec.trigger.core, spec.trigger.progress};
  }

  bool wait_until_fired(ScenarioContext::Fault fault) {
    const auto limit = ScenarioContext::Clock::now() + context_.timeout();
    while (context_.evidence(fault).fired == 0) {
      if (ScenarioContext::Clock::now() > limit) return false;
    }
    return true;
  }

  // By the evidence: where the fault fired, and that the other core waited then.
  void judge_place(const std::string& what, const Armed& armed) {
    const wire::FaultEvidence evidence = context_.evidence(armed.fault);
    const std::string text = "core " + std::to_string(evidence.hart) + " at " + std::to_string(evidence.progress) +
                             ", " + std::to_string(evidence.waiting) + " at the barrier";
    context_.claim(Proof::Detected, name_ + what + "/place",
                   evidence.hart == armed.core && evidence.progress == armed.operation, text);
    context_.claim(Proof::Detected, name_ + what + "/barrier", evidence.waiting == 1, text);
  }

  void end_by(const std::string& what, GangStream stream, FaultAction action, std::uint64_t budget, Outcome outcome,
              Status status) {
    const Armed armed = arm(action);
    const LaunchEnd end = budget == 0 ? tenant_.launch(stream, kBothCores)
                                      : tenant_.launch_until_fired(stream, kBothCores, budget, armed.fault);
    context_.fired(armed.fault);
    const StreamFailure& failure = end.failure;
    const std::string text = end.ok() ? "the launch ended OK" : end.error;
    context_.detected(name_ + what, failure.outcome == outcome && failure.status == status, text);
    judge_place(what, armed);
    context_.disarm(armed.fault);
    const std::string core = ", core " + std::to_string(armed.core);
    context_.claim(Proof::Detected, name_ + what + "/core", failure.fault.core == armed.core && text.contains(core),
                   text);
    context_.claim(Proof::Detected, name_ + what + "/operation",
                   failure.fault.argument == wire::to_progress(armed.operation) &&
                       text.contains("in " + loop_program::text_of(armed.operation)),
                   text);
    context_.claim(Proof::Detected, name_ + what + "/waiting",
                   failure.fault.waiting == 1 && text.contains("while 1 core of the launch waited at the barrier"),
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
