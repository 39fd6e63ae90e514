// SPDX-License-Identifier: Apache-2.0
// How the engine reads and executes programs: loops, workspace, several operations, and programs and launches that it
// has to refuse.
#include <gtest/gtest.h>

#include <random>

#include "shared/device_program_check.hpp"
#include "tests/device/kernels/engine_fixture.hpp"
#include "tests/device/kernels/engine_programs.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Format;
using program::Opcode;
using program::Refusal;
using program::Where;

// What the engine executes so far. fp32 functions and the families behind are not among them.
std::vector<Opcode> executed_opcodes() {
  std::vector<Opcode> opcodes;
  for (const program::OpcodeRow& row : program::kOpcodes) {
    const bool element_wise = row.family == program::Family::Copy || row.family == program::Family::Relayout ||
                              row.family == program::Family::Pointwise;
    if (element_wise) opcodes.push_back(row.opcode);
  }
  return opcodes;
}

class EngineExecution : public EngineTest {
 protected:
  std::mt19937_64 random_{svp::test::program_seed()};

  // Adds 1 to each of a row of numbers that is longer than the engine keeps operations.
  static OneOperation increment() {
    OneOperation made(Opcode::Add, {64});
    made.add(Format::Fp32, {0}, 0, Access::ReadWrite);
    made.add(Format::Fp32, {}, program::kNoDimension, Access::Read);
    const float one = 1;
    std::memcpy(made.arguments[1].data(), &one, sizeof one);
    made.operation.operand[2] = made.operation.operand[0];
    made.operation.operand_count = 3;
    return made;
  }
  // Runs the builder's program on the arguments of `made`; the first number of the first argument.
  static float first_result(const svp::test::ProgramBuilder& builder, const OneOperation& made) {
    std::vector<Bytes> arguments = made.arguments;
    const RunResult result = launch(builder.build(), arguments, {});
    EXPECT_TRUE(result.exited && result.status == 0) << describe(result.status);
    float number = 0;
    std::memcpy(&number, arguments[0].data(), sizeof number);
    return number;
  }
};

TEST_F(EngineExecution, LoopsEqualGolden) {
  const svp::test::ProgramLimits limits{
      .opcodes = executed_opcodes(), .operations = 3, .positions = 2048, .loops = true};
  for (int i = 0; i < 150 && !HasFailure(); ++i) {
    const svp::test::RandomProgram made = svp::test::random_program(random_, limits);
    SCOPED_TRACE(made.text);
    expect_golden(made);
  }
}

TEST_F(EngineExecution, WorkspaceAndSplitsEqualGolden) {
  const svp::test::ProgramLimits limits{
      .opcodes = executed_opcodes(), .operations = 4, .positions = 2048, .loops = true, .workspace = true};
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    const svp::test::RandomProgram made = svp::test::random_program(random_, limits);
    SCOPED_TRACE(made.text);
    expect_golden(made);
  }
}

TEST_F(EngineExecution, ManyArgumentsEqualGolden) {
  svp::test::ProgramLimits limits{.opcodes = executed_opcodes(), .operations = 60, .positions = 64, .workspace = true};
  limits.arguments = program::kMaxArguments - limits.operations;
  std::size_t most = 0;
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    const svp::test::RandomProgram made = svp::test::random_program(random_, limits);
    SCOPED_TRACE(made.text);
    expect_golden(made);
    most = std::max(most, made.entries.size());
  }
  EXPECT_GE(most, 60u);
}

TEST_F(EngineExecution, LoopsOfMoreOperationsThanAreKeptAreExecuted) {
  const OneOperation made = increment();
  svp::test::ProgramBuilder builder = made.builder;
  builder.begin_loop(200);  // checked again in each iteration, the operations would be too many
  for (int i = 0; i < 600; ++i) builder.add(made.operation);
  builder.begin_loop(5);
  builder.add(made.operation);
  builder.end_loop();
  builder.end_loop();
  EXPECT_EQ(first_result(builder, made), 200 * (600 + 5));
}

TEST_F(EngineExecution, NestedLoopsCountAllIterations) {
  const OneOperation made = increment();
  svp::test::ProgramBuilder builder = made.builder;
  for (const std::uint32_t iterations : {2u, 3u, 5u, 7u}) builder.begin_loop(iterations);
  builder.add(made.operation);
  for (int l = 0; l < 4; ++l) builder.end_loop();
  EXPECT_EQ(first_result(builder, made), 2 * 3 * 5 * 7);
}

