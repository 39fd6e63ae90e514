// SPDX-License-Identifier: Apache-2.0
// Jobs of device programs against the real firmware core on a thread, which runs no kernels: what the driver makes of a
// program, what it sends, and what it knows of a launch that failed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using wire::program::Access;
using Clock = FlexStream::Clock;

constexpr std::uint64_t kBytes = 4096;

Clock::time_point soon() { return Clock::now() + test_bounds::kWork; }

// Takes `arguments` of kBytes, the last one to write, and does nothing.
std::shared_ptr<const DeviceProgram> program_of(unsigned arguments, std::uint64_t pool_bytes = 0,
                                                std::uint32_t slices = 0, std::uint32_t flags = 0) {
  test::ProgramBuilder builder;
  builder.flags = flags;
  for (unsigned i = 0; i < arguments; ++i) {
    builder.add_argument(kBytes, i + 1 == arguments ? Access::Write : Access::Read);
  }
  builder.pool_bytes = pool_bytes;
  builder.slices = slices;
  builder.scratchpad_bytes = slices != 0 ? wire::kStickBytes : 0;
  return std::make_shared<const DeviceProgram>("nothing", builder.build());
}

// Takes correction tensors of every size.
std::shared_ptr<const Kernel> engine() {
  static const auto kernel = test::kernel_of_many(1);
  return kernel;
}

TEST(ProgramJobs, OperandsAreTheProgramItsArgumentsAndItsWorkspace) {
  const Job job(program_of(2, 256), engine(), {.core_mask = 6, .budget_slices = 9});
  const KernelMetadata& kernel = job.binary()->metadata();
  EXPECT_EQ(kernel.name, "nothing");
  ASSERT_EQ(kernel.operands.size(), 4u);
  EXPECT_EQ(kernel.operands[0].name, "program");
  EXPECT_EQ(kernel.operands[2].name, "argument 1");
  EXPECT_TRUE(kernel.operands[2].writes());
  EXPECT_EQ(kernel.operands[3].name, "workspace");
  EXPECT_TRUE(kernel.operands[3].driver_own);
  ASSERT_EQ(kernel.symbols.size(), 4u);
  EXPECT_EQ(kernel.symbols[3].operand, 3u);
  EXPECT_EQ(job.program_correction_metadata().max_bytes, wire::correction_bytes(4));
  EXPECT_EQ(job.job_plan().compute()->core_mask, 6u);
  EXPECT_EQ(job.job_plan().compute()->budget_slices, 9u);
  EXPECT_EQ(job.binary()->image().data(), engine()->image().data()) << "one image in memory of the host";
}

TEST(ProgramJobs, TheMostArgumentsAndWhatTheDriverAddsFitALaunch) {
  const Job job(program_of(wire::program::kMaxArguments, 256, 2, wire::program::kFunctionTables), engine());
  EXPECT_EQ(job.binary()->metadata().operands.size(), wire::program::kMaxLaunchOperands);
  EXPECT_LE(job.program_correction_metadata().max_bytes, Runtime::kCorrectionSlotBytes) << "no memory of its own";
}

TEST(ProgramJobs, TablesStandBehindTheArgumentsAndAreRead) {
  const Job job(program_of(1, 256, 0, wire::program::kFunctionTables), engine());
  const KernelMetadata& kernel = job.binary()->metadata();
  ASSERT_EQ(kernel.operands.size(), 4u);
  EXPECT_EQ(kernel.operands[2].name, "tables");
  EXPECT_FALSE(kernel.operands[2].writes());
  EXPECT_EQ(kernel.operands[3].name, "workspace");
  EXPECT_EQ(job.program_form()->geometry[2].bytes, wire::program::kAllTablesBytes);
}

TEST(ProgramJobs, ScratchpadsAreTheLastOperandAndNobodysOwn) {
  const Job job(program_of(1, 0, 3), engine());
  const KernelMetadata& kernel = job.binary()->metadata();
  ASSERT_EQ(kernel.operands.size(), 3u);
  EXPECT_EQ(kernel.operands[2].name, "scratchpads");
  EXPECT_TRUE(kernel.operands[2].writes());
  EXPECT_FALSE(kernel.operands[2].driver_own) << "what is written there is lost on a later launch";
  EXPECT_EQ(job.program_form()->geometry[2].bytes, 2 * wire::program::kScratchpadStride + 128);
}

