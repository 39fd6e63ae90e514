// SPDX-License-Identifier: Apache-2.0
// The engine itself faults or runs out of time: the error names the operation, the operand and the line of the source.
#include "tests/device/runtime/program_card.hpp"

namespace svp {
namespace {

using testing::HasSubstr;
using wire::program::Access;
using wire::program::Base;
using wire::program::Format;
using wire::program::Opcode;
using wire::program::Operand;
using wire::program::Operation;

constexpr std::uint32_t kLine = 21;

std::string error_of(FlexStream& stream) {
  try {
    stream.Synchronize(test::soon());
  } catch (const StreamError& error) {
    return error.what();
  }
  return "the launch ended OK";
}

// A card with less memory than the programs of these tests want to use: the first access of the engine to a granule
// that is one too many faults.
class ProgramOnASmallCard : public testing::Test {
 protected:
  static constexpr std::uint64_t kBudget = 64 * wire::kMiB;
  static constexpr std::uint32_t kRows = 2 * kBudget / wire::kStickBytes;  // one stick each

  void SetUp() override {
    ContextOptions options;
    options.card.emplace().populated_budget_bytes = kBudget;
    options.function = test::function_under_test();
    context_ = Context::open(std::move(options));
  }

  // A stick, in each row of the output the same; an output of one stick lacks the rows.
  static Operand stick_of(std::uint8_t argument, bool rows) {
    static constexpr std::uint32_t kExtent[] = {kRows, 64};
    static constexpr unsigned kBoth[] = {1, 0}, kLanes[] = {1};
    const std::span<const unsigned> order = rows ? std::span<const unsigned>(kBoth) : std::span<const unsigned>(kLanes);
    Operand operand = test::dense_operand(Format::Dl16, kExtent, order, 1);
    operand.argument = argument;
    return operand;
  }
  static Operation of_all_rows(Opcode opcode, std::initializer_list<Operand> operands) {
    Operation operation = test::operation_of(opcode, {kRows, 64});
    operation.source_line = kLine;
    for (const Operand& operand : operands) operation.operand[operation.operand_count++] = operand;
    return operation;
  }
  // Argument 0 is one stick, argument 1 is a stick for each row, argument 2 one stick again.
  std::string launch(const Operation& operation, Access large) {
    test::ProgramBuilder builder;
    builder.add_argument(wire::kStickBytes, Access::Read);
    builder.add_argument(std::uint64_t{kRows} * wire::kStickBytes, large);
    builder.add_argument(wire::kStickBytes, Access::Write);
    Operation first = test::operation_of(Opcode::Copy, {64});
    const std::uint32_t extent[] = {64};
    const unsigned order[] = {0};
    first.operand_count = 2;
    first.operand[0] = first.operand[1] = test::dense_operand(Format::Dl16, extent, order, 0);
    first.operand[1].argument = 2;
    builder.add(first);
    builder.add(operation);
    ExecutionPlan plan({Job(std::make_shared<const DeviceProgram>("large", builder.build()))});
    context_->load(plan);
    std::vector<Argument> arguments;
    for (const auto& argument : builder.arguments()) {
      arguments.push_back(Argument::raw(context_->runtime().allocator().allocate(argument.bytes)));
    }
    context_->runtime().default_stream().Launch(plan.jobs()[0], arguments, LaunchOptions{.core_mask = 1});
    return error_of(context_->runtime().default_stream());
  }

  std::unique_ptr<Context> context_;
};

TEST_F(ProgramOnASmallCard, AStoreThatFaultsIsOfTheOutput) {
  const std::string text = launch(of_all_rows(Opcode::Copy, {stick_of(0, false), stick_of(1, true)}), Access::Write);
  EXPECT_THAT(text, HasSubstr("FAULT"));
  EXPECT_THAT(text, HasSubstr("store in region"));
  EXPECT_THAT(text, HasSubstr("(argument 1+0x"));
  EXPECT_THAT(text, HasSubstr("in operation 1 (Copy), operand 1 (line 21 of its source)"));
}

TEST_F(ProgramOnASmallCard, ALoadThatFaultsIsOfTheInput) {
  Operation sum = of_all_rows(Opcode::Sum, {stick_of(1, true), stick_of(2, false)});
  sum.reduced = 1;
  const std::string text = launch(sum, Access::Read);
  EXPECT_THAT(text, HasSubstr("FAULT"));
  EXPECT_THAT(text, HasSubstr("load in region"));
  EXPECT_THAT(text, HasSubstr("(argument 1+0x"));
  EXPECT_THAT(text, HasSubstr("in operation 1 (Sum), operand 0 (line 21 of its source)"));
}

class ProgramFaults : public test::ProgramCard {};

// The cores of a launch meet behind each operation: most slices end there, and not with the timer. The watchdog counts
// delivered time, in which an emulator that waits for its host has done nothing. So the engine's code is translated
// before, by a launch that ends, and what is left in front of the first operation is far below one slice of the budget.
TEST_F(ProgramFaults, ATimeOutAtABarrierNamesTheOperation) {
  constexpr std::uint32_t kSticks = 512;
  const auto copies = [&](std::uint32_t times) {
    test::ProgramBuilder builder;
    builder.add_argument(kSticks * wire::kStickBytes, Access::Read);
    builder.add_argument(kSticks * wire::kStickBytes, Access::Write);
    builder.begin_loop(times);
    Operation operation = copy(kSticks, run(kSticks, Base::Argument, 0), run(kSticks, Base::Argument, 1));
    operation.source_line = kLine;
    builder.add(operation);
    builder.end_loop();
    return load(make("barriers", builder));
  };
  const auto launch = [&](const Job& job, std::uint64_t budget_slices) {
    const Argument arguments[] = {Argument::raw(room(kSticks * wire::kStickBytes)),
                                  Argument::raw(room(kSticks * wire::kStickBytes))};
    const std::uint64_t all = context().runtime().launch_site(0).all_cores;
    stream().Launch(job, arguments, LaunchOptions{.core_mask = all, .budget_slices = budget_slices});
    return error_of(stream());
  };
  ASSERT_THAT(launch(copies(2), 0), HasSubstr("ended OK"));
  const Job job = copies(1'000'000);
  for (int i = 0; i < 4; ++i) {
    const std::string text = launch(job, 50);
    EXPECT_THAT(text, HasSubstr("TIMEOUT"));
    EXPECT_THAT(text, HasSubstr("in operation 1 (Copy) (line 21 of its source)"));
    stream().Reset();
  }
}

}  // namespace
}  // namespace svp