TEST_F(EngineExecution, AnEmptyProgramEndsWithSuccess) {
  std::vector<Bytes> arguments;
  const RunResult result = launch(svp::test::ProgramBuilder().build(), arguments, {});
  EXPECT_TRUE(result.exited && result.status == 0) << describe(result.status);
}

// On the bare card cores run one after the other, so only the barriers can be seen.
TEST_F(EngineExecution, BarriersStandBetweenOperationsOfAllCoresOnly) {
  const auto barriers = [](std::initializer_list<std::uint32_t> rows) {
    svp::test::ProgramBuilder builder;
    std::vector<Bytes> arguments;
    for (const std::uint32_t count : rows) {
      OneOperation made(Opcode::Copy, {count, 64});
      made.add(Format::Dl16, {0, 1}, 1, Access::Read);
      made.add(Format::Dl16, {0, 1}, 1, Access::Write);
      made.operation.operand[0].argument = builder.add_argument(made.arguments[0].size(), Access::Read);
      made.operation.operand[1].argument = builder.add_argument(made.arguments[1].size(), Access::Write);
      arguments.insert(arguments.end(), made.arguments.begin(), made.arguments.end());
      builder.add(made.operation);
    }
    const RunResult result = launch(builder.build(), arguments, {}, 2);
    EXPECT_TRUE(result.exited && result.status == 0) << describe(result.status);
    return result.barriers;
  };
  EXPECT_EQ(barriers({1, 1, 1}), 0u);
  EXPECT_EQ(barriers({8192}), 0u);
  EXPECT_EQ(barriers({1, 1, 8192}), 1u);
  EXPECT_EQ(barriers({1, 8192, 1, 1, 8192}), 3u);
}

// ---- refusals -------------------------------------------------------------------------------------------------------

// What a program has to be refused with, checked as the engine does it; Nothing when it is executed. `executed`: how
// many operations that are, loops counted.
Refusal expected_refusal(std::span<const std::byte> bytes, const program::Header& made, std::uint64_t& executed) {
  program::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (const Refusal refusal = program::check_header(header, wire::kGiB); !refusal.ok()) return refusal;
  std::vector<program::Argument> entries(header.argument_count);
  std::memcpy(entries.data(), bytes.data() + header.arguments_offset, entries.size() * sizeof entries[0]);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Refusal refusal = program::check_argument(entries[i], static_cast<std::uint8_t>(i));
    if (!refusal.ok()) return refusal;
  }
  if (program::launch_operands(header) != program::launch_operands(made)) return {.where = Where::Correction};
  program::LoopStack loops;
  for (std::uint32_t i = 0; i < header.operation_count; ++i) {
    program::Operation operation;
    std::memcpy(&operation, bytes.data() + header.operations_offset + i * sizeof operation, sizeof operation);
    const Refusal refusal = program::check_operation(header, entries, operation, i, loops);
    if (!refusal.ok()) return refusal;
  }
  executed = loops.executed;
  return program::check_end(loops);
}

// Not the constants and tables, where anything goes.
std::size_t judged_bytes(std::span<const std::byte> bytes) {
  program::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.data_bytes == 0 ? bytes.size() : header.data_offset;
}

// A program that asks for more than the launch brings, or that is not as long as it says, is for the host to refuse.
bool launch_suffices(const svp::test::RandomProgram& made) {
  program::Header header;
  std::memcpy(&header, made.program.data(), sizeof header);
  if (header.program_bytes != made.program.size() || header.argument_count != made.arguments.size()) return false;
  if (program::uses_tables(header) != program::uses_tables(made.header)) return false;
  if (program::workspace_bytes(header) > program::workspace_bytes(made.header)) return false;
  // Between the slices of the launch lies nothing that the golden model knows.
  if (header.slices > made.header.slices || header.scratchpad_bytes > made.header.scratchpad_bytes) return false;
  for (std::size_t i = 0; i < made.arguments.size(); ++i) {
    program::Argument entry;
    std::memcpy(&entry, made.program.data() + header.arguments_offset + i * sizeof entry, sizeof entry);
    if (entry.bytes > made.arguments[i].size()) return false;
  }
  return true;
}