TEST(ProgramJobs, TheLargestOperationDecidesWhetherAllCoresWork) {
  const auto with = [](std::uint32_t extent) {
    test::ProgramBuilder builder;
    builder.add_argument(extent * 2, Access::ReadWrite);
    auto copy = test::operation_of(wire::program::Opcode::Copy, {extent});
    const unsigned order[] = {0};
    copy.operand_count = 2;
    copy.operand[0] = copy.operand[1] =
        test::dense_operand(wire::program::Format::Dl16, std::span(copy.extent, 1), order, 0);
    for (int i = 0; i < 10; ++i) builder.add(copy);
    return Job(std::make_shared<const DeviceProgram>("copies", builder.build()), engine()).worth_all_cores();
  };
  EXPECT_FALSE(with(1u << 16)) << "ten small operations are no large one";
  EXPECT_TRUE(with(1u << 17));
}

class LoadedPrograms : public testing::Test {
 protected:
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    options.recovery.policy = RecoveryPolicy::Recover;
    return options;
  }
  AllocationIndex room() { return runtime_.allocator().allocate(kBytes); }
  std::vector<std::byte> read(AllocationIndex memory, std::uint64_t bytes) {
    std::vector<std::byte> content(bytes);
    a_.Launch(Job::from_device(content.data(), memory, bytes), {});
    a_.Synchronize(soon());
    return content;
  }

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
  Runtime runtime_{card_.attach(1), options()};
  FlexStream& a_ = runtime_.default_stream();
  FlexStream& b_ = runtime_.next_stream(StreamPriority::Low);
};

TEST_F(LoadedPrograms, BytesAndEngineAreOnTheCard) {
  const auto program = program_of(1);
  ExecutionPlan plan({Job(program), Job(program_of(2))});
  EXPECT_TRUE(plan.needs_engine());
  plan.load(runtime_, a_, engine());
  EXPECT_FALSE(plan.needs_engine());
  const auto& loaded = plan.jobs()[0].program();
  EXPECT_TRUE(std::ranges::equal(read(loaded->program_index(), program->bytes().size()), program->bytes()));
  EXPECT_TRUE(std::ranges::equal(read(loaded->allocation_index(), engine()->image().size()), engine()->image()));
  EXPECT_EQ(loaded->allocation_index(), plan.jobs()[1].program()->allocation_index());
  EXPECT_NE(loaded->program_index(), plan.jobs()[1].program()->program_index());
}

// The transfer of the engine is removed with the stream that failed.
TEST_F(LoadedPrograms, AnEngineThatDidNotArriveIsSentAgain) {
  const Job plain(CompiledKernel(test::kernel_without_symbols(), {{"M", 1}, {"N", 64}}));
  ExecutionPlan kernels({plain});
  kernels.load(runtime_, a_);
  a_.Synchronize(soon());
  const Argument output{.allocation = room(), .shape = {1, 64}};
  ExecutionPlan plan({Job(program_of(1))}), again = plan;
  card_.pause();
  a_.Launch(kernels.jobs()[0], {&output, 1});  // fails: this card runs no kernels
  plan.load(runtime_, a_, engine());
  card_.resume();
  const auto end = soon();
  while (!a_.error() && Clock::now() < end) runtime_.device().poll();
  ASSERT_TRUE(a_.error());
  a_.Reset();
  again.load(runtime_, b_, engine());
  b_.Synchronize(soon());
  const auto image = again.jobs()[0].allocation_index();
  EXPECT_TRUE(std::ranges::equal(read(image, engine()->image().size()), engine()->image()));
}

TEST_F(LoadedPrograms, ALaunchThatFailedHasLostItsOutputsAndNotItsWorkspace) {
  ExecutionPlan plan({Job(program_of(12, 256))});
  plan.load(runtime_, a_, engine());
  a_.Synchronize(soon());
  std::vector<Argument> arguments(12, Argument::raw(room()));
  arguments.back() = Argument::raw(room());
  for (const AllocationIndex memory : {arguments.front().allocation, arguments.back().allocation}) {
    a_.Launch(Job::fill(memory, kBytes, 1), {});
  }
  a_.Synchronize(soon());
  std::uint64_t lost = 0, kept = 0, workspace = 0;
  card_.pause();
  a_.Launch(plan.jobs()[0], arguments);
  const AllocationIndex reused = runtime_.allocator().allocate(256);
  a_.Launch(Job::from_device(&lost, arguments.back().allocation, sizeof lost), {});
  a_.Launch(Job::from_device(&kept, arguments.front().allocation, sizeof kept), {});
  a_.Launch(Job::fill(reused, 256, 7), {});
  a_.Launch(Job::from_device(&workspace, reused, sizeof workspace), {});
  card_.resume();
  EXPECT_THROW(a_.Synchronize(soon()), StreamError);
  a_.Synchronize(soon());
  EXPECT_EQ(lost, 0u) << "it would have been written by the program";
  EXPECT_EQ(kept, 1u);
  EXPECT_EQ(workspace, 7u);
}

}  // namespace
}  // namespace svp
