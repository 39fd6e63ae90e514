// SPDX-License-Identifier: Apache-2.0
// F42 to F44: what fails below, as a program of torch-spyre's runtime interface sees it. The program is a process that
// knows libflex only; it has VF1 of a long-lived card.
#include <csignal>
#include <string>

#include "host_driver/discovery/attach.hpp"
#include "tests/validation/campaign/flex_process.hpp"
#include "tests/validation/campaign/flex_proofs.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/long_lived_card.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::Outcome;

// The program with a kernel in flight that does not end. Throws svp::Error.
void keep_busy(FlexProcess& program) {
  program.require("open");
  program.require("work");
  program.require("launch spin");
}

void prove_next_runtime(ScenarioContext& context, FlexProcess& program) {
  std::string wrong = wrong_in_next_runtime(program);
  if (wrong.empty()) wrong = wrong_at_end(program);
  context.claim(Proof::Recovered, "new runtime", wrong.empty(), wrong);
}

// A function of this process with an endless kernel and what waits behind it.
class BusyFunction {
 public:
  BusyFunction(ScenarioContext& context, std::unique_ptr<Device> device)
      : context_(context), device_(std::move(device)), builder_(*device_), stream_(*device_) {
    const auto image = kernel_image(value_or_throw(find_firmware()), "spin");
    load_image(builder_, stream_, 0, image);
    before_ = stream_.ended();
    const wire::ControlBlock blocks[] = {builder_.compute(0, image.size(), 1, kManySlices), BlockBuilder::nop()};
    runs_ = stream_.submit(blocks) && stream_.wait_started(before_ + 1, context_.timeout());
  }
  bool runs() const { return runs_; }
  // Empty: each block ended once, INDETERMINATE when it had begun, else LOST.
  std::string wrong_ending() {
    (void)device_->wait_until([&] { return stream_.ended() == stream_.submitted(); },
                              ScenarioContext::Clock::now() + context_.timeout());
    const auto all = stream_.endings();
    if (all.size() != before_ + 2) return std::to_string(all.size() - before_) + " of 2 blocks ended";
    const bool typed = all[before_].outcome == Outcome::Indeterminate && all[before_ + 1].outcome == Outcome::Lost;
    context_.keep_trace(stream_);
    return typed ? std::string() : "a block ended " + std::string(wire::name(all[before_ + 1].outcome));
  }

 private:
  ScenarioContext& context_;
  std::unique_ptr<Device> device_;
  BlockBuilder builder_;
  TestStream stream_;
  std::size_t before_ = 0;
  bool runs_ = false;
};

}  // namespace

void flex_kernel_fault(ScenarioContext& context) {
  const FlexPlans plans;
  LongLivedCard card(context);
  Bystander bystander(card.attach(kBystander));
  bystander.begin();
  FlexProcess program(card.runtime_folder(), plans.path(), context.timeout());
  program.require("open");
  program.require("work");
  context.trigger();
  program.require("launch illegal");
  const std::string failure = program.ask("synchronize");
  const auto failed = program_statistics(card).failed;
  context.fired(failed == 1, std::to_string(failed) + " launch of VF1 failed on the card");
  const auto names_the_kernel = [](const std::string& answer) {
    return is_documented_failure(answer, {"FAULT"}) && answer.contains("'stray'");
  };
  context.claim(Proof::Detected, "exception", names_the_kernel(failure), failure);
  const std::string again = program.ask("launch illegal");
  context.claim(Proof::Detected, "later launch", names_the_kernel(again), again);
  const std::string state = program.ask("state");
  context.claim(Proof::Detected, "stream", state == "ok error 1 failed 1 other 0 idle 1", state);
  const std::string other = program.ask("work-other");
  context.claim(Proof::Contained, "another stream", other == "ok right", other);
  prove_neighbour(context, bystander);
  prove_next_runtime(context, program);
}

void flex_function_reset(ScenarioContext& context) {
  const FlexPlans plans;
  LongLivedCard card(context);
  Bystander bystander(card.attach(kBystander));
  bystander.begin();
  FlexProcess program(card.runtime_folder(), plans.path(), context.timeout());
  keep_busy(program);
  const std::string busy = program.ask("state");
  const auto before = program_statistics(card).resets;
  context.trigger();
  const auto reset = reset_function(card.path(), kProgram);
  const auto resets = program_statistics(card).resets - before;
  context.fired(busy == "ok error 0 failed 0 other 0 idle 0" && reset && resets == 1,
                "M reset VF1 under a kernel, " + std::to_string(resets) + " counted");
  // The idle stream first: nobody has told it anything.
  const std::string state = program.ask("state");
  context.claim(Proof::Detected, "every stream", state.starts_with(kAllFailed), state);
  const std::string failure = program.ask("synchronize");
  context.claim(Proof::Detected, "exception", is_documented_failure(failure, {"ABORTED", "LOST", "INDETERMINATE"}),
                failure);
  const std::string other = program.ask("work-other");
  context.claim(Proof::Detected, "exception of the idle stream",
                other.starts_with("runtime_error ") && other.contains("reset"), other);
  prove_neighbour(context, bystander);
  prove_next_runtime(context, program);
}

void flex_emulator_end(ScenarioContext& context) {
  const FlexPlans plans;
  LongLivedCard card(context);
  BusyFunction neighbour(context, card.attach(kBystander));
  FlexProcess program(card.runtime_folder(), plans.path(), context.timeout());
  keep_busy(program);
  const std::string busy = program.ask("state");
  const pid_t emulator = card.broker().description().emulator;
  context.trigger();
  const bool killed = emulator > 0 && ::kill(emulator, SIGKILL) == 0;
  context.fired(killed && neighbour.runs() && busy == "ok error 0 failed 0 other 0 idle 0",
                "the emulator was killed under a kernel of VF1 and one of VF2");
  const std::string failure = program.ask("synchronize");
  const bool typed = is_documented_failure(failure, {"INDETERMINATE", "LOST"});
  context.claim(Proof::Detected, "exception", typed, failure);
  const std::string state = program.ask("state");
  context.claim(Proof::Detected, "every stream", state.starts_with(kAllFailed), state);
  const std::string other = program.ask("work-other");
  context.claim(Proof::Detected, "exception of the idle stream",
                other.starts_with("runtime_error ") && other.contains("emulator"), other);
  const std::string wrong = neighbour.wrong_ending();
  context.claim(Proof::Contained, "each ended once", wrong.empty(), wrong);
  value_or_throw(power_cycle_card(card.path()));
  prove_next_runtime(context, program);
}

}  // namespace svp::campaign