TEST_F(EngineExecution, ProgramsWithWrongBytesAreRefusedOrEqualGolden) {
  const svp::test::ProgramLimits limits{
      .opcodes = executed_opcodes(), .operations = 2, .positions = 512, .loops = true, .workspace = true};
  constexpr std::uint64_t kExecuted = 1000;  // more would take the golden model too long
  Placement::workspace_contents = std::byte{0xA5};
  for (int i = 0; i < 600 && !HasFailure(); ++i) {
    svp::test::RandomProgram made = svp::test::random_program(random_, limits);
    const std::size_t end = judged_bytes(made.program);
    for (int n = 0; n < 1 + i % 2; ++n) {
      made.program[random_() % end] = static_cast<std::byte>(random_() % 2 == 0 ? random_() : random_() % 9);
    }
    SCOPED_TRACE(made.text);
    std::uint64_t executed = 0;
    const Refusal expected = expected_refusal(made.program, made.header, executed);
    std::vector<Bytes> arguments = made.arguments;
    if (expected.ok()) {
      svp::test::seal(made.program);
      if (executed < kExecuted && launch_suffices(made)) expect_golden(made);
      continue;
    }
    const RunResult result = launch(made.program, arguments, Own::of(made.header));
    ASSERT_TRUE(result.exited) << "cause " << result.cause;
    EXPECT_EQ(describe(result.status), describe(expected));
  }
  Placement::workspace_contents = std::byte{0x5A};
}

struct Wrong {
  Where where;
  void (*change)(program::Header&, program::Argument&, program::Operation&);
};
constexpr Wrong kWrong[] = {
    {Where::Magic, [](auto& header, auto&, auto&) { ++header.magic; }},
    {Where::Version, [](auto& header, auto&, auto&) { ++header.version; }},
    {Where::ProgramBytes, [](auto& header, auto&, auto&) { header.program_bytes = 64 * wire::kMiB; }},
    {Where::ArgumentCount, [](auto& header, auto&, auto&) { header.argument_count = program::kMaxArguments + 1; }},
    {Where::OperationCount, [](auto& header, auto&, auto&) { header.operation_count = ~0u; }},
    {Where::Offsets, [](auto& header, auto&, auto&) { header.operations_offset += 1; }},
    {Where::Pool, [](auto& header, auto&, auto&) { header.pool_bytes = 1; }},
    {Where::Slices, [](auto& header, auto&, auto&) { header.slices = program::kMaxSlices + 1; }},
    {Where::Reserved, [](auto& header, auto&, auto&) { header.reserved[43] = 1; }},
    {Where::Reserved, [](auto& header, auto&, auto&) { header.flags = 4; }},
    {Where::ArgumentEntry, [](auto&, auto& argument, auto&) { argument.reserved = 1; }},
    {Where::Correction, [](auto& header, auto&, auto&) { header.argument_count = 1; }},
    {Where::Correction, [](auto& header, auto&, auto&) { header.pool_bytes = wire::kStickBytes; }},
    {Where::Opcode, [](auto&, auto&, auto& operation) { operation.opcode = static_cast<Opcode>(0xFFFF); }},
    {Where::Rank, [](auto&, auto&, auto& operation) { operation.rank = 9; }},
    {Where::OperandCount, [](auto&, auto&, auto& operation) { operation.operand_count = 2; }},
    {Where::Extent, [](auto&, auto&, auto& operation) { operation.extent[0] = 0; }},
    {Where::Reduced, [](auto&, auto&, auto& operation) { operation.reduced = 1; }},
    {Where::Mask, [](auto&, auto&, auto& operation) { operation.mask_count = 5; }},
    {Where::Constant, [](auto&, auto&, auto& operation) { operation.constant[3] = 1; }},
    {Where::Page, [](auto&, auto&, auto& operation) { operation.page = 128; }},
    {Where::Loop, [](auto&, auto&, auto& operation) { operation = svp::test::operation_of(Opcode::LoopEnd, {}); }},
    {Where::Loop, [](auto&, auto&, auto& operation) { operation = svp::test::operation_of(Opcode::LoopBegin, {2}); }},
    {Where::Base, [](auto&, auto&, auto& operation) { operation.operand[1].argument = 200; }},
    {Where::Format, [](auto&, auto&, auto& operation) { operation.operand[1].format = static_cast<Format>(9); }},
    {Where::StickDim, [](auto&, auto&, auto& operation) { operation.operand[1].stick_dim = 7; }},
    {Where::Present, [](auto&, auto&, auto& operation) { operation.operand[1].present = 0xFF; }},
    {Where::Offset, [](auto&, auto&, auto& operation) { operation.operand[1].offset = 1; }},
    {Where::Stride, [](auto&, auto&, auto& operation) { operation.operand[1].stride[0] = 64; }},
    {Where::LoopStride, [](auto&, auto&, auto& operation) { operation.operand[1].loop_stride[0] = 128; }},
    {Where::Split, [](auto&, auto&, auto& operation) { operation.operand[1].split[0] = 0; }},
    {Where::Bounds, [](auto&, auto&, auto& operation) { operation.operand[1].offset = wire::kGiB; }},
    {Where::Access, [](auto&, auto&, auto& operation) { operation.operand[2].argument = 0; }},
};

