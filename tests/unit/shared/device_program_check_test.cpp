// SPDX-License-Identifier: Apache-2.0
// The checker of device programs: a good program of each kind passes, and each field, made bad by itself, is refused by
// its name.
#include "shared/device_program_check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "shared/device_program_names.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using namespace wire::program;
using svp::test::dense_operand;
using svp::test::operation_of;
using svp::test::ProgramBuilder;

constexpr std::uint64_t kStick = wire::kStickBytes;
constexpr std::uint64_t kFarAway = std::numeric_limits<std::uint64_t>::max() & ~(kStick - 1);

// C[4, 128] = A + B, sticks along dimension 1, in arguments 0, 1 and 2.
struct Addition {
  ProgramBuilder builder;
  Addition() {
    const std::array<std::uint32_t, 2> extent{4, 128};
    Operation operation = operation_of(Opcode::Add, extent);
    operation.operand_count = 3;
    for (unsigned i = 0; i < 3; ++i) {
      operation.operand[i] = dense_operand(Format::Dl16, extent, std::array{0u, 1u}, 1);
      operation.operand[i].argument = builder.add_argument(8 * kStick, i == 2 ? Access::Write : Access::Read);
    }
    builder.add(operation);
  }
  Operation& operation() { return builder.operations().back(); }
  Refusal judge() const { return check_program(builder.build()); }
};

std::string text(const Refusal& refusal) {
  return std::string(name(refusal.where)) + ", operand " + std::to_string(refusal.operand) + ", operation " +
         std::to_string(refusal.operation);
}

// What is wrong with an addition after `spoil`.
Refusal after(const std::function<void(Operation&)>& spoil) {
  Addition addition;
  spoil(addition.operation());
  return addition.judge();
}
void expect_refused(Where where, std::uint8_t operand, const std::function<void(Operation&)>& spoil) {
  const Refusal refusal = after(spoil);
  EXPECT_EQ(refusal, (Refusal{where, operand, 0})) << text(refusal);
}

Refusal judge_header(const std::function<void(Header&)>& spoil) {
  Header header = Addition().builder.header();
  const std::uint64_t bytes = header.program_bytes;
  spoil(header);
  return check_header(header, bytes);
}
void expect_header(Where where, const std::function<void(Header&)>& spoil) {
  const Refusal refusal = judge_header(spoil);
  EXPECT_EQ(refusal, (Refusal{where, kNoOperand, kWholeProgram})) << text(refusal);
}

TEST(DeviceProgramCheck, AcceptsAGoodProgram) {
  const Refusal refusal = Addition().judge();
  EXPECT_TRUE(refusal.ok()) << text(refusal);
}

TEST(DeviceProgramCheck, JudgesInConstantExpressions) {
  constexpr auto judge = [](std::uint64_t magic) {
    Header header{};
    header.magic = magic;
    header.version = kVersion;
    header.program_bytes = sizeof header;
    return check_header(header, sizeof header).where;
  };
  static_assert(judge(kMagic) == Where::Nothing && judge(0) == Where::Magic);
  constexpr auto nested = [](unsigned begins) {
    LoopStack loops;
    Operation begin{};
    begin.opcode = Opcode::LoopBegin;
    begin.rank = 1;
    begin.extent[0] = 2;
    Refusal refusal;
    for (unsigned i = 0; i < begins && refusal.ok(); ++i) refusal = check_operation(Header{}, {}, begin, i, loops);
    return refusal.where;
  };
  static_assert(nested(kMaxLoops) == Where::Nothing && nested(kMaxLoops + 1) == Where::Loop);
}

TEST(DeviceProgramCheck, EveryFieldOfTheHeaderIsJudged) {
  expect_header(Where::Magic, [](Header& h) { h.magic ^= 1; });
  expect_header(Where::Version, [](Header& h) { h.version = 2; });
  expect_header(Where::ProgramBytes, [](Header& h) { h.program_bytes += kStick; });
  expect_header(Where::ProgramBytes, [](Header& h) { h.program_bytes -= 1; });
  expect_header(Where::ProgramBytes, [](Header& h) { h.program_bytes = 0; });
  expect_header(Where::ArgumentCount, [](Header& h) { h.argument_count = kMaxArguments + 1; });
  expect_header(Where::OperationCount, [](Header& h) { h.operation_count = kMaxOperations + 1; });
  expect_header(Where::Pool, [](Header& h) { h.pool_bytes = 1; });
  expect_header(Where::Pool, [](Header& h) { h.pool_bytes = kMaxPoolBytes + kStick; });
  expect_header(Where::Slices, [](Header& h) { h.slices = kMaxSlices + 1; });
  expect_header(Where::Slices, [](Header& h) { h.scratchpad_bytes = 64; });
  expect_header(Where::Reserved, [](Header& h) { h.flags = 4; });
  expect_header(Where::Nothing, [](Header& h) { h.flags = kFunctionTables; });
  expect_header(Where::Nothing, [](Header& h) { h.flags = kOneStorage; });
  expect_header(Where::Slices, [](Header& h) { h.scratchpad_bytes = kMaxSliceScratchpadBytes + kStick; });
  for (const std::size_t at : {std::size_t{0}, std::size_t{17}, sizeof(Header::reserved) - 1}) {
    expect_header(Where::Reserved, [at](Header& h) { h.reserved[at] = 1; });
  }
}

