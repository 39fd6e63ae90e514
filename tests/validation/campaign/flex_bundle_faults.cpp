// SPDX-License-Identifier: Apache-2.0
// F48 to F50: what fails below compiled bundles, as a program of torch-spyre's runtime interface sees it. The program
// is a process that knows libflex only; it has VF1 of a long-lived card.
#include <iterator>
#include <string>
#include <string_view>

#include "host_driver/discovery/attach.hpp"
#include "shared/fault.hpp"
#include "tests/validation/campaign/flex_bundles.hpp"
#include "tests/validation/campaign/flex_proofs.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::FaultAction;
using wire::FaultPoint;
using wire::Status;

// Card, neighbour and program of a scenario.
class BundleCard {
 public:
  explicit BundleCard(ScenarioContext& context)
      : context_(context), card_(context), bystander_(card_.attach(kBystander)), program_(start(kFaulting)) {
    bystander_.begin();
  }

  // Another program, on another function.
  FlexProcess start(unsigned virtual_function) {
    return {card_.runtime_folder(), bundles_.path(), context_.timeout(), virtual_function};
  }
  const FlexBundles& bundles() const { return bundles_; }
  LongLivedCard& card() { return card_; }
  // Has no runtime yet.
  FlexProcess& program() { return program_; }
  void prove_neighbour() { campaign::prove_neighbour(context_, bystander_); }

 private:
  ScenarioContext& context_;
  const FlexBundles bundles_;
  LongLivedCard card_;
  Bystander bystander_;
  FlexProcess program_;
};

// ---- F48 ------------------------------------------------------------------------------------------------------------

// While a core is at one of these operations, those before it have been executed. The other core is at the same or the
// next one, and there are two more.
constexpr std::uint32_t kMiddle[] = {1, 2};
constexpr unsigned kResults = 5;

std::string result(unsigned number) { return "result" + std::to_string(number); }

// The tensors of the chain: what it reads, and zeros where it writes.
void fill_chain(FlexProcess& program, unsigned value) {
  program.require("fill in " + std::to_string(value));
  for (unsigned i = 1; i <= kResults; ++i) program.require("fill " + result(i) + " 0");
}

std::string chain_on(const std::string& stream) {
  std::string command = stream + " chain in";
  for (unsigned i = 1; i <= kResults; ++i) command += " " + result(i);
  return command;
}

// Empty: these results of the chain are so many times `value`, or as they were filled (0).
std::string wrong_results(FlexProcess& program, unsigned first, unsigned last, unsigned value) {
  for (unsigned i = first; i <= last; ++i) {
    const std::string answer = program.ask("holds " + result(i) + " " + std::to_string((i + 1) * value));
    if (answer != "ok right") return result(i) + ": " + answer;
  }
  return {};
}

// Empty: the chain is right.
std::string wrong_chain(FlexProcess& program, unsigned value) {
  fill_chain(program, value);
  const std::string answer = program.ask_all({chain_on("bundle"), "synchronize"});
  return answer.starts_with("ok") ? wrong_results(program, 1, kResults, value) : answer;
}

// A core traps while it is at this operation and the other core waits at a barrier.
struct MiddleFault {
  ScenarioContext::Fault fault;
  std::uint32_t core = 0;
  std::uint32_t operation = 0;
  Status status{};
};

MiddleFault arm_in_the_middle(ScenarioContext& context) {
  const bool illegal = context.random()() % 2 == 0;
  wire::FaultSpec spec =
      ScenarioContext::fault_at_faulting(FaultPoint::Kernel, illegal ? FaultAction::Illegal : FaultAction::Stray);
  spec.trigger.core = static_cast<std::uint32_t>(context.random()() % 2);
  spec.trigger.progress = kMiddle[context.random()() % std::size(kMiddle)];
  spec.trigger.waiting = 1;
  spec.trigger.every = 1;  // each launch of the function
  spec.trigger.shots = 0;
  return {context.arm(spec), spec.trigger.core, spec.trigger.progress,
          illegal ? Status::IllegalInstruction : Status::LoadFault};
}

// Empty: what was to be executed before the trap has results, and what lies behind it has none.
std::string not_in_the_middle(FlexProcess& program, const MiddleFault& armed) {
  const std::string before = wrong_results(program, 1, armed.operation, 1);
  return before.empty() ? wrong_results(program, armed.operation + 3, kResults, 0) : before;
}