TEST_F(EngineExecution, EachKindOfWrongProgramIsRefusedByItsName) {
  OneOperation good(Opcode::Add, {5, 100});
  for (const Access access : {Access::Read, Access::Read, Access::Write}) good.add(Format::Dl16, {0, 1}, 1, access);
  const Bytes bytes = good.program();
  program::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  for (const Wrong& wrong : kWrong) {
    Bytes changed = bytes;
    auto& argument = reinterpret_cast<program::Argument&>(changed[header.arguments_offset]);
    auto& operation = reinterpret_cast<program::Operation&>(changed[header.operations_offset]);
    wrong.change(reinterpret_cast<program::Header&>(changed[0]), argument, operation);
    std::vector<Bytes> arguments = good.arguments;
    const RunResult result = launch(changed, arguments, {});
    ASSERT_TRUE(result.exited && program::is_refusal(result.status)) << program::name(wrong.where);
    EXPECT_EQ(program::name(program::from_status(result.status).where), program::name(wrong.where));
    EXPECT_TRUE(std::ranges::equal(arguments[2], good.arguments[2])) << "a refused program has written";
  }
}

// The engine remembers what passed its check. Each wrong byte stands once in the first of three equal operations and
// once in the last.
TEST_F(EngineExecution, WhatChangedSinceAGoodLaunchIsCheckedAgain) {
  OneOperation good(Opcode::Add, {5, 100});
  for (const Access access : {Access::Read, Access::Read, Access::Write}) good.add(Format::Dl16, {0, 1}, 1, access);
  svp::test::ProgramBuilder builder = good.builder;
  for (int i = 0; i < 3; ++i) builder.add(good.operation);
  const Bytes bytes = builder.build();
  program::Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto status_of = [&](const Bytes& program) {
    std::vector<Bytes> arguments = good.arguments;
    const RunResult result = launch(program, arguments, {});
    EXPECT_TRUE(result.exited) << "cause " << result.cause;
    return result.status;
  };
  for (const Wrong& wrong : kWrong) {
    for (const std::uint32_t number : {0u, 2u}) {
      SCOPED_TRACE(std::string(program::name(wrong.where)) + " of operation " + std::to_string(number));
      Bytes changed = bytes;
      auto& argument = reinterpret_cast<program::Argument&>(changed[header.arguments_offset]);
      auto* const operations = reinterpret_cast<program::Operation*>(&changed[header.operations_offset]);
      wrong.change(reinterpret_cast<program::Header&>(changed[0]), argument, operations[number]);
      EXPECT_EQ(status_of(bytes), 0u);
      const std::uint64_t first = status_of(changed);
      EXPECT_TRUE(program::is_refusal(first));
      EXPECT_EQ(status_of(changed), first) << "what was refused is refused again";
    }
  }
  EXPECT_EQ(status_of(bytes), 0u);
}

TEST_F(EngineExecution, AWrongCorrectionIsRefused) {
  OneOperation made(Opcode::Copy, {64});
  made.add(Format::Fp32, {0}, 0, Access::Read);
  made.add(Format::Fp32, {0}, 0, Access::Write);
  const auto refused = [](std::span<const wire::CorrectionSymbol> symbols) {
    const RunResult result = run("engine", symbols);
    return result.exited && program::is_refusal(result.status) &&
           program::from_status(result.status) == Refusal{.where = Where::Correction};
  };
  const Placement placed(made.program(), made.arguments, {});
  const auto good = placed.symbols;
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused(std::span(good).first(2)));
  auto changed = good;
  changed[1] = BareCard::stride(1, 128);
  EXPECT_TRUE(refused(changed)) << "a symbol that is no address";
  changed = good;
  changed[2].region_id = 12345;
  EXPECT_TRUE(refused(changed)) << "a region that is not granted";
  changed = good;
  changed[2].operand = 1;
  EXPECT_TRUE(refused(changed)) << "symbols of the wrong operands";
  changed = good;
  changed[0].value += 8;
  EXPECT_TRUE(refused(changed)) << "a program that does not lie on a stick";
  changed.assign(wire::kMaxSymbols, good[0]);
  for (std::uint32_t i = 0; i < changed.size(); ++i) changed[i].operand = i;
  EXPECT_TRUE(refused(changed)) << "more symbols than a program has operands";
}

}  // namespace
}  // namespace kernel_test