TEST(DeviceProgramCheck, PartsLieInsideOfTheProgramAndApart) {
  expect_header(Where::Offsets, [](Header& h) { h.arguments_offset += 1; });
  expect_header(Where::Offsets, [](Header& h) { h.arguments_offset = 0; });
  expect_header(Where::Offsets, [](Header& h) { h.arguments_offset = h.operations_offset; });
  expect_header(Where::Offsets, [](Header& h) { h.operations_offset = h.program_bytes - kStick; });
  expect_header(Where::Offsets, [](Header& h) { h.operations_offset = kFarAway; });
  expect_header(Where::Offsets, [](Header& h) { h.data_bytes = 1; });
  expect_header(Where::Offsets, [](Header& h) { h.data_bytes = kFarAway; });
  expect_header(Where::Offsets, [](Header& h) { h.data_offset = h.operations_offset, h.data_bytes = kStick; });
}

TEST(DeviceProgramCheck, AnotherByteIsAnotherChecksum) {
  const std::vector<std::byte> good = Addition().builder.build();
  for (std::size_t at = 0; at < good.size(); at += 61) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0x10};
    EXPECT_FALSE(check_program(bad).ok()) << at;
  }
  std::vector<std::byte> longer = good;
  longer.resize(good.size() + 7);
  EXPECT_TRUE(check_program(longer).ok());
  EXPECT_EQ(check_program(std::span(good).first(100)).where, Where::ProgramBytes);
}

TEST(DeviceProgramCheck, ArgumentEntriesAreJudged) {
  const auto judge = [](const Argument& argument) {
    Addition addition;
    addition.builder.arguments()[1] = argument;
    return addition.judge();
  };
  const Refusal refused{Where::ArgumentEntry, 1, kWholeProgram};
  EXPECT_EQ(judge({8 * kStick + 1, Access::Read, 0}), refused);
  EXPECT_EQ(judge({kMaxArgumentBytes + kStick, Access::Read, 0}), refused);
  EXPECT_EQ(judge({0, Access::Read, 0}), refused);
  EXPECT_EQ(judge({8 * kStick, static_cast<Access>(4), 0}), refused);
  EXPECT_EQ(judge({8 * kStick, Access::Read, 1}), refused);
  EXPECT_EQ(judge({8 * kStick, Access::Write, 0}), (Refusal{Where::Access, 1, 0}));
  EXPECT_EQ(judge({7 * kStick, Access::Read, 0}), (Refusal{Where::Bounds, 1, 0}));
}

TEST(DeviceProgramCheck, EveryFieldOfAnOperationIsJudged) {
  expect_refused(Where::Opcode, kNoOperand, [](Operation& o) { o.opcode = static_cast<Opcode>(3); });
  expect_refused(Where::Rank, kNoOperand, [](Operation& o) { o.rank = 0; });
  expect_refused(Where::Rank, kNoOperand, [](Operation& o) { o.rank = kMaxRank + 1; });
  expect_refused(Where::OperandCount, kNoOperand, [](Operation& o) { o.operand_count = 2; });
  expect_refused(Where::Extent, kNoOperand, [](Operation& o) { o.extent[1] = 0; });
  expect_refused(Where::Extent, kNoOperand, [](Operation& o) { o.extent[2] = 1; });
  expect_refused(Where::Extent, kNoOperand, [](Operation& o) { o.extent[0] = o.extent[1] = ~0u; });
  expect_refused(Where::Reduced, kNoOperand, [](Operation& o) { o.reduced = 1; });
  expect_refused(Where::Constant, kNoOperand, [](Operation& o) { o.constant[0] = 1; });
  expect_refused(Where::Page, kNoOperand, [](Operation& o) { o.page = kStick; });
  expect_refused(Where::Reserved, kNoOperand, [](Operation& o) { o.reserved0 = 1; });
  expect_refused(Where::Reserved, kNoOperand, [](Operation& o) { o.reserved[135] = 1; });
  expect_refused(Where::Reserved, 3, [](Operation& o) { o.operand[3].split[7] = 1; });
  EXPECT_TRUE(after([](Operation& o) { o.source_line = 77; }).ok());
}

TEST(DeviceProgramCheck, EveryFieldOfAnOperandIsJudged) {
  for (std::uint8_t i = 0; i < 3; ++i) {
    const auto refused = [i](Where where, const std::function<void(Operand&)>& spoil) {
      expect_refused(where, i, [&](Operation& o) { spoil(o.operand[i]); });
    };
    refused(Where::Base, [](Operand& o) { o.base = Base::None; });
    refused(Where::Base, [](Operand& o) { o.base = static_cast<Base>(5); });
    refused(Where::Base, [](Operand& o) { o.argument = 3; });
    refused(Where::Base, [](Operand& o) { o.base = Base::Pool, o.argument = 1; });
    refused(Where::Format, [](Operand& o) { o.format = static_cast<Format>(8); });
    refused(Where::StickDim, [](Operand& o) { o.stick_dim = 2; });
    refused(Where::Present, [](Operand& o) { o.present |= 4; });
    refused(Where::Reserved, [](Operand& o) { o.reserved[2] = 1; });
    refused(Where::Offset, [](Operand& o) { o.offset = 64; });
    refused(Where::Bounds, [](Operand& o) { o.offset = kStick; });
    refused(Where::Bounds, [](Operand& o) { o.offset = kFarAway; });
    refused(Where::Stride, [](Operand& o) { o.stride[0] += 1; });
    refused(Where::Stride, [](Operand& o) { o.stride[5] = kStick; });
    refused(Where::Bounds, [](Operand& o) { o.stride[0] = kFarAway; });
    refused(Where::LoopStride, [](Operand& o) { o.loop_stride[0] = kStick; });
    refused(Where::Split, [](Operand& o) { o.split[0] = 2, o.split_stride[0] = 1; });
    refused(Where::Split, [](Operand& o) { o.split[0] = 0; });
    refused(Where::Split, [](Operand& o) { o.split_stride[1] = 1; });
  }
}

