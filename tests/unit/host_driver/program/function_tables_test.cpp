// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/function_tables.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/program/golden/golden.hpp"
#include "host_driver/program/stored_tables.hpp"
#include "shared/device_program_names.hpp"
#include "shared/device_program_opcodes.hpp"
#include "shared/real_functions.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using svp::program::function_dl16;
using svp::program::function_table;
using wire::program::Opcode;

constexpr Opcode kFunctions[] = {Opcode::Exp,     Opcode::Log,  Opcode::Sqrt, Opcode::Rsqrt, Opcode::Reciprocal,
                                 Opcode::Sigmoid, Opcode::Tanh, Opcode::Silu, Opcode::Gelu,  Opcode::Softplus};
constexpr wire::Dl16 kOne = 0x3E00;
constexpr wire::Dl16 kMinusOne = 0xBE00;
constexpr wire::Dl16 kInfinity = 0x7FFF;
constexpr wire::Dl16 kMinusInfinity = 0xFFFF;

TEST(FunctionTables, HaveTheKnownValues) {
  const auto dl16 = [](double value) { return wire::dl16_from_fp64(value); };
  EXPECT_EQ(function_dl16(Opcode::Exp, 0), kOne);
  EXPECT_EQ(function_dl16(Opcode::Exp, 0x8000), kOne);
  EXPECT_EQ(function_dl16(Opcode::Exp, kOne), dl16(std::numbers::e));
  EXPECT_EQ(function_dl16(Opcode::Exp, dl16(30)), kInfinity);
  EXPECT_EQ(function_dl16(Opcode::Exp, dl16(-30)), 0);
  EXPECT_EQ(function_dl16(Opcode::Log, kOne), 0);
  EXPECT_EQ(function_dl16(Opcode::Log, 0), kMinusInfinity);
  EXPECT_EQ(function_dl16(Opcode::Log, kMinusOne), wire::kDl16Nan);
  EXPECT_EQ(function_dl16(Opcode::Sqrt, dl16(9)), dl16(3));
  EXPECT_EQ(function_dl16(Opcode::Sqrt, 0x8000), 0x8000);
  EXPECT_EQ(function_dl16(Opcode::Sqrt, kMinusOne), wire::kDl16Nan);
  EXPECT_EQ(function_dl16(Opcode::Rsqrt, dl16(4)), dl16(0.5));
  EXPECT_EQ(function_dl16(Opcode::Rsqrt, 0), kInfinity);
  EXPECT_EQ(function_dl16(Opcode::Reciprocal, dl16(-4)), dl16(-0.25));
  EXPECT_EQ(function_dl16(Opcode::Reciprocal, 0x8000), kMinusInfinity);
  EXPECT_EQ(function_dl16(Opcode::Sigmoid, 0), dl16(0.5));
  EXPECT_EQ(function_dl16(Opcode::Sigmoid, dl16(100)), kOne);
  EXPECT_EQ(function_dl16(Opcode::Tanh, dl16(-100)), kMinusOne);
  EXPECT_EQ(function_dl16(Opcode::Tanh, 0x8000), 0x8000);
  EXPECT_EQ(function_dl16(Opcode::Silu, dl16(100)), dl16(100));
  EXPECT_EQ(function_dl16(Opcode::Silu, 0xFFFD), 0x8000);
  EXPECT_EQ(function_dl16(Opcode::Gelu, dl16(100)), dl16(100));
  EXPECT_EQ(function_dl16(Opcode::Gelu, kOne), dl16(0.841192));
  EXPECT_EQ(function_dl16(Opcode::Softplus, 0), dl16(std::numbers::ln2));
  EXPECT_EQ(function_dl16(Opcode::Softplus, dl16(21)), dl16(21));
  EXPECT_EQ(function_dl16(Opcode::Softplus, kOne, {2, 20}), dl16(std::log1p(std::exp(2.0)) / 2));
  EXPECT_EQ(function_dl16(Opcode::Softplus, dl16(-2), {0.5F, 20}), dl16(0.62652338));
  EXPECT_EQ(function_dl16(Opcode::Softplus, kOne, {2, 1}), kOne);
  for (const Opcode function : kFunctions) {
    for (const wire::Dl16 nan : {wire::kDl16Nan, wire::Dl16{0xFFFE}})
      EXPECT_EQ(function_dl16(function, nan), wire::kDl16Nan);
  }
}

TEST(FunctionTables, OfInfinitiesAreThoseOfPyTorch) {
  const std::pair<Opcode, std::array<wire::Dl16, 2>> kResults[] = {{Opcode::Exp, {kInfinity, 0}},
                                                                   {Opcode::Log, {kInfinity, wire::kDl16Nan}},
                                                                   {Opcode::Sqrt, {kInfinity, wire::kDl16Nan}},
                                                                   {Opcode::Rsqrt, {0, wire::kDl16Nan}},
                                                                   {Opcode::Reciprocal, {0, 0x8000}},
                                                                   {Opcode::Sigmoid, {kOne, 0}},
                                                                   {Opcode::Tanh, {kOne, kMinusOne}},
                                                                   {Opcode::Silu, {kInfinity, wire::kDl16Nan}},
                                                                   {Opcode::Gelu, {kInfinity, wire::kDl16Nan}},
                                                                   {Opcode::Softplus, {kInfinity, 0}}};
  for (const auto& [function, results] : kResults) {
    EXPECT_EQ(function_dl16(function, kInfinity), results[0]) << name(function);
    EXPECT_EQ(function_dl16(function, kMinusInfinity), results[1]) << name(function);
  }
}

TEST(FunctionTables, AreRefusedForOtherOpcodes) { EXPECT_THROW(function_table(Opcode::Add), svp::InvalidArgument); }

