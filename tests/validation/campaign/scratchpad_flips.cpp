// SPDX-License-Identifier: Apache-2.0
// F47: a bit of a core's scratchpad is inverted while the engine executes a program. The engine keeps its checked
// copies of the header, the arguments and the operations there, and uses them without another check. Then a bit of the
// program's workspace in device memory (workspace_flips.cpp).
#include <cstddef>
#include <string>

#include "firmware/kernels/engine/execution.hpp"
#include "tests/validation/campaign/program_tenant.hpp"
#include "tests/validation/campaign/scenarios.hpp"
#include "tests/validation/campaign/workspace_flips.hpp"

namespace svp::campaign {

namespace {

using kernel::engine::Memory;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

namespace program = lone_program;

// Core 0 comes to the place of the flip at least once in each iteration but the last. By then it has copied all
// operations, and it executes each of them again.
constexpr std::uint32_t kFlippedIterations = 20;
constexpr std::uint64_t kLaterFlips = 6;
constexpr std::uint32_t kFlippedCore = 0;
// Slices that an endless loop gets; the first of several budgets.
constexpr std::uint64_t kEndlessBudget = 200;
constexpr int kRandomFlips = 3;
static_assert(kLaterFlips < kFlippedIterations);

// The program is kept where there is one place only.
using kernel::engine::LargeProgram;
static_assert(program::kEnd > kernel::engine::SmallProgram::kMostOperations);
constexpr std::size_t kKept = offsetof(Memory, large);

constexpr std::uint64_t bit_of(std::size_t byte, unsigned bit) { return byte * 8 + bit; }
constexpr std::size_t operation_at(std::uint32_t number, std::size_t field) {
  return kKept + offsetof(LargeProgram, operation) + number * sizeof(wire::program::Operation) + field;
}
constexpr std::size_t kOpcode = offsetof(wire::program::Operation, opcode);
constexpr std::size_t kFirstExtent = offsetof(wire::program::Operation, extent);
constexpr std::size_t kFirstOffset =
    offsetof(wire::program::Operation, operand) + offsetof(wire::program::Operand, offset);

// What each of them makes of the operation.
static_assert((static_cast<unsigned>(wire::program::Opcode::Add) ^ 1) ==
              static_cast<unsigned>(wire::program::Opcode::Sub));
constexpr std::uint64_t kAnotherOpcode = bit_of(operation_at(program::kAdd, kOpcode), 0);
constexpr std::uint64_t kNoOpcode = bit_of(operation_at(program::kAdd, kOpcode), 7);
constexpr std::uint64_t kFarAway = bit_of(operation_at(program::kAdd, kFirstOffset + 4), 6);
constexpr std::uint64_t kEndlessLoop = bit_of(operation_at(program::kInnerLoop, kFirstExtent + 3), 7);

// Any bit of what the engine uses.
std::uint64_t random_bit(std::mt19937_64& random) {
  struct Area {
    std::size_t begin, bytes;
  };
  constexpr Area kAreas[] = {
      {kKept + offsetof(LargeProgram, known), sizeof(kernel::engine::KnownProgram)},
      {kKept + offsetof(LargeProgram, argument), 3 * sizeof(wire::program::Argument)},
      {operation_at(0, 0), program::kEnd * sizeof(wire::program::Operation)},
      {operation_at(program::kAdd, 0), 2 * sizeof(wire::program::Operation)},
      {offsetof(Memory, working), 4 * wire::kKiB},
  };
  const Area& area = kAreas[random() % std::size(kAreas)];
  return area.begin * 8 + random() % (area.bytes * 8);
}

struct Flipped {
  LaunchEnd end;
  ops::Comparison result{};  // of a launch that ended OK

  std::string text() const { return end.ok() ? ops::describe(result) : end.error; }
};

class Flips {
 public:
  Flips(ScenarioContext& context, unsigned function)
      : context_(context),
        function_(function),
        name_(function_name(function) + "/"),
        tenant_(context, function, program::make(kFlippedIterations), context.random()) {}

  void opcodes() {
    const Flipped wrong = flip(kAnotherOpcode);
    context_.detected(name_ + "comparison", wrong.end.ok() && !wrong.result.equal(), wrong.text());
    const Flipped refused = flip(kNoOpcode);
    context_.detected(name_ + "refusal",
                      refused.end.failure.status == Status::KernelStatus &&
                          refused.text().contains("the engine refused operation 2 (Add): unsupported (line 102"),
                      refused.text());
  }