TEST(DeviceProgramCheck, AnOutputIsWrittenOncePerElement) {
  expect_refused(Where::Stride, 2, [](Operation& o) { o.operand[2].stride[0] = 0; });
  expect_refused(Where::Stride, 2, [](Operation& o) { o.operand[2].stride[1] = kStick; });
  EXPECT_TRUE(after([](Operation& o) { o.operand[0].stride[0] = 0; }).ok());
}

TEST(DeviceProgramCheck, DataIsOnlyRead) {
  Addition addition;
  addition.builder.add_data(std::vector<std::byte>(8 * kStick));
  Operand& input = addition.operation().operand[0];
  input.base = Base::Data;
  EXPECT_TRUE(addition.judge().ok());
  input.offset = kStick;
  EXPECT_EQ(addition.judge(), (Refusal{Where::Bounds, 0, 0}));
  input.offset = 0;
  addition.operation().operand[2] = input;
  EXPECT_EQ(addition.judge(), (Refusal{Where::Base, 2, 0}));
}

TEST(DeviceProgramCheck, StickDimensionsOfElementWiseOperandsMatch) {
  Addition sparse;  // one element for each column
  sparse.builder.arguments()[1].bytes = 1024 * kStick;
  sparse.operation().operand[1].stick_dim = kNoDimension;
  EXPECT_EQ(sparse.judge(), (Refusal{Where::StickDim, 1, 0}));
  expect_refused(Where::Present, 0, [](Operation& o) { o.operand[2].present = 2, o.operand[2].stride[0] = 0; });
  EXPECT_TRUE(after([](Operation& o) {
                o.operand[1].stick_dim = kNoDimension;  // one element for each row
                o.operand[1].present = 1;
                o.operand[1].stride[1] = 0;
              }).ok());
}

TEST(DeviceProgramCheck, MasksLieInsideOfTheLanes) {
  const auto masked = [](Mask mask) { return [mask](Operation& o) { o.mask_count = 1, o.mask[0] = mask; }; };
  EXPECT_TRUE(after(masked({1, 100, 28})).ok());
  expect_refused(Where::Mask, kNoOperand, masked({1, 100, 29}));
  expect_refused(Where::Mask, kNoOperand, masked({1, ~0u, ~0u}));
  expect_refused(Where::Mask, kNoOperand, masked({1, 0, 0}));
  expect_refused(Where::Mask, kNoOperand, masked({2, 0, 1}));
  expect_refused(Where::Mask, kNoOperand, [](Operation& o) { o.mask_count = kMaxMasks + 1; });
  expect_refused(Where::Mask, kNoOperand, [](Operation& o) { o.mask[0].count = 1; });
  expect_refused(Where::Mask, kNoOperand, [](Operation& o) { o.mask_value = 1; });
}

TEST(DeviceProgramCheck, AnInputMayLieUnderTheOutputOnlyInPlace) {
  Addition addition;
  addition.builder.arguments()[2] = {16 * kStick, Access::ReadWrite, 0};
  addition.operation().operand[0].argument = 2;
  EXPECT_TRUE(addition.judge().ok());
  addition.operation().operand[0].offset = kStick;
  EXPECT_EQ(addition.judge(), (Refusal{Where::Access, 0, 0}));
  addition.operation().operand[0].offset = 8 * kStick;
  EXPECT_TRUE(addition.judge().ok());
  addition.operation().operand[0].offset = 0;
  addition.operation().operand[0].stride[0] = 0;
  EXPECT_EQ(addition.judge(), (Refusal{Where::Access, 0, 0}));
}

TEST(DeviceProgramCheck, BlocksOfRowsOfOneTensorAreApart) {
  Addition addition;  // rows 4 … 7 become the sum of rows 0 … 3 and others, in a tensor [8, 128]
  addition.builder.arguments()[2] = {16 * kStick, Access::ReadWrite, 0};
  Operand& input = addition.operation().operand[0];
  Operand& output = addition.operation().operand[2];
  input.stride[1] = output.stride[1] = 8 * kStick;
  input.argument = 2;
  output.offset = 4 * kStick;
  EXPECT_TRUE(addition.judge().ok());
  output.offset = 3 * kStick;
  EXPECT_EQ(addition.judge(), (Refusal{Where::Access, 0, 0}));
}

// A loop around the addition, each iteration one stick further.
Refusal in_loop(std::uint32_t iterations, std::uint64_t argument_sticks) {
  Addition addition;
  Operation operation = addition.operation();
  addition.builder.operations().clear();
  addition.builder.begin_loop(iterations);
  for (unsigned i = 0; i < 3; ++i) {
    operation.operand[i].loop_stride[0] = 8 * kStick;
    addition.builder.arguments()[i].bytes = argument_sticks * kStick;
  }
  addition.builder.add(operation);
  addition.builder.end_loop();
  return addition.judge();
}

TEST(DeviceProgramCheck, LoopsReachNoFurtherThanTheirBase) {
  EXPECT_TRUE(in_loop(4, 32).ok());
  EXPECT_EQ(in_loop(5, 32), (Refusal{Where::Bounds, 0, 1}));
  EXPECT_EQ(in_loop(~0u, 32), (Refusal{Where::Bounds, 0, 1}));
}

Refusal judge_loops(const std::function<void(ProgramBuilder&)>& make) {
  ProgramBuilder builder;
  make(builder);
  return check_program(builder.build());
}

TEST(DeviceProgramCheck, LoopsEndAndAreNotTooDeep) {
  EXPECT_EQ(judge_loops([](ProgramBuilder& b) { b.end_loop(); }), (Refusal{Where::Loop, kNoOperand, 0}));
  EXPECT_EQ(judge_loops([](ProgramBuilder& b) { b.begin_loop(1); }), (Refusal{Where::Loop, kNoOperand, kWholeProgram}));
  EXPECT_EQ(judge_loops([](ProgramBuilder& b) { b.begin_loop(0); }), (Refusal{Where::Extent, kNoOperand, 0}));
  const auto nest = [](unsigned depth) {
    return judge_loops([depth](ProgramBuilder& b) {
      for (unsigned i = 0; i < depth; ++i) b.begin_loop(2);
      for (unsigned i = 0; i < depth; ++i) b.end_loop();
    });
  };
  EXPECT_TRUE(nest(kMaxLoops).ok());
  EXPECT_EQ(nest(kMaxLoops + 1), (Refusal{Where::Loop, kNoOperand, kMaxLoops}));
}

