// SPDX-License-Identifier: Apache-2.0
// Program memory of plans, against the real firmware core on a thread: what load() takes, what unload() gives back, and
// what a reset of the function leaves.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kMiB = wire::kMiB;

class NativeSource final : public DeviceSource {
 public:
  explicit NativeSource(test::NativeCard& card) : card_(card) {}
  Expected<std::unique_ptr<Device>> open() override { return Device::attach(card_.slot(1), card_.device_options()); }
  Expected<void> raise(ResetLevel, bool) override { return {}; }
  ResetLevel highest() const override { return ResetLevel::Function; }

 private:
  test::NativeCard& card_;
};

class PlanLoading : public testing::Test {
 protected:
  PlanLoading() : runtime(card.attach(), options(), std::make_unique<NativeSource>(card)) {
    const CompiledKernel kernel(test::matmul_kernel(), {{"M", 64}, {"N", 64}, {"K", 64}});
    ExecutionPlan({Job(kernel)}).write_directory(folder.path() / "plan");
    image_bytes = kernel.kernel()->image().size();
  }
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * kMiB, 16 * kMiB};
    return options;
  }
  void synchronize() { runtime.default_stream().Synchronize(FlexStream::Clock::now() + test_bounds::kWork); }
  ExecutionPlan loaded() {
    ExecutionPlan plan = ExecutionPlan::from_directory(folder.path() / "plan");
    plan.load(runtime, runtime.default_stream());
    synchronize();
    return plan;
  }
  std::uint64_t program_bytes() { return runtime.allocator().statistics().bytes.current; }

  qemu::test::TemporaryFolder folder;
  test::NativeCard card{{.window_bytes = 32 * kMiB}};
  Runtime runtime;
  std::uint64_t image_bytes = 0;
};

TEST_F(PlanLoading, UnloadGivesProgramMemoryBack) {
  const std::uint64_t before = program_bytes();
  ExecutionPlan plan = loaded();
  EXPECT_TRUE(plan.loaded());
  EXPECT_EQ(program_bytes(), before + wire::align_up(image_bytes, wire::kStickBytes));
  plan.unload();
  EXPECT_FALSE(plan.loaded());
  EXPECT_EQ(program_bytes(), before);
  plan.load(runtime, runtime.default_stream());
  synchronize();
  EXPECT_TRUE(plan.loaded());
}

TEST_F(PlanLoading, CopiesKeepWhatTheyShare) {
  const std::uint64_t before = program_bytes();
  ExecutionPlan plan = loaded();
  ExecutionPlan copy = plan;
  plan.unload();
  EXPECT_TRUE(copy.loaded());
  EXPECT_GT(program_bytes(), before);
  copy.unload();
  EXPECT_EQ(program_bytes(), before);
}

// The transfer of the binary has not begun: its memory is free when it has ended, and no earlier.
TEST_F(PlanLoading, ARunningLaunchKeepsTheMemory) {
  const std::uint64_t before = program_bytes();
  card.pause();
  ExecutionPlan plan = ExecutionPlan::from_directory(folder.path() / "plan");
  plan.load(runtime, runtime.default_stream());
  const AllocationIndex place = plan.jobs()[0].allocation_index();
  const auto address = runtime.allocator().resolve(place).address;
  plan.unload();
  ExecutionPlan other = ExecutionPlan::from_directory(folder.path() / "plan");
  other.load(runtime, runtime.default_stream());
  EXPECT_NE(runtime.allocator().resolve(other.jobs()[0].allocation_index()).address.offset, address.offset)
      << "memory of a launch under way was given out again";
  card.resume();
  synchronize();
  other.unload();
  EXPECT_EQ(program_bytes(), before);
}

TEST_F(PlanLoading, ALaunchOfAnUnloadedPlanIsRefused) {
  ExecutionPlan plan = loaded();
  plan.unload();
  const AllocationIndex memory = runtime.allocator().allocate(3 * 64 * 64 * 2);
  const std::vector<Argument> arguments{{.allocation = memory, .shape = {64, 64}},
                                        {.allocation = memory, .shape = {64, 64}, .offset = 64 * 64 * 2},
                                        {.allocation = memory, .shape = {64, 64}, .offset = 2 * 64 * 64 * 2}};
  try {
    runtime.default_stream().Launch(plan.jobs()[0], arguments);
    ADD_FAILURE() << "not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), "job");
    EXPECT_EQ(error.info().next_step, "ExecutionPlan::load() it first");
  }
}

TEST_F(PlanLoading, AfterAFunctionResetLoadBringsThePlanBack) {
  ExecutionPlan plan = loaded();
  const ExecutionPlan copy = plan;
  const AllocationIndex tensor = runtime.allocator().allocate(128);
  runtime.recover(ResetLevel::Function);
  EXPECT_FALSE(plan.loaded());
  EXPECT_FALSE(copy.loaded());
  EXPECT_FALSE(runtime.allocator().try_resolve(tensor)) << "tensors do not survive";
  const std::uint64_t before = program_bytes();
  plan.load(runtime, runtime.default_stream());
  synchronize();
  EXPECT_TRUE(plan.loaded());
  EXPECT_FALSE(copy.loaded()) << "a copy is a plan of its own";
  EXPECT_EQ(program_bytes(), before + wire::align_up(image_bytes, wire::kStickBytes));
}

}  // namespace
}  // namespace svp
