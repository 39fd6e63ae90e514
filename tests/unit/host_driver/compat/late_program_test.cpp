// SPDX-License-Identifier: Apache-2.0
// Programs that are compiled for the lengths of a launch: how often the compiler is asked.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "host_driver/compat/flex/2026-08-21/program_memory.hpp"
#include "host_driver/compiler/compile.hpp"
#include "host_driver/program/device_program.hpp"
#include "tests/support/bundle_builder.hpp"

namespace flex::detail {
namespace {

constexpr std::uint64_t kRow = 2560;  // bytes

// A gather of 32 rows; its program depends on the length of the table, argument 1.
std::shared_ptr<LateProgram> gather() {
  test::BundleBuilder builder(3);
  builder.add({.op = "identity",
               .extents = {{"mb", 32}, {"out", 1280}},
               .tensors = {{.order = {"mb"}, .stick = "mb", .base = "arg_0", .format = "SENUINT32", .index = true},
                           {.order = {"out", "mb"}, .stick = "out", .base = "arg_1", .indirect = true},
                           {.order = {"mb", "out"}, .stick = "out", .base = "arg_2"}}});
  const svp::compiler::BundleFiles files{{"bundle.mlir", builder.text()}, {"sdsc_0.json", builder.read("sdsc_0.json")}};
  const auto plan = svp::compiler::spyre_code_of(svp::compiler::compile(svp::compiler::read_bundle(files)), &files);
  return binaries_in(plan.binaries[0].bytes, "the binary")[0].late;
}

std::string answer_to(LateProgram& program, std::uint64_t table) {
  try {
    const auto job = program.compiled_program(std::vector<std::uint64_t>{128, table, 32 * kRow}).job;
    return std::to_string(job->device_program()->arguments()[1].bytes) + " bytes";
  } catch (const svp::InvalidPlan& refused) {
    return refused.info().message;
  }
}

TEST(LateProgram, LengthsThatWereCompiledAreNotCompiledAgain) {
  const auto program = gather();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(answer_to(*program, 40 * kRow), "102400 bytes");
    EXPECT_EQ(answer_to(*program, 50 * kRow), "128000 bytes");
    EXPECT_EQ(program->compilations(), 2u);
  }
}

TEST(LateProgram, LengthsThatWereRefusedAreNotCompiledAgain) {
  const auto program = gather();
  const std::string first = answer_to(*program, 128);
  EXPECT_THAT(first, testing::HasSubstr("argument 1, which has 128 bytes, and one row of it 2560"));
  for (int round = 0; round < 3; ++round) EXPECT_EQ(answer_to(*program, 128), first);
  EXPECT_EQ(program->compilations(), 1u);
  EXPECT_EQ(answer_to(*program, 40 * kRow), "102400 bytes") << "others are compiled";
  EXPECT_EQ(program->compilations(), 2u);
}

TEST(LateProgram, RefusalsAreBoundedAndTakeNoProgramsPlace) {
  const auto program = gather();
  EXPECT_EQ(answer_to(*program, 40 * kRow), "102400 bytes");
  const auto refuse = [&](std::uint64_t sticks) {
    EXPECT_THAT(answer_to(*program, sticks * 128), testing::HasSubstr("and one row of it 2560"));
  };
  for (std::uint64_t sticks = 1; sticks <= LateProgram::kMostRefusals + 1; ++sticks) refuse(sticks);
  const std::uint64_t before = program->compilations();
  EXPECT_EQ(before, LateProgram::kMostRefusals + 2);
  refuse(LateProgram::kMostRefusals + 1);
  EXPECT_EQ(answer_to(*program, 40 * kRow), "102400 bytes");
  EXPECT_EQ(program->compilations(), before);
  refuse(1);
  EXPECT_EQ(program->compilations(), before + 1) << "the first one was forgotten";
}

}  // namespace
}  // namespace flex::detail