TEST(DeviceProgramCheck, NoProgramExecutesTooManyOperations) {
  const auto twice = [](std::uint32_t outer, std::uint32_t inner) {
    return judge_loops([=](ProgramBuilder& b) {
      b.begin_loop(outer);
      b.begin_loop(inner);
      b.end_loop();
      b.end_loop();
    });
  };
  // One beginning, then the inner loop's beginning and the outer end once per iteration, the inner end for all.
  EXPECT_TRUE(twice(2, (kMaxExecutedOperations - 5) / 2).ok());
  EXPECT_EQ(twice(2, kMaxExecutedOperations / 2), (Refusal{Where::Loop, kNoOperand, 2}));
  EXPECT_EQ(twice(~0u, ~0u), (Refusal{Where::Loop, kNoOperand, 1}));
}

// C[4, 128] in scratchpads: rows in two slices, columns in two more.
struct Sliced {
  Addition addition;
  Sliced() {
    addition.builder.slices = 4;
    addition.builder.scratchpad_bytes = 2 * kStick;
    Operand& output = addition.operation().operand[2];
    output.base = Base::Scratchpad;
    output.argument = 0;
    output.split[0] = output.split[1] = 2;
    output.split_stride[0] = 1;
    output.split_stride[1] = 2;
    output.stride[0] = kStick;
    output.stride[1] = 2 * kStick;
  }
  Operand& output() { return addition.operation().operand[2]; }
};

TEST(DeviceProgramCheck, PartsOfAScratchpadOperandAreWholeSticksOfSlices) {
  const auto judge = [](const std::function<void(Sliced&)>& spoil) {
    Sliced sliced;
    spoil(sliced);
    return sliced.addition.judge();
  };
  const Refusal refused{Where::Split, 2, 0};
  EXPECT_TRUE(judge([](Sliced&) {}).ok());
  EXPECT_EQ(judge([](Sliced& s) { s.addition.builder.slices = 3; }), refused);
  EXPECT_EQ(judge([](Sliced& s) { s.output().split[0] = 3; }), refused);         // 4 rows are not three equal parts
  EXPECT_EQ(judge([](Sliced& s) { s.output().split[1] = 4; }), refused);         // half a stick
  EXPECT_EQ(judge([](Sliced& s) { s.output().split_stride[1] = 1; }), refused);  // two parts in one slice
  EXPECT_EQ(judge([](Sliced& s) { s.output().split_stride[0] = 0; }), refused);
  EXPECT_EQ(judge([](Sliced& s) { s.addition.builder.scratchpad_bytes = kStick; }), (Refusal{Where::Bounds, 2, 0}));
}

TEST(DeviceProgramCheck, AStickOfTheOutputHasItsInputsInOnePart) {
  const auto judge = [](std::uint32_t columns) {
    Addition addition;  // the first input is the same for all columns, with a copy in each of two slices
    addition.builder.slices = 2;
    addition.builder.scratchpad_bytes = 4 * kStick;
    Operation& operation = addition.operation();
    operation.extent[1] = columns;
    Operand& input = operation.operand[0];
    input = dense_operand(Format::Dl16, std::array{4u, columns}, std::array{0u}, kNoDimension);
    input.base = Base::Scratchpad;
    input.split[1] = 2;
    input.split_stride[1] = 1;
    return addition.judge();
  };
  EXPECT_TRUE(judge(128).ok());
  EXPECT_EQ(judge(100), (Refusal{Where::Split, 0, 0}));
}

// Sum of [4, 100] along dimension 1 to [4], one element in each stick.
struct Reduction {
  ProgramBuilder builder;
  explicit Reduction(Opcode opcode) {
    const std::array<std::uint32_t, 2> extent{4, 100};
    Operation operation = operation_of(opcode, extent);
    operation.operand_count = 2;
    operation.reduced = 2;
    operation.operand[0] = dense_operand(Format::Dl16, extent, std::array{0u, 1u}, 1);
    operation.operand[0].argument = builder.add_argument(8 * kStick, Access::Read);
    operation.operand[1] = dense_operand(Format::Dl16, extent, std::array{0u}, kNoDimension);
    operation.operand[1].argument = builder.add_argument(4 * kStick, Access::Write);
    builder.add(operation);
  }
  Operation& operation() { return builder.operations().back(); }
};

Refusal reduced_after(const std::function<void(Operation&)>& spoil, Opcode opcode = Opcode::Sum) {
  Reduction reduction(opcode);
  spoil(reduction.operation());
  return check_program(reduction.builder.build());
}

