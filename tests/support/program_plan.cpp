// SPDX-License-Identifier: Apache-2.0
// program_plan DIRECTORY [gather] — writes the plan of a device program that copies 8192 DL16 elements from its first
// argument to its second, by way of its workspace. With `gather`: of one that takes three rows of a table (argument 0,
// 16 rows of 64 DL16 elements) by number (argument 1, INT32) to argument 2.
#include <cstdio>
#include <exception>
#include <string_view>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using namespace wire::program;

constexpr std::uint32_t kElements = 64 * 128;

Operand all(Base base, std::uint8_t argument) {
  const std::uint32_t extent[] = {kElements};
  const unsigned order[] = {0};
  Operand operand = svp::test::dense_operand(Format::Dl16, extent, order, 0);
  operand.base = base;
  operand.argument = argument;
  return operand;
}

Operation copy(const Operand& from, const Operand& to) {
  Operation operation = svp::test::operation_of(Opcode::Copy, {kElements});
  operation.operand_count = 2;
  operation.operand[0] = from;
  operation.operand[1] = to;
  return operation;
}

svp::Job gather() {
  constexpr std::uint32_t kRows = 16, kTaken = 3;
  const std::uint32_t extent[] = {kTaken, 64};
  const auto operand = [&](Format format, std::initializer_list<unsigned> order, std::uint8_t stick,
                           unsigned argument) {
    Operand made = svp::test::dense_operand(format, extent, std::span(order.begin(), order.size()), stick);
    made.base = Base::Argument;
    made.argument = static_cast<std::uint8_t>(argument);
    return made;
  };
  svp::test::ProgramBuilder builder;
  builder.add_argument(kRows * wire::kStickBytes, Access::Read);
  builder.add_argument(wire::kStickBytes, Access::Read);
  builder.add_argument(kTaken * wire::kStickBytes, Access::Write);
  Operation operation = svp::test::operation_of(Opcode::Gather, extent);
  operation.operand_count = 3;
  operation.operand[0] = operand(Format::Int32, {0}, 0, 1);
  operation.operand[1] = operand(Format::Dl16, {1}, 1, 0);
  operation.operand[2] = operand(Format::Dl16, {0, 1}, 1, 2);
  operation.page = wire::kStickBytes;
  builder.add(operation);
  return svp::Job(std::make_shared<const svp::DeviceProgram>("gather", builder.build()));
}

svp::Job job() {
  svp::test::ProgramBuilder builder;
  builder.add_argument(kElements * 2, Access::Read);
  builder.add_argument(kElements * 2, Access::Write);
  builder.pool_bytes = kElements * 2;
  builder.add(copy(all(Base::Argument, 0), all(Base::Pool, 0)));
  builder.add(copy(all(Base::Pool, 0), all(Base::Argument, 1)));
  return svp::Job(std::make_shared<const svp::DeviceProgram>("copy", builder.build()));
}

}  // namespace

int main(int count, char** arguments) {
  const bool gathers = count == 3 && std::string_view(arguments[2]) == "gather";
  if (count != 2 && !gathers) return std::fprintf(stderr, "usage: program_plan DIRECTORY [gather]\n"), 2;
  try {
    svp::ExecutionPlan({gathers ? gather() : job()}).write_directory(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "program_plan: %s\n", error.what());
    return 1;
  }
}
