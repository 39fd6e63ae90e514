// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/workspace_flips.hpp"

#include <string>

#include "tests/validation/campaign/program_tenant.hpp"

namespace svp::campaign {

namespace {

using wire::FaultAction;
using wire::FaultPoint;
using wire::program::Base;

// Each core begins a slice in every iteration but the last, behind a barrier.
constexpr std::uint32_t kIterations = 20;

// No sign: a zero with one is equal to a zero without.
std::uint64_t random_bit(const ProgramTenant& tenant, std::mt19937_64& random) {
  constexpr std::uint64_t kBits = 16;
  return random() % (tenant.result_bits() / kBits) * kBits + random() % (kBits - 1);
}

void flip_in(ScenarioContext& context, unsigned function, Base base, const std::string& name) {
  ProgramTenant tenant(context, function, workspace_program::make(base, kIterations), context.random());
  const std::uint64_t bit = random_bit(tenant, context.random());
  auto spec = fault_at(function, FaultPoint::Kernel, FaultAction::FlipSegment);
  spec.segment = workspace_program::sum_segment(base);
  spec.argument = bit;
  spec.trigger.progress = workspace_program::kBetween;
  spec.trigger.first = 1 + context.random()() % (kIterations - 2);
  const auto fault = context.arm(spec);
  const LaunchEnd end = tenant.launch(0, kBothCores);
  const ops::Comparison seen = end.ok() ? tenant.compare(0) : ops::Comparison{};
  const std::string besides = end.ok() ? tenant.difference_besides(0, bit) : end.error;
  context.fired(fault);
  context.fired(end.ok(), end.ok() ? "the launch ended OK" : end.error);
  context.disarm(fault);
  const std::string text = ops::describe(seen);
  context.detected(name + "comparison", !seen.equal(), text);
  const ops::Difference element = tenant.with_inverted_bit(bit).first.value_or(ops::Difference{});
  context.claim(Proof::Detected, name + "element", names_element(text, element), text);
  context.claim(Proof::Detected, name + "other bits", besides.empty(), besides);
  const std::string again = tenant.wrong(0, kBothCores);
  context.recovered(name + "rerun", again.empty(), again.empty() ? "right when launched again" : again);
}

}  // namespace

void flip_workspace(ScenarioContext& context, unsigned function) {
  flip_in(context, function, Base::Pool, function_name(function) + "/pool/");
  flip_in(context, function, Base::Scratchpad, function_name(function) + "/scratchpad/");
}

}  // namespace svp::campaign