TEST(DeviceProgramCheck, AReductionReducesOneDimensionOfItsInput) {
  EXPECT_TRUE(reduced_after([](Operation&) {}).ok());
  for (const unsigned bits : {0u, 1u, 3u, 4u, 8u}) {
    EXPECT_EQ(reduced_after([=](Operation& o) { o.reduced = static_cast<std::uint8_t>(bits); }),
              (Refusal{Where::Reduced, kNoOperand, 0}))
        << +bits;
  }
  EXPECT_EQ(reduced_after([](Operation& o) { o.operand[1].stick_dim = 0; }), (Refusal{Where::StickDim, 0, 0}));
  EXPECT_EQ(reduced_after([](Operation& o) { o.operand[1].format = Format::Fp32; }), (Refusal{Where::Format, 1, 0}));
  EXPECT_TRUE(reduced_after([](Operation& o) { o.mask_count = 1, o.mask[0] = {1, 90, 10}; }).ok());
  EXPECT_EQ(reduced_after([](Operation& o) { o.mask_count = 1, o.mask[0] = {0, 0, 1}; }),
            (Refusal{Where::Mask, kNoOperand, 0}));
  EXPECT_EQ(reduced_after([](Operation& o) { o.constant[0] = 1; }), (Refusal{Where::Constant, kNoOperand, 0}));
  EXPECT_TRUE(reduced_after([](Operation& o) { o.constant[0] = 1; }, Opcode::Mean).ok());
  EXPECT_EQ(reduced_after([](Operation& o) { o.operand[1].stick_dim = 0; }, Opcode::Exx2),
            (Refusal{Where::StickDim, 1, 0}));
}

using Spoil = std::function<void(ProgramBuilder&, Operation&)>;

// A function of two sticks, with its table in this base; spoiled.
Refusal check_function(Opcode opcode, Base tables, const Spoil& spoil) {
  ProgramBuilder builder;
  const std::array<std::uint32_t, 1> extent{128};
  Operation operation = operation_of(opcode, extent);
  operation.operand_count = 3;
  operation.operand[0] = dense_operand(Format::Dl16, extent, std::array{0u}, 0);
  operation.operand[2] = operation.operand[0];
  operation.operand[0].argument = builder.add_argument(4 * kStick, Access::Read);
  operation.operand[2].argument = builder.add_argument(4 * kStick, Access::Write);
  operation.operand[1] = dense_operand(Format::Dl16, extent, {}, kNoDimension);
  operation.operand[1].base = tables;
  if (tables == Base::Tables) {
    operation.operand[1].offset = table_offset(opcode);
    builder.flags = kFunctionTables;
  } else {
    builder.add_data(std::vector<std::byte>(kTableBytes));
  }
  spoil(builder, operation);
  builder.add(operation);
  return check_program(builder.build());
}

TEST(DeviceProgramCheck, AFunctionMayHaveItsTableAmongThoseOfAllFunctions) {
  const auto judge = [](const Spoil& spoil) { return check_function(Opcode::Log, Base::Tables, spoil); };
  EXPECT_TRUE(judge([](ProgramBuilder&, Operation&) {}).ok());
  EXPECT_EQ(judge([](ProgramBuilder& b, Operation&) { b.flags = 0; }), (Refusal{Where::Base, 1, 0}));
  EXPECT_EQ(judge([](ProgramBuilder&, Operation& o) { o.operand[1].argument = 1; }), (Refusal{Where::Base, 1, 0}));
  for (const std::uint64_t offset :
       {std::uint64_t{0}, kTableBytes + kStick, kAllTablesBytes - kStick, kAllTablesBytes}) {
    EXPECT_EQ(judge([&](ProgramBuilder&, Operation& o) { o.operand[1].offset = offset; }),
              (Refusal{Where::Offset, 1, 0}));
  }
  EXPECT_EQ(judge([](ProgramBuilder&, Operation& o) { o.operand[0].base = Base::Tables; }),
            (Refusal{Where::Base, 0, 0}));
  EXPECT_EQ(judge([](ProgramBuilder&, Operation& o) { o.operand[2].base = Base::Tables; }),
            (Refusal{Where::Base, 2, 0}));
}

TEST(DeviceProgramCheck, TheTableOfSoftplusAmongAllIsForItsUsualConstants) {
  const auto judge = [](float beta, float threshold) {
    return check_function(Opcode::Softplus, Base::Tables, [&](ProgramBuilder&, Operation& o) {
      o.constant[0] = std::bit_cast<std::uint32_t>(beta);
      o.constant[1] = std::bit_cast<std::uint32_t>(threshold);
    });
  };
  EXPECT_TRUE(judge(1, 20).ok());
  EXPECT_EQ(judge(2, 20), (Refusal{Where::Constant, 1, 0}));
  EXPECT_EQ(judge(1, 19), (Refusal{Where::Constant, 1, 0}));
}

TEST(DeviceProgramCheck, AFunctionOnDl16NeedsItsTable) {
  const auto judge = [](const Spoil& spoil) { return check_function(Opcode::Exp, Base::Data, spoil); };
  EXPECT_TRUE(judge([](ProgramBuilder&, Operation&) {}).ok());
  EXPECT_EQ(judge([](ProgramBuilder&, Operation& o) { o.operand[1].offset = kStick; }), (Refusal{Where::Bounds, 1, 0}));
  EXPECT_EQ(judge([](ProgramBuilder&, Operation& o) { o.operand[1].base = Base::Argument; }),
            (Refusal{Where::Base, 1, 0}));
  EXPECT_EQ(judge([](ProgramBuilder&, Operation& o) { o.operand[1].present = 1; }), (Refusal{Where::Present, 1, 0}));
  EXPECT_EQ(judge([](ProgramBuilder&, Operation& o) { o.operand[1].format = Format::Fp32; }),
            (Refusal{Where::Format, 1, 0}));
  const auto on_fp32 = [](ProgramBuilder&, Operation& o) {
    o.operand[1] = o.operand[2];
    o.operand[2] = {};
    o.operand[0].format = o.operand[1].format = Format::Fp32;
  };
  EXPECT_EQ(judge(on_fp32).where, Where::OperandCount);
  EXPECT_TRUE(judge([&](ProgramBuilder& b, Operation& o) { on_fp32(b, o), o.operand_count = 2; }).ok());
}

