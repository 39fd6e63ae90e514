// SPDX-License-Identifier: Apache-2.0
// The tables of functions stand once on the card for all device programs of a runtime.
#include "host_driver/program/stored_tables.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "tests/device/runtime/program_card.hpp"

namespace svp {
namespace {

using wire::program::Base;
using wire::program::Opcode;

class FunctionTables : public test::ProgramCard {
 protected:
  static constexpr std::uint32_t kSticks = 40;
  static constexpr std::uint64_t kBytes = kSticks * wire::kStickBytes;

  static std::shared_ptr<const DeviceProgram> program_of(Opcode function) {
    test::ProgramBuilder builder;
    const Operand from = run(kSticks, Base::Argument, builder.add_argument(kBytes, Access::Read));
    const Operand to = run(kSticks, Base::Argument, builder.add_argument(kBytes, Access::Write));
    Operand table{};
    table.base = Base::Tables;
    table.stick_dim = wire::program::kNoDimension;
    table.offset = wire::program::table_offset(function);
    std::ranges::fill(table.split, std::uint8_t{1});
    builder.add(operation(function, kSticks, {from, table, to}));
    builder.flags = wire::program::kFunctionTables;
    return make("function", builder);
  }
  static Bytes expected(Opcode function, const Bytes& from) {
    Bytes to(from.size());
    const auto table = program::stored_table(function);
    for (std::size_t at = 0; at < from.size(); at += sizeof(wire::Dl16)) {
      wire::Dl16 code = 0;
      std::memcpy(&code, &from[at], sizeof code);
      std::memcpy(&to[at], &table[code], sizeof code);
    }
    return to;
  }
  void expect_computes(const Job& job, Opcode function, FlexStream& on = stream()) {
    const Bytes content = pattern(kBytes, static_cast<std::uint64_t>(function));
    const Argument arguments[] = {Argument::raw(holding(content)), Argument::raw(room(kBytes))};
    on.Launch(job, arguments);
    EXPECT_EQ(content_of(arguments[1].allocation, kBytes, on), expected(function, content));
  }
  static std::uint64_t bytes_on_card() { return context().runtime().allocator().statistics().bytes.current; }
};

TEST_F(FunctionTables, TwoProgramsShareThem) {
  const Job exp = load(program_of(Opcode::Exp));
  const auto before = bytes_on_card();
  const Job log = load(program_of(Opcode::Log)), sqrt = load(program_of(Opcode::Sqrt));
  EXPECT_LT(bytes_on_card() - before, wire::program::kTableBytes);
  EXPECT_EQ(exp.program()->tables_index(), log.program()->tables_index());
  EXPECT_EQ(exp.program()->tables_index(), sqrt.program()->tables_index());
  EXPECT_LT(log.device_program()->bytes().size(), std::size_t{4096});
  expect_computes(exp, Opcode::Exp);
  expect_computes(log, Opcode::Log);
  expect_computes(sqrt, Opcode::Sqrt);
}

TEST_F(FunctionTables, AProgramWithoutFunctionsHasNone) {
  EXPECT_EQ(load(copies(1, kSticks)).program()->tables_index(), AllocationIndex::Null);
}

TEST_F(FunctionTables, AResetTakesThemAwayAndLoadBringsThemBack) {
  ExecutionPlan plan({Job(program_of(Opcode::Tanh))});
  context().load(plan);
  expect_computes(plan.jobs()[0], Opcode::Tanh);
  context().recover(ResetLevel::Function);
  EXPECT_FALSE(plan.loaded());
  context().load(plan);
  expect_computes(plan.jobs()[0], Opcode::Tanh);
}

// Of damage nobody can tell; a plan that is loaded again repairs it.
TEST_F(FunctionTables, LoadingAgainRepairsWhatWasOverwritten) {
  ExecutionPlan plan({Job(program_of(Opcode::Sigmoid))});
  context().load(plan);
  const AllocationIndex tables = plan.jobs()[0].program()->tables_index();
  const std::uint64_t own = wire::program::table_offset(Opcode::Sigmoid);
  stream().Launch(Job::fill(tables, wire::program::kTableBytes, 0, own), {});
  const Bytes content = pattern(kBytes, 9);
  const Argument arguments[] = {Argument::raw(holding(content)), Argument::raw(room(kBytes))};
  stream().Launch(plan.jobs()[0], arguments);
  EXPECT_EQ(content_of(arguments[1].allocation, kBytes), Bytes(kBytes)) << "the engine reads them where they lie";
  context().load(plan);
  expect_computes(plan.jobs()[0], Opcode::Sigmoid);
}

TEST_F(FunctionTables, WhatOneStreamSendsAnotherOneFinds) {
  context().recover(ResetLevel::Function);  // nothing is on the card
  FlexStream& other = context().runtime().next_stream(StreamPriority::Low);
  ExecutionPlan one({Job(program_of(Opcode::Silu))}), two({Job(program_of(Opcode::Gelu))});
  one.load(context().runtime(), stream(), context().engine());
  two.load(context().runtime(), other, context().engine());
  EXPECT_EQ(one.jobs()[0].program()->tables_index(), two.jobs()[0].program()->tables_index());
  expect_computes(two.jobs()[0], Opcode::Gelu, other);
  expect_computes(one.jobs()[0], Opcode::Silu);
}

TEST_F(FunctionTables, PreparedLaunchesBringThem) {
  const Job job = load(program_of(Opcode::Reciprocal));
  const Bytes content = pattern(kBytes, 10);
  const Argument arguments[] = {Argument::raw(holding(content)), Argument::raw(room(kBytes))};
  const LaunchRequest request{&job, arguments, {}};
  const auto prepared = stream().Prepare({&request, 1});
  stream().Launch(*prepared);
  EXPECT_EQ(content_of(arguments[1].allocation, kBytes), expected(Opcode::Reciprocal, content));
}

}  // namespace
}  // namespace svp
