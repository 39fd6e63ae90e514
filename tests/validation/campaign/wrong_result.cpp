// SPDX-License-Identifier: Apache-2.0
// F45: the result of an operation of the engine is silently wrong. Done to a virtual function and to the physical one,
// and VF3 computes beside it.
#include <string>

#include "tests/validation/campaign/engine_tenant.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::FaultAction;
using wire::FaultPoint;

// Each launch of `function` has one byte of its result inverted when its last core has ended.
void invert_a_byte(ScenarioContext& context, unsigned function, OperationTenant& other) {
  const std::string name = function_name(function) + "/";
  OperationTenant tenant(context, function, context.random());
  const bool both = context.random()() % 2 == 0;
  const std::uint64_t cores = both ? kBothCores : 1;
  const std::uint64_t at = context.random()() % tenant.result_bytes();
  auto spec = fault_at(function, FaultPoint::KernelResult, FaultAction::Corrupt);
  spec.argument = at;
  spec.trigger.first = spec.trigger.every = both ? 2 : 1;  // each core that ends is an occurrence
  spec.trigger.shots = 0;
  const auto fault = context.arm(spec);
  const LaunchEnd end = tenant.launch(cores);
  const ops::Comparison seen = tenant.compare();
  const std::string beside = other.wrong(cores);
  context.fired(fault);
  context.fired(end.ok(), end.ok() ? "the launch ended OK" : end.error);
  context.disarm(fault);
  const std::string text = ops::describe(seen);
  const ops::Comparison expected = tenant.with_inverted_byte(at);
  context.detected(name + "comparison", !seen.equal(), tenant.name() + ": " + text);
  const ops::Difference element = expected.first.value_or(ops::Difference{});
  context.claim(Proof::Detected, name + "element", names_element(text, element), text);
  context.contained(name + "another tenant", beside.empty(),
                    beside.empty() ? other.name() + " of another tenant is right" : beside);
  const std::string again = tenant.wrong(cores);
  context.recovered(name + "rerun", again.empty(), again.empty() ? "right when launched again" : again);
}

}  // namespace

void silently_wrong_result(ScenarioContext& context) {
  context.bystander();
  OperationTenant other(context, kThird, context.random());
  context.trigger();
  for (const unsigned function : kEngineFunctions) invert_a_byte(context, function, other);
  context.contained();
}

}  // namespace svp::campaign
