// SPDX-License-Identifier: Apache-2.0
// program_plan DIRECTORY — writes the plan of a device program that copies 8192 DL16 elements from its first
// argument to its second, by way of its workspace.
#include <cstdio>
#include <exception>

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
  if (count != 2) return std::fprintf(stderr, "usage: program_plan DIRECTORY\n"), 2;
  try {
    svp::ExecutionPlan({job()}).write_directory(arguments[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "program_plan: %s\n", error.what());
    return 1;
  }
}