// C[m, n] = A[m, k] · B[k, n], dimensions 0, 1, 2 = m, n, k.
Refusal product_after(const std::function<void(Operation&)>& spoil) {
  ProgramBuilder builder;
  const std::array<std::uint32_t, 3> extent{4, 128, 100};
  Operation operation = operation_of(Opcode::MatMul, extent);
  operation.operand_count = 3;
  operation.reduced = 4;
  operation.operand[0] = dense_operand(Format::Dl16, extent, std::array{0u, 2u}, 2);
  operation.operand[1] = dense_operand(Format::Dl16, extent, std::array{2u, 1u}, 1);
  operation.operand[2] = dense_operand(Format::Dl16, extent, std::array{0u, 1u}, 1);
  for (unsigned i = 0; i < 3; ++i) {
    operation.operand[i].argument = builder.add_argument(20000 * kStick, i == 2 ? Access::Write : Access::Read);
  }
  spoil(operation);
  builder.add(operation);
  return check_program(builder.build());
}

TEST(DeviceProgramCheck, DimensionsOfAMatrixProductHaveTheirRoles) {
  EXPECT_TRUE(product_after([](Operation&) {}).ok());
  EXPECT_EQ(product_after([](Operation& o) { o.operand[0].stick_dim = 0; }), (Refusal{Where::StickDim, 0, 0}));
  EXPECT_EQ(product_after([](Operation& o) { o.operand[1].stick_dim = 2; }), (Refusal{Where::StickDim, 1, 0}));
  EXPECT_EQ(product_after([](Operation& o) { o.operand[2].stick_dim = 0; }), (Refusal{Where::StickDim, 2, 0}));
  EXPECT_EQ(product_after([](Operation& o) { o.reduced = 1; }), (Refusal{Where::Reduced, kNoOperand, 0}));
  EXPECT_EQ(product_after([](Operation& o) { o.operand[1].present = 2, o.operand[1].stride[2] = 0; }),
            (Refusal{Where::Reduced, 1, 0}));
  EXPECT_EQ(product_after([](Operation& o) { o.operand[0].format = Format::Fp32; }), (Refusal{Where::Format, 0, 0}));
}