  void address() {
    const Flipped stray = flip(kFarAway);
    context_.detected(name_ + "trap",
                      stray.end.failure.status == Status::LoadFault &&
                          stray.text().contains("in " + loop_program::text_of(program::kAdd)),
                      stray.text());
  }

  void loop() {
    const Flipped endless = flip(kEndlessLoop, kEndlessBudget);
    const std::string text = endless.text();
    context_.detected(name_ + "watchdog",
                      endless.end.failure.status == Status::WatchdogExpired &&
                          (text.contains("in " + loop_program::text_of(program::kAdd)) ||
                           text.contains("in " + loop_program::text_of(program::kNeg))),
                      text);
  }

  void run_again() {
    const std::string wrong = tenant_.wrong(0, kBothCores);
    context_.recovered(name_ + "rerun", wrong.empty(), wrong.empty() ? "right when launched again" : wrong);
  }

  // Right, found by the comparison, or typed: the launch ends. What the engine writes by a flipped address may be its
  // own program, so that this is the last of the runtime's launches.
  void anywhere() {
    const std::uint64_t bit = random_bit(context_.random());
    const Flipped flipped = flip(bit, kEndlessBudget);
    const bool typed = flipped.end.ok() || flipped.end.failure.outcome != Outcome::Ok;
    context_.claim(Proof::Detected, name_ + "any bit", typed, "bit " + std::to_string(bit) + ": " + flipped.text());
  }

 private:
  // With a budget: of a launch that the flip may make endless. Else it has the card's own, which no launch uses up.
  Flipped flip(std::uint64_t bit, std::uint64_t budget_slices = 0) {
    auto spec = fault_at(function_, FaultPoint::Kernel, FaultAction::FlipScratchpad);
    spec.argument = bit;
    spec.trigger.core = kFlippedCore;
    spec.trigger.progress = program::kShared;
    spec.trigger.first = 1 + context_.random()() % kLaterFlips;
    const auto fault = context_.arm(spec);
    Flipped flipped{.end = budget_slices == 0 ? tenant_.launch(0, kBothCores)
                                              : tenant_.launch_until_fired(0, kBothCores, budget_slices, fault)};
    if (flipped.end.ok()) flipped.result = tenant_.compare(0);
    const wire::FaultEvidence evidence = context_.evidence(fault);
    context_.fired(evidence.fired == 1, "bit " + std::to_string(bit) + ": time " + std::to_string(spec.trigger.first) +
                                            " of " + std::to_string(evidence.counted) + " at operation " +
                                            std::to_string(program::kShared) + (flipped.end.ok() ? "" : ", ") +
                                            flipped.end.error);
    context_.disarm(fault);
    recover_stream();
    return flipped;
  }

  void recover_stream() {
    if (!tenant_.usable(0)) tenant_.reset(0);
  }

  ScenarioContext& context_;
  unsigned function_;
  std::string name_;
  ProgramTenant tenant_;
};

void check_other(ScenarioContext& context, const std::string& name, OperationTenant& other) {
  std::string wrong = other.damage();
  if (wrong.empty()) wrong = other.wrong(kBothCores);
  context.contained(name + "another tenant", wrong.empty(), wrong.empty() ? "another tenant's bytes are whole" : wrong);
}

}  // namespace

void scratchpad_bit_flips(ScenarioContext& context) {
  context.bystander();
  OperationTenant other(context, kThird, context.random());
  (void)other.launch(kBothCores);
  context.trigger();
  for (const unsigned function : kEngineFunctions) {
    {
      Flips flips(context, function);
      flips.opcodes();
      flips.address();
      flips.loop();
      flips.run_again();
    }
    for (int i = 0; i < kRandomFlips; ++i) Flips(context, function).anywhere();
    check_other(context, function_name(function) + "/", other);
    flip_workspace(context, function);
    check_other(context, function_name(function) + "/workspace/", other);
    ProgramTenant next(context, function, program::make(kFlippedIterations), context.random());
    const std::string wrong = next.wrong(0, kBothCores);
    context.recovered(function_name(function) + "/next runtime", wrong.empty(),
                      wrong.empty() ? "the function's next runtime is right" : wrong);
  }
  context.contained();
}

}  // namespace svp::campaign