void prove_typed(ScenarioContext& context, BundleCard& on, const MiddleFault& armed, const std::string& failure) {
  const auto told = [&](std::string_view answer) {
    return is_documented_failure(answer, {"FAULT"}) && answer.contains(name(armed.status));
  };
  context.claim(Proof::Detected, "exception", told(failure), failure);
  context.claim(Proof::Detected, "operation", failure.contains("in " + on.bundles().text_of("chain", armed.operation)),
                failure);
  context.claim(Proof::Detected, "core", failure.contains(", core " + std::to_string(armed.core) + " while 1 core of"),
                failure);
  const std::string again = on.program().ask(chain_on("bundle"));
  context.claim(Proof::Detected, "later launch", told(again), again);
  const std::string state = on.program().ask("state");
  context.claim(Proof::Detected, "stream", state == "ok error 1 failed 1 other 0 idle 1", state);
}

// ---- F49 ------------------------------------------------------------------------------------------------------------

constexpr unsigned kLeft = 2, kAdded = 1, kTaken = 2 * kLeft + kAdded;

// The first of two bundles that share the scratchpad. Empty: it ends well.
std::string wrong_leaving(FlexProcess& program) {
  const std::string answer = program.ask_all({"fill two " + std::to_string(kLeft), "bundle leave two", "synchronize"});
  return answer.starts_with("ok") ? std::string() : answer;
}

// The second one. Empty: it can be launched.
std::string wrong_preparation(FlexProcess& program) {
  const std::string answer = program.ask_all({"prepare take", "fill one " + std::to_string(kAdded), "fill out 0"});
  return answer.starts_with("ok") ? std::string() : answer;
}
std::string take_value(FlexProcess& program) { return program.ask_all({"bundle take one out", "synchronize"}); }

// Empty: it ends well, and makes this value.
std::string wrong_taking(FlexProcess& program, unsigned expected) {
  if (const std::string wrong = wrong_preparation(program); !wrong.empty()) return wrong;
  std::string answer = take_value(program);
  if (answer.starts_with("ok")) answer = program.ask("holds out " + std::to_string(expected));
  return answer == "ok right" ? std::string() : answer;
}

// ---- F50 ------------------------------------------------------------------------------------------------------------

constexpr unsigned kGiven = 3, kSum = 6, kProduct = 9;
constexpr unsigned kInvertedBits = 4;

// Empty: the bundle in this directory ends well, and makes this value.
std::string wrong_directory(FlexProcess& program, const std::string& directory, unsigned expected) {
  const std::string answer =
      program.ask_all({"fill in " + std::to_string(kGiven), "fill out 0", "bundle " + directory + " in out",
                       "synchronize", "holds out " + std::to_string(expected)});
  return answer == "ok right" ? std::string() : answer;
}

bool is_refusal(std::string_view answer, std::string_view of) {
  return is_documented_failure(answer, {"REJECTED"}) && answer.contains(of) && answer.contains("next: ");
}

// Binaries of which a bit is inverted, and one of which the end is missing: nothing of them is sent.
void prove_binaries(ScenarioContext& context, BundleCard& on) {
  constexpr std::string_view kNamed = "the binary for byte";
  const auto before = program_statistics(on.card()).bytes_to_device;
  for (unsigned i = 0; i < kInvertedBits; ++i) {
    on.bundles().copy_with_inverted_bit("product", "damaged", context.random());
    context.fired(on.bundles().differ("product", "damaged"), "a bit of a binary is inverted");
    const std::string answer = on.program().ask("prepare damaged");
    context.claim(Proof::Detected, "inverted bit", is_refusal(answer, kNamed), answer);
  }
  on.bundles().copy_with_cut_binary("product", "cut", context.random());
  context.fired(on.bundles().differ("product", "cut"), "the end of a binary is missing");
  const std::string cut = on.program().ask("prepare cut");
  context.claim(Proof::Detected, "cut binary", is_refusal(cut, kNamed), cut);
  const auto sent = program_statistics(on.card()).bytes_to_device - before;
  context.contained("nothing of it is sent", sent == 0, std::to_string(sent) + " bytes went to the card");
  const std::string over = on.program().ask("overwrite sum damaged");
  context.claim(Proof::Detected, "binary over another one", is_refusal(over, kNamed), over);
  const std::string wrong = wrong_directory(on.program(), "sum", kSum);
  context.claim(Proof::Contained, "program in its place", wrong.empty(), wrong);
}

