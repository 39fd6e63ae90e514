// SPDX-License-Identifier: Apache-2.0
// F51: the compute array makes a wrong bit, refuses a request, and cannot read memory. Done to a virtual function and
// to the physical one, and VF3 computes beside it. On a card without array none of it may happen to anybody.
#include <string>

#include "shared/array.hpp"
#include "tests/validation/campaign/engine_tenant.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::FaultAction;
using wire::FaultPoint;
using wire::Status;

constexpr std::uint64_t kAlways = 0;   // shots
constexpr std::uint64_t kOneCore = 1;  // its first request makes the first sticks of the result

class ArrayFaults {
 public:
  ArrayFaults(ScenarioContext& context, unsigned function, OperationTenant& other)
      : context_(context),
        function_(function),
        name_(function_name(function) + "/"),
        other_(other),
        tenant_(context, function, context.random(), ops::Op::Add) {}

  void invert_a_bit() {
    const std::uint64_t bit = context_.random()() % (wire::array::kMaxSticks / 4 * wire::kStickBytes * 8);
    const auto fault = arm(FaultAction::FlipResult, bit);
    const LaunchEnd end = tenant_.launch(kOneCore);
    const ops::Comparison seen = tenant_.compare();
    const std::string beside = other_.wrong(kOneCore);
    context_.fired(fault);
    context_.fired(end.ok(), end.ok() ? "the launch ended OK" : end.error);
    const std::string text = ops::describe(seen);
    const ops::Difference element = tenant_.with_inverted_bit(bit).first.value_or(ops::Difference{});
    context_.detected(name_ + "comparison", !seen.equal(), text);
    context_.claim(Proof::Detected, name_ + "element", names_element(text, element), text);
    end_with(fault, beside);
  }

  // The engine executes what the array refuses.
  void refuse() {
    const auto fault = arm(FaultAction::Refuse, 0);
    const std::string wrong = tenant_.wrong(kOneCore);
    const std::string beside = other_.wrong(kOneCore);
    context_.fired(fault);
    context_.recovered(name_ + "refused", wrong.empty(), wrong.empty() ? "right without the array" : wrong);
    end_with(fault, beside);
  }

  void fail_memory() {
    const auto fault = arm(FaultAction::Uncorrectable, 2, kAlways);
    const LaunchEnd end = tenant_.launch(kOneCore);
    const std::string beside = other_.wrong(kOneCore);
    context_.fired(fault);
    context_.detected(name_ + "memory error", end.failure.status == Status::UncorrectableMemory,
                      end.ok() ? "the launch ended OK" : end.error);
    context_.claim(Proof::Detected, name_ + "operand", end.error.contains("operand 0"), end.error);
    context_.claim(Proof::Detected, name_ + "retired",
                   told(context_.management(), wire::EventKind::MemoryRetired, context_.timeout()));
    tenant_.reset_stream();
    other_.reset_stream();
    end_with(fault, beside);
  }

 private:
  ScenarioContext::Fault arm(FaultAction action, std::uint64_t argument, std::uint64_t shots = 1) {
    auto spec = fault_at(function_, FaultPoint::Array, action);
    spec.trigger.every = 1;
    spec.trigger.shots = shots;
    spec.argument = argument;
    return context_.arm(spec);
  }
  void end_with(ScenarioContext::Fault fault, const std::string& beside) {
    context_.disarm(fault);
    context_.contained(name_ + "another tenant", beside.empty(),
                       beside.empty() ? other_.name() + " of another tenant is right" : beside);
    const std::string again = tenant_.wrong(kOneCore);
    context_.recovered(name_ + "rerun", again.empty(), again.empty() ? "right when launched again" : again);
  }

  ScenarioContext& context_;
  unsigned function_;
  std::string name_;
  OperationTenant& other_;
  OperationTenant tenant_;
};

// Nothing is an occurrence there, and the result is right.
void show_that_there_is_none(ScenarioContext& context, OperationTenant& tenant) {
  auto spec = ScenarioContext::any_fault(FaultPoint::Array, FaultAction::Uncorrectable);
  spec.trigger.shots = 0;
  spec.trigger.every = 1;
  const auto fault = context.arm(spec);
  const std::string wrong = tenant.wrong(kOneCore);
  const auto counted = context.evidence(fault).counted;
  context.fired(counted == 0, "the card has no array, and " + std::to_string(counted) + " requests were counted");
  context.detected("without array", wrong.empty(), wrong.empty() ? tenant.name() + " is right" : wrong);
  context.disarm(fault);
  const std::string again = tenant.wrong(kOneCore);
  context.recovered("without fault", again.empty(), again.empty() ? tenant.name() + " is right" : again);
}

}  // namespace

void broken_array(ScenarioContext& context) {
  context.bystander();
  OperationTenant other(context, kThird, context.random());
  context.trigger();
  if (context.management().config().array_version == 0) {
    show_that_there_is_none(context, other);
  } else {
    for (const unsigned function : kEngineFunctions) {
      ArrayFaults faults(context, function, other);
      faults.invert_a_bit();
      faults.refuse();
      faults.fail_memory();
    }
    context.spoil_fixture();  // it has less memory now
  }
  context.contained();
}

}  // namespace svp::campaign