// One operation on dense operands, each in an argument of its own that is large enough.
struct DenseOperand {
  Format format;
  std::vector<unsigned> order;
  std::uint8_t stick_dim;
};
struct Dense {
  ProgramBuilder builder;
  Dense(Opcode opcode, std::initializer_list<std::uint32_t> extent, const std::vector<DenseOperand>& operands) {
    Operation operation = operation_of(opcode, extent);
    for (const DenseOperand& it : operands) {
      const bool output = &it == &operands.back();
      Operand& operand = operation.operand[operation.operand_count++];
      operand = dense_operand(it.format, extent, it.order, it.stick_dim);
      operand.argument = builder.add_argument(100'000 * kStick, output ? Access::Write : Access::Read);
    }
    builder.add(operation);
  }
  // Judged with changes that do not stay.
  Refusal after(const std::function<void(Operation&)>& spoil) const {
    ProgramBuilder spoilt = builder;
    spoil(spoilt.operations().back());
    return check_program(spoilt.build());
  }
};

TEST(DeviceProgramCheck, RestickifyChangesTheStickDimension) {
  const Dense op(Opcode::Restickify, {70, 80}, {{Format::Dl16, {0, 1}, 1}, {Format::Int16, {1, 0}, 0}});
  EXPECT_TRUE(op.after([](Operation&) {}).ok());
  EXPECT_EQ(op.after([](Operation& o) { o.operand[1].stick_dim = 1; }), (Refusal{Where::StickDim, 0, 0}));
  EXPECT_EQ(op.after([](Operation& o) { o.operand[1].format = Format::Fp32; }), (Refusal{Where::Format, 1, 0}));
  // From one element in each stick, and of one that is repeated.
  EXPECT_TRUE(op.after([](Operation& o) { o.operand[0].stick_dim = kNoDimension; }).ok());
  EXPECT_TRUE(op.after([](Operation& o) { o.operand[0].present = 2, o.operand[0].stride[0] = 0; }).ok());
  EXPECT_EQ(op.after([](Operation& o) { o.operand[0].stick_dim = o.operand[1].stick_dim = kNoDimension; }),
            (Refusal{Where::StickDim, 0, 0}));
  EXPECT_EQ(op.after([](Operation& o) { o.operand[1].present = 1, o.operand[1].stride[1] = 0; }),
            (Refusal{Where::Present, 0, 0}));
}

TEST(DeviceProgramCheck, FormatsOfAConversionAreFixed) {
  const Dense op(Opcode::Dl16ToFp32, {70}, {{Format::Dl16, {0}, 0}, {Format::Fp32, {0}, 0}});
  EXPECT_TRUE(op.after([](Operation&) {}).ok());
  EXPECT_EQ(op.after([](Operation& o) { o.operand[0].format = Format::Fp32; }), (Refusal{Where::Format, 0, 0}));
  EXPECT_EQ(op.after([](Operation& o) { o.operand[1].format = Format::Int32; }), (Refusal{Where::Format, 1, 0}));
  EXPECT_EQ(op.after([](Operation& o) { o.operand[0].stick_dim = o.operand[1].stick_dim = kNoDimension; }),
            (Refusal{Where::StickDim, 0, 0}));
}

TEST(DeviceProgramCheck, AWeightAlternatesAlongAnotherDimensionThanItsSticks) {
  const Dense op(Opcode::Dl16ToFp8Weight, {6, 70}, {{Format::Dl16, {0, 1}, 1}, {Format::Fp8E4m3, {0, 1}, 1}});
  const auto with = [&](std::uint8_t reduced) { return op.after([=](Operation& o) { o.reduced = reduced; }); };
  EXPECT_TRUE(op.after([](Operation& o) { o.reduced = 1, o.operand[1].stride[1] = 6 * kStick; }).ok());
  EXPECT_EQ(with(2), (Refusal{Where::Reduced, 0, 0}));
  EXPECT_EQ(with(0), (Refusal{Where::Reduced, kNoOperand, 0}));
}

TEST(DeviceProgramCheck, AnFp8ProductTakesAWeightAndHasSticks) {
  Dense op(Opcode::MatMulFp8, {4, 130, 101},
           {{Format::Fp8E4m3, {0, 2}, 2}, {Format::Fp8E4m3, {2, 1}, 1}, {Format::Dl16, {0, 1}, 1}});
  op.builder.operations()[0].reduced = 4;
  const auto judge = [&](const std::function<void(Operation&)>& spoil) { return op.after(spoil); };
  EXPECT_TRUE(judge([](Operation&) {}).ok());
  EXPECT_EQ(judge([](Operation& o) { o.operand[0].stick_dim = 0; }), (Refusal{Where::StickDim, 0, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[1].stick_dim = 2; }), (Refusal{Where::StickDim, 1, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[1].stick_dim = kNoDimension; }), (Refusal{Where::StickDim, 1, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[2].stick_dim = 0; }), (Refusal{Where::StickDim, 2, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[1].stick_dim = o.operand[2].stick_dim = kNoDimension; }),
            (Refusal{Where::StickDim, 2, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.reduced = 0; }), (Refusal{Where::Reduced, kNoOperand, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.reduced = 1; }), (Refusal{Where::Reduced, kNoOperand, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[1].present = 2, o.operand[1].stride[2] = 0; }),
            (Refusal{Where::Reduced, 1, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[0].format = Format::Dl16; }), (Refusal{Where::Format, 0, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[1].format = Format::Fp8E5m2; }), (Refusal{Where::Format, 1, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[2].format = Format::Fp8E4m3; }), (Refusal{Where::Format, 2, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.mask_count = 1, o.mask[0].count = 1; }), (Refusal{Where::Mask, kNoOperand, 0}));
}

// A stick holds two positions of k and 64 of n: 51 times 3 of them, one behind the other.
TEST(DeviceProgramCheck, AWeightReachesAsFarAsItsSticks) {
  Dense op(Opcode::MatMulFp8, {4, 130, 101},
           {{Format::Fp8E4m3, {0, 2}, 2}, {Format::Fp8E4m3, {2, 1}, 1}, {Format::Dl16, {0, 1}, 1}});
  Operation& operation = op.builder.operations()[0];
  operation.reduced = 4;
  operation.operand[1].stride[1] = 51 * kStick;
  op.builder.arguments()[1].bytes = 51 * 3 * kStick;
  EXPECT_TRUE(op.after([](Operation&) {}).ok());
  op.builder.arguments()[1].bytes = (51 * 3 - 1) * kStick;
  EXPECT_EQ(op.after([](Operation&) {}), (Refusal{Where::Bounds, 1, 0}));
}

// Parts of a weight are whole sticks: of two positions along k, of 64 along n.
TEST(DeviceProgramCheck, AWeightIsCutBetweenItsSticks) {
  Dense op(Opcode::MatMulFp8, {4, 128, 200},
           {{Format::Fp8E4m3, {0, 2}, 2}, {Format::Fp8E4m3, {2, 1}, 1}, {Format::Dl16, {0, 1}, 1}});
  Operation& operation = op.builder.operations()[0];
  operation.reduced = 4;
  operation.operand[1].base = Base::Scratchpad;
  operation.operand[1].argument = 0;
  operation.operand[1].stride[1] = 100 * kStick;
  op.builder.slices = 8;
  op.builder.scratchpad_bytes = 200 * kStick;
  const auto cut = [&](unsigned d, std::uint8_t parts) {
    return op.after([=](Operation& o) { o.operand[1].split[d] = parts, o.operand[1].split_stride[d] = 1; });
  };
  EXPECT_TRUE(cut(2, 4).ok());
  EXPECT_TRUE(cut(1, 2).ok());
  EXPECT_EQ(cut(2, 8), (Refusal{Where::Split, 1, 0}));  // 25 positions each
  EXPECT_EQ(cut(1, 4), (Refusal{Where::Split, 1, 0}));
}

TEST(DeviceProgramCheck, AnIndexNamesWholeSticks) {
  const Dense op(Opcode::Gather, {5, 70}, {{Format::Int32, {0}, 0}, {Format::Dl16, {1}, 1}, {Format::Dl16, {0, 1}, 1}});
  const auto judge = [&](const std::function<void(Operation&)>& spoil) {
    return op.after([&](Operation& o) { o.page = 2 * kStick, spoil(o); });
  };
  EXPECT_TRUE(judge([](Operation&) {}).ok());
  EXPECT_EQ(judge([](Operation& o) { o.page = 0; }), (Refusal{Where::Page, kNoOperand, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.page = 64; }), (Refusal{Where::Page, kNoOperand, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[0].format = Format::Int16; }), (Refusal{Where::Format, 0, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[1].format = Format::Fp32; }), (Refusal{Where::Format, 2, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[0].present = 3; }), (Refusal{Where::StickDim, 0, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[2].present = 2, o.operand[2].stride[0] = 0; }),
            (Refusal{Where::Present, 0, 0}));
}

TEST(DeviceProgramCheck, AnIndexedOperandHasItsArgumentForItself) {
  const Dense op(Opcode::Gather, {5, 70}, {{Format::Int32, {0}, 0}, {Format::Dl16, {1}, 1}, {Format::Dl16, {0, 1}, 1}});
  Dense shared = op;
  shared.builder.arguments()[1].access = Access::ReadWrite;
  const auto at = [&](std::uint64_t output) {
    return shared.after([=](Operation& o) {
      o.page = 2 * kStick;
      o.operand[1].offset = 10 * kStick;
      o.operand[2].argument = 1;
      o.operand[2].offset = output;
    });
  };
  EXPECT_TRUE(at(0).ok());  // an index leads no further back than the offset
  EXPECT_EQ(at(kStick), (Refusal{Where::Access, 1, 0}));
  EXPECT_EQ(at(5000 * kStick), (Refusal{Where::Access, 1, 0}));
}

TEST(DeviceProgramCheck, TopKHasOneDimensionOfRanks) {
  const Dense op(Opcode::TopKValue, {5, 70, 4}, {{Format::Dl16, {0, 1}, 1}, {Format::Dl16, {0, 2}, 2}});
  const auto judge = [&](const std::function<void(Operation&)>& spoil) {
    return op.after([&](Operation& o) { o.reduced = 2, spoil(o); });
  };
  EXPECT_TRUE(judge([](Operation&) {}).ok());
  EXPECT_EQ(judge([](Operation& o) { o.extent[2] = 71; }), (Refusal{Where::Extent, 0, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[0].present = 2, o.operand[0].stride[0] = 0; }),
            (Refusal{Where::Present, 0, 0}));
  EXPECT_EQ(judge([](Operation& o) { o.operand[1].stick_dim = 0; }), (Refusal{Where::StickDim, 0, 0}));
}

TEST(DeviceProgramCheck, TopKIndexMayBeAnIntegerOfTheInputsSize) {
  const auto judge = [](Opcode opcode, Format from, Format to) {
    const Dense op(opcode, {5, 70, 4}, {{from, {0, 1}, 1}, {to, {0, 2}, 2}});
    return op.after([](Operation& o) { o.reduced = 2; });
  };
  EXPECT_TRUE(judge(Opcode::TopKIndex, Format::Fp32, Format::Int32).ok());
  EXPECT_EQ(judge(Opcode::TopKIndex, Format::Dl16, Format::Int32), (Refusal{Where::Format, 1, 0}));
  EXPECT_EQ(judge(Opcode::TopKIndex, Format::Fp32, Format::Uint32), (Refusal{Where::Format, 1, 0}));
  EXPECT_EQ(judge(Opcode::TopKValue, Format::Fp32, Format::Int32), (Refusal{Where::Format, 1, 0}));
}

TEST(DeviceProgramCheck, APairHasNoStickDimension) {
  const Dense op(Opcode::LayerNormScale, {5, 70}, {{Format::Fp32, {0}, kNoDimension}, {Format::Fp32, {0, 1}, 1}});
  EXPECT_TRUE(op.after([](Operation&) {}).ok());
  EXPECT_EQ(op.after([](Operation& o) { o.operand[0].stick_dim = 0; }), (Refusal{Where::StickDim, 0, 0}));
  EXPECT_EQ(op.after([](Operation& o) { o.operand[0].present = 3; }), (Refusal{Where::StickDim, 0, 0}));
}

TEST(DeviceProgramCheck, APairIsNotReplacedInPlace) {
  Dense op(Opcode::LayerNormScale, {5}, {{Format::Fp32, {0}, kNoDimension}, {Format::Fp32, {0}, kNoDimension}});
  EXPECT_TRUE(op.after([](Operation&) {}).ok());
  op.builder.arguments()[1].access = Access::ReadWrite;
  EXPECT_EQ(op.after([](Operation& o) { o.operand[0].argument = 1; }), (Refusal{Where::Access, 0, 0}));
}

TEST(DeviceProgramCheck, BoundsOfClipAreNumbersOrInfinite) {
  const Dense op(Opcode::Clip, {70}, {{Format::Dl16, {0}, 0}, {Format::Dl16, {0}, 0}});
  const auto with = [&](float bound) {
    return op.after([=](Operation& o) { o.constant[1] = std::bit_cast<std::uint32_t>(bound); });
  };
  const Refusal refused{Where::Constant, kNoOperand, 0};
  EXPECT_TRUE(with(65504).ok());
  EXPECT_EQ(with(std::numeric_limits<float>::quiet_NaN()), refused);
  EXPECT_TRUE(with(std::numeric_limits<float>::infinity()).ok());
  EXPECT_TRUE(with(1e10F).ok());
}

TEST(DeviceProgramCheck, EveryOpcodeHasOneRowAndAName) {
  std::size_t rows = 0;
  for (unsigned number = 0; number < 0x10000; ++number) {
    const auto opcode = static_cast<Opcode>(number);
    const OpcodeRow* row = find_opcode(opcode);
    EXPECT_EQ(row != nullptr, name(opcode) != "unknown") << number;
    if (row == nullptr) continue;
    ++rows;
    EXPECT_LE(row->operands, kMaxOperands) << name(opcode);
    for (unsigned i = 0; i < kMaxOperands; ++i) {
      EXPECT_EQ(row->role[i] != Role::None, i < row->operands) << name(opcode);
      EXPECT_EQ(is_output(row->role[i]), i + 1 == row->operands) << name(opcode);
    }
  }
  EXPECT_EQ(rows, std::size(kOpcodes));
}

TEST(DeviceProgramCheck, ARefusalSurvivesAsAStatus) {
  const Refusal refusal{Where::LoopStride, 5, 4095};
  EXPECT_TRUE(is_refusal(to_status(refusal)));
  EXPECT_EQ(from_status(to_status(refusal)), refusal);
  EXPECT_EQ(from_status(to_status({Where::Crc, kNoOperand, kWholeProgram})),
            (Refusal{Where::Crc, kNoOperand, kWholeProgram}));
  for (const std::uint32_t index : {0u, 40u, 0x7FFF'FFFFu, ~0u}) {
    const Refusal outside{.where = Where::Index, .operand = 2, .operation = kMaxOperations - 1, .index = index};
    EXPECT_TRUE(is_refusal(to_status(outside)));
    EXPECT_EQ(from_status(to_status(outside)), outside);
  }
}

}  // namespace