// What spyrecode.json says of it: the host computation, and where it begins.
void prove_texts(ScenarioContext& context, BundleCard& on) {
  on.bundles().copy_with_other_letter("product", "letter", context.random());
  context.fired(on.bundles().differ("product", "letter"), "a letter of an hcm is another one");
  const std::string letter = on.program().ask("prepare letter");
  context.claim(Proof::Detected, "hcm", is_refusal(letter, "hcm.symbols["), letter);
  on.bundles().copy_with_other_entry("product", "entry", context.random());
  context.fired(on.bundles().differ("product", "entry"), "a program begins in the middle of its binary");
  on.program().require("prepare entry");
  const std::string entry = on.program().ask("bundle entry in out");
  context.claim(Proof::Detected, "entry", is_refusal(entry, "is no binary of this card"), entry);
}

}  // namespace

void flex_bundle_fault(ScenarioContext& context) {
  BundleCard on(context);
  FlexProcess another = on.start(kThird);
  for (FlexProcess* each : {&on.program(), &another}) {
    each->require("open");
    require_right(wrong_chain(*each, 1));
  }
  const BorrowedManagement management(context, on.card());
  const MiddleFault armed = arm_in_the_middle(context);
  fill_chain(on.program(), 1);
  context.trigger();
  on.program().require(chain_on("bundle"));
  const std::string failure = on.program().ask("synchronize");
  context.fired(armed.fault);
  prove_typed(context, on, armed, failure);
  const std::string place = not_in_the_middle(on.program(), armed);
  context.fired(place.empty(), place.empty() ? "the operations before it were executed, and none behind it" : place);
  const std::string beside = wrong_chain(another, 2);
  context.claim(Proof::Contained, "another program", beside.empty(), beside);
  context.disarm(armed.fault);
  const std::string other = on.program().ask_all({chain_on("bundle-other")});
  const std::string stream = other.starts_with("ok") ? wrong_results(on.program(), 1, kResults, 1) : other;
  context.claim(Proof::Contained, "another stream", stream.empty(), stream);
  on.prove_neighbour();
  std::string again = wrong_in_next_runtime(on.program());
  if (again.empty()) again = wrong_chain(on.program(), 2);
  if (again.empty()) again = wrong_at_end(on.program());
  context.claim(Proof::Recovered, "new runtime", again.empty(), again);
}

void flex_bundle_reset(ScenarioContext& context) {
  BundleCard on(context);
  FlexProcess another = on.start(kThird);
  another.require("open");
  on.program().require("open");
  require_right(wrong_preparation(on.program()));
  require_right(wrong_leaving(on.program()));
  std::string beside = wrong_leaving(another);
  const FunctionStatistics before = program_statistics(on.card());
  context.trigger();
  const auto reset = reset_function(on.card().path(), kProgram);
  const auto resets = program_statistics(on.card()).resets - before.resets;
  context.fired(
      before.launches == 1 && reset && resets == 1,
      "VF1 was reset " + std::to_string(resets) + " times behind " + std::to_string(before.launches) + " launches");
  // No call has told the program anything.
  const std::string state = on.program().ask("state");
  context.claim(Proof::Detected, "every stream", state.starts_with(kAllFailed), state);
  const std::string failure = take_value(on.program());
  context.claim(Proof::Detected, "exception", failure.starts_with("runtime_error ") && failure.contains("reset"),
                failure);
  if (beside.empty()) beside = wrong_taking(another, kTaken);
  context.claim(Proof::Contained, "another program", beside.empty(), beside);
  on.prove_neighbour();
  std::string zeros = wrong_in_next_runtime(on.program());
  if (zeros.empty()) {
    on.program().require("leave-values");
    zeros = wrong_taking(on.program(), kAdded);
  }
  context.claim(Proof::Recovered, "zeros", zeros.empty(), zeros);
  std::string again = wrong_leaving(on.program());
  if (again.empty()) again = wrong_taking(on.program(), kTaken);
  if (again.empty()) again = wrong_at_end(on.program());
  context.claim(Proof::Recovered, "new runtime", again.empty(), again);
}

void flex_damaged_directory(ScenarioContext& context) {
  BundleCard on(context);
  on.program().require("open");
  require_right(wrong_directory(on.program(), "sum", kSum));
  context.trigger();
  prove_binaries(context, on);
  prove_texts(context, on);
  on.prove_neighbour();
  on.bundles().copy_whole("product", "damaged");
  on.program().require("prepare damaged");
  std::string wrong = wrong_directory(on.program(), "damaged", kProduct);
  if (wrong.empty()) {
    on.program().require("overwrite sum damaged");
    wrong = wrong_directory(on.program(), "sum", kProduct);
  }
  if (wrong.empty()) wrong = wrong_at_end(on.program());
  context.claim(Proof::Recovered, "repaired directory", wrong.empty(), wrong);
}

}  // namespace svp::campaign