TEST(FunctionTables, AreWhatTheBuildStored) {
  using svp::program::stored_table;
  for (const Opcode function : kFunctions) {
    EXPECT_TRUE(std::ranges::equal(stored_table(function), function_table(function))) << name(function);
  }
  EXPECT_TRUE(stored_table(Opcode::Softplus, {2, 20}).empty());
  EXPECT_TRUE(stored_table(Opcode::Softplus, {1, 5}).empty());
  EXPECT_FALSE(stored_table(Opcode::Exp, {2, 20}).empty()) << "a function that has no constants";
  EXPECT_TRUE(stored_table(Opcode::Sum).empty());
  EXPECT_TRUE(stored_table(Opcode::Floor).empty());
}

// fp64 is wrong by less than 2^-46 of the value here. Both ends of that interval round to the same DL16, and the table
// has it: so it is the DL16 nearest to the exact value, for every code.
TEST(FunctionTables, AreCorrectlyRounded) {
  for (const auto constants : {svp::program::FunctionConstants{}, svp::program::FunctionConstants{0.7F, 5}}) {
    for (const Opcode function : kFunctions) {
      const auto table = function_table(function, constants);
      for (unsigned code = 0; code < table.size(); ++code) {
        const double x = wire::fp64_from_dl16(static_cast<wire::Dl16>(code));
        const double value = svp::program::function_fp64(function, x, constants);
        if (std::isnan(value)) {
          ASSERT_EQ(table[code], wire::kDl16Nan) << name(function) << " of " << code;
          continue;
        }
        ASSERT_EQ(table[code], wire::dl16_from_fp64(value * (1 - 0x1p-46))) << name(function) << " of " << code;
        ASSERT_EQ(table[code], wire::dl16_from_fp64(value * (1 + 0x1p-46))) << name(function) << " of " << code;
      }
    }
  }
}

// A function has one definition: its table on DL16 is what the evaluation on FP32 gives before its rounding, for every
// code and for constants that are not those by default. The latter is wrong by less than 2^-44 of the result.
TEST(FunctionTables, AreTheFunctionsOnFp32) {
  constexpr svp::program::FunctionConstants kConstants[] = {{},     {0.5F, 20},  {2, 20},  {50, 20}, {0.7F, 5},
                                                            {3, 0}, {1, 1000.0}, {-1, 20}, {-2, -1}, {0, 20}};
  for (const auto& constants : kConstants) {
    for (const Opcode function : kFunctions) {
      const bool has_constants = wire::program::find_opcode(function)->constants != 0;
      if (!has_constants && constants != svp::program::FunctionConstants{}) continue;
      const auto table = function_table(function, constants);
      for (unsigned code = 0; code < table.size(); ++code) {
        const double x = wire::fp64_from_dl16(static_cast<wire::Dl16>(code));
        const double value = wire::real::evaluate(function, x, constants.beta, constants.threshold);
        if (std::isnan(value)) {
          ASSERT_EQ(table[code], wire::kDl16Nan) << name(function) << " of " << x;
          continue;
        }
        const bool one_of_both = table[code] == wire::dl16_from_fp64(value * (1 - 0x1p-44)) ||
                                 table[code] == wire::dl16_from_fp64(value * (1 + 0x1p-44));
        ASSERT_TRUE(one_of_both) << name(function) << " of " << x << " is " << wire::fp64_from_dl16(table[code])
                                 << ", not " << value << ", beta " << constants.beta;
      }
    }
  }
}

// A program with the table and the function itself agree for every code.
TEST(FunctionTables, AreFollowedByTheGoldenModel) {
  using namespace wire::program;
  for (const Opcode function : kFunctions) {
    svp::test::ProgramBuilder builder;
    const std::array<std::uint32_t, 1> extent{65536};
    Operation operation = svp::test::operation_of(function, extent);
    operation.operand_count = 3;
    operation.operand[0] = svp::test::dense_operand(Format::Dl16, extent, std::array{0u}, 0);
    operation.operand[2] = operation.operand[0];
    operation.operand[0].argument = builder.add_argument(2 * 65536, Access::Read);
    operation.operand[2].argument = builder.add_argument(2 * 65536, Access::Write);
    operation.operand[1] = svp::test::dense_operand(Format::Dl16, extent, {}, kNoDimension);
    operation.operand[1].base = Base::Data;
    const auto table = function_table(function);
    operation.operand[1].offset = builder.add_data(std::as_bytes(std::span(table)));
    builder.add(operation);
    std::vector<std::uint16_t> codes(65536);
    for (unsigned code = 0; code < codes.size(); ++code) codes[code] = static_cast<std::uint16_t>(code);
    std::vector<std::uint16_t> results(65536);
    const std::array arguments{std::as_writable_bytes(std::span(codes)), std::as_writable_bytes(std::span(results))};
    svp::program::golden::run(builder.build(), arguments);
    for (const std::uint16_t code : codes) ASSERT_EQ(results[code], function_dl16(function, code)) << code;

    // The same from the table among those of all functions.
    builder.flags = wire::program::kFunctionTables;
    builder.operations()[0].operand[1].base = Base::Tables;
    builder.operations()[0].operand[1].offset = wire::program::table_offset(function);
    builder.operations()[0].constant[0] = function == Opcode::Softplus ? std::bit_cast<std::uint32_t>(1.0F) : 0;
    builder.operations()[0].constant[1] = function == Opcode::Softplus ? std::bit_cast<std::uint32_t>(20.0F) : 0;
    std::ranges::fill(results, std::uint16_t{0});
    svp::program::golden::run(builder.build(), arguments);
    for (const std::uint16_t code : codes) ASSERT_EQ(results[code], function_dl16(function, code)) << code;
  }
}

}  // namespace
