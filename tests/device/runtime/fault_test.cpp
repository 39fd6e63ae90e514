// SPDX-License-Identifier: Apache-2.0
// Kernels that go astray, and streams that heal, on QEMU.
#include <cstring>
#include <string>

#include "tests/bounds.hpp"
#include "tests/device/runtime/shared_context.hpp"

namespace svp {
namespace {

class Faults : public test::OneCard {
 protected:
  // A kernel "stray" that does `what` at `offset` bytes from its operand: a host operation of our own writes both.
  static Job stray(std::uint64_t what, std::uint64_t offset) {
    const auto kernel = context().kernel("stray");
    const HostFunction write = [what, offset](const HostOperationInput& input, std::span<std::byte> correction) {
      const std::size_t bytes = build_correction(input, correction);
      const auto put = [&](std::size_t symbol, std::uint64_t value) {
        std::memcpy(correction.data() + sizeof(wire::CorrectionHeader) + symbol * sizeof(wire::CorrectionSymbol) +
                        offsetof(wire::CorrectionSymbol, value),
                    &value, sizeof value);
      };
      put(1, offset);
      put(2, what);
      return bytes;
    };
    const DeviceCompute compute{.expected_input_shapes = {{1, 64}}};
    Job job(kernel, ProgramCorrectionMetadata::of(*kernel), JobPlan({HostOperation{write}, CorrectionDMA{}, compute}));
    ExecutionPlan plan({job});
    context().load(plan);
    return plan.jobs()[0];
  }
  static StreamFailure failure_of(FlexStream& on, const Job& job, AllocationIndex target,
                                  const LaunchOptions& options = {}) {
    const Argument argument{.allocation = target, .shape = {1, 64}};
    on.Launch(job, {&argument, job.binary()->metadata().operands.size()}, options);
    try {
      on.Synchronize(test::soon());
    } catch (const StreamError& error) {
      EXPECT_TRUE(error.info().recoverable);
      RecordProperty("error", error.what());
      return error.failure();
    }
    ADD_FAILURE() << "no error";
    return {};
  }
  static Job plain(const char* name) {
    ExecutionPlan plan({Job(CompiledKernel(context().kernel(name), {}))});
    context().load(plan);
    return plan.jobs()[0];
  }
  static std::uint64_t to_region_end(AllocationIndex target) {
    const auto at = context().runtime().allocator().resolve(target);
    for (const auto& region : context().runtime().allocator().statistics().regions) {
      if (region.ordinal == at.region_ordinal) return region.bytes - at.address.offset;
    }
    return 0;
  }
};

TEST_F(Faults, AStrayStoreNamesRegionOffsetOperandAndFunction) {
  const auto target = allocate(128);
  const std::uint64_t beyond = to_region_end(target) + 0x1000;
  const auto at = context().runtime().allocator().resolve(target);
  const StreamFailure failure = failure_of(stream(), stray(2, beyond), target);
  EXPECT_EQ(failure.outcome, wire::Outcome::Fault);
  EXPECT_EQ(failure.status, wire::Status::StoreFault);
  EXPECT_EQ(failure.fault.access, wire::FaultAccess::Store);
  EXPECT_EQ(failure.fault.region_ordinal, at.region_ordinal);
  EXPECT_EQ(failure.fault.offset, at.address.offset + beyond);
  EXPECT_EQ(failure.operand, std::to_string(beyond - 128) + " bytes behind operand target");
  EXPECT_TRUE(failure.symbol.starts_with("stray_store+")) << failure.symbol;
  EXPECT_EQ(failure.step, 2u);
  free(target);
}

TEST_F(Faults, LoadsJumpsAndIllegalInstructionsAreToldApart) {
  const auto target = allocate(128);
  const std::uint64_t beyond = to_region_end(target) + 0x1000;
  const auto status = [&](std::uint64_t what, std::uint64_t offset) {
    const StreamFailure failure = failure_of(stream(), stray(what, offset), target);
    stream().Reset();
    return failure.status;
  };
  EXPECT_EQ(status(1, beyond), wire::Status::LoadFault);
  EXPECT_EQ(status(3, beyond), wire::Status::FetchFault);
  EXPECT_EQ(status(4, 0), wire::Status::IllegalInstruction);
  EXPECT_EQ(status(5, 0), wire::Status::BadEnvironmentCall);
  EXPECT_EQ(status(6, 0), wire::Status::Breakpoint);
  EXPECT_EQ(status(7, 0), wire::Status::KernelStatus);
  free(target);
}

TEST_F(Faults, AFaultPoisonsItsStreamOnlyAndResetHeals) {
  const auto target = allocate(128);
  const auto empty = plain("empty");
  FlexStream& bystander = context().runtime().next_stream(StreamPriority::Low);
  const auto job = stray(1, to_region_end(target) + 8);
  failure_of(stream(), job, target);
  EXPECT_THROW(stream().Launch(empty, {}), StreamError);
  bystander.Launch(empty, {});
  EXPECT_NO_THROW(bystander.Synchronize(test::soon()));
  stream().Reset();
  stream().Launch(empty, {});
  EXPECT_NO_THROW(stream().Synchronize(test::soon()));
  free(target);
}

TEST_F(Faults, AnEndlessKernelIsStoppedByTheWatchdog) {
  const auto spin = plain("spin");
  const auto empty = plain("empty");  // loading waits for the default stream
  FlexStream& bystander = context().runtime().next_stream(StreamPriority::Low);
  stream().Launch(spin, {}, {.budget_slices = 20});
  bystander.Launch(empty, {});
  EXPECT_NO_THROW(bystander.Synchronize(test::soon())) << "a core is shared";
  try {
    stream().Synchronize(test::soon());
    FAIL() << "an endless kernel ended";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().outcome, wire::Outcome::Timeout);
    EXPECT_EQ(error.failure().status, wire::Status::WatchdogExpired);
  }
}

TEST_F(Faults, ResetStopsAKernelThatRuns) {
  const auto spin = plain("spin");
  stream().Launch(spin, {}, {.budget_slices = 1'000'000});
  stream().Launch(spin, {}, {.budget_slices = 1'000'000});
  EXPECT_THROW(stream().Synchronize(FlexStream::Clock::now() + test_bounds::kExpires), TimeoutError);
  stream().Reset();  // a kernel with a million slices left would outlast every bound
  stream().Launch(plain("empty"), {});
  EXPECT_NO_THROW(stream().Synchronize(test::soon()));
}

}  // namespace
}  // namespace svp
