// SPDX-License-Identifier: Apache-2.0
// Correction tensors that are larger than the slot that each stream has from the start, up to the largest that there
// is. The kernel copies the table that stands behind its symbols: what it wrote says whose tensor each core has read.
#include "tests/device/runtime/shared_context.hpp"

namespace svp {
namespace {

constexpr std::int64_t kElements = 8192;
constexpr std::uint64_t kBytes = kElements * sizeof(std::uint32_t);
constexpr std::uint64_t kSymbolBytes = wire::correction_bytes(2);
constexpr std::uint64_t kMostEntries = (wire::kMaxCorrectionBytes - kSymbolBytes) / sizeof(std::uint32_t);

// A correction tensor whose table has so many entries, from `first` up.
HostFunction with_table(std::uint32_t first, std::uint64_t entries) {
  return [first, entries](const HostOperationInput& input, std::span<std::byte> correction) {
    std::size_t bytes = build_correction(input, correction);
    for (std::uint64_t i = 0; i < entries; ++i, bytes += sizeof(std::uint32_t)) {
      const auto entry = static_cast<std::uint32_t>(first + 3 * i);
      std::memcpy(correction.data() + bytes, &entry, sizeof entry);
    }
    return bytes;
  };
}

class Corrections : public test::OneCard {
 protected:
  Corrections() : compiled_(context().kernel("table"), {{"N", kElements}}) {}
  ~Corrections() override {
    for (const AllocationIndex memory : results_) free(memory);
  }

  Job job(std::uint32_t first, std::uint64_t entries) {
    JobPlan plan({HostOperation{with_table(first, entries)}, CorrectionDMA{}, *JobPlan::standard(compiled_).compute()});
    plans_.push_back(
        ExecutionPlan({Job(compiled_.kernel(), ProgramCorrectionMetadata::of(*compiled_.kernel()), std::move(plan))}));
    context().load(plans_.back());
    return plans_.back().jobs()[0];
  }
  Argument result() {
    results_.push_back(allocate(kBytes));
    return {.allocation = results_.back(), .shape = {kElements}, .dtype = DeviceType::Int32};
  }
  void expect_table(const Argument& argument, std::uint32_t first, std::uint64_t entries) {
    std::vector<std::uint32_t> got(kElements), expected(kElements);
    stream().Launch(Job::from_device(got.data(), argument.allocation, kBytes), {});
    stream().Synchronize(test::soon());
    for (std::uint32_t i = 0; i < kElements; ++i) {
      expected[i] = static_cast<std::uint32_t>(first + 3 * (i % entries)) + i;
    }
    EXPECT_EQ(got, expected) << first;
  }

  CompiledKernel compiled_;
  std::vector<ExecutionPlan> plans_;
  std::vector<AllocationIndex> results_;
};

TEST_F(Corrections, ALargeOneReachesEachCore) {
  ASSERT_EQ(compiled_.kernel()->max_correction_bytes(), wire::kMaxCorrectionBytes);
  ASSERT_GT(wire::kMaxCorrectionBytes, Runtime::kCorrectionSlotBytes);
  const std::uint64_t all = context().runtime().launch_site(0).all_cores;
  for (const std::uint64_t cores : {std::uint64_t{1}, all}) {
    for (const std::uint64_t entries : {std::uint64_t{1}, std::uint64_t{1000}, kMostEntries}) {
      const auto first = static_cast<std::uint32_t>(1000 * cores + entries);
      const Argument out = result();
      stream().Launch(job(first, entries), {{out}}, {.core_mask = cores});
      expect_table(out, first, entries);
    }
  }
}

// More of them than a stream has slots, without a pause between them, beside launches with a small tensor.
TEST_F(Corrections, EachLaunchOfManyHasItsOwn) {
  constexpr std::uint32_t kLaunches = 24;
  std::vector<Argument> outputs;
  std::vector<Job> jobs;
  for (std::uint32_t i = 0; i < kLaunches; ++i) {
    outputs.push_back(result());
    jobs.push_back(job(i, i % 3 == 0 ? 5 : kMostEntries - i));
  }
  const std::uint64_t all = context().runtime().launch_site(0).all_cores;
  for (std::uint32_t i = 0; i < kLaunches; ++i) {
    stream().Launch(jobs[i], {{outputs[i]}}, {.core_mask = i % 2 == 0 ? all : 1});
  }
  for (std::uint32_t i = 0; i < kLaunches; ++i) expect_table(outputs[i], i, i % 3 == 0 ? 5 : kMostEntries - i);
}

// In a command buffer the tensor is part of the buffer, and a patch brings another one.
TEST_F(Corrections, LargeOnesAreCaptured) {
  const Argument first = result(), second = result();
  const Job one = job(7, kMostEntries), other = job(9, kMostEntries / 2);
  (void)stream().BeginCapture();
  stream().Launch(one, {{first}});
  stream().Launch(other, {{second}});
  const auto captured = stream().EndCapture();
  for (int round = 0; round < 2; ++round) {
    for (const Argument& each : {first, second}) stream().Launch(Job::fill(each.allocation, kBytes, 0), {});
    stream().Launch(*captured);
    expect_table(first, 7, kMostEntries);
    expect_table(second, 9, kMostEntries / 2);
  }
  const Argument third = result();
  const std::vector<Argument> operands{third};
  stream().Patch(*captured, 0, operands);
  stream().Launch(*captured);
  expect_table(third, 7, kMostEntries);
}

TEST_F(Corrections, WhatIsLargerThanTheKernelTakesIsRefused) {
  JobPlan plan({HostOperation{}, CorrectionDMA{}, *JobPlan::standard(compiled_).compute()});
  auto metadata = ProgramCorrectionMetadata::of(*compiled_.kernel());
  metadata.max_bytes = wire::kMaxCorrectionBytes + wire::kStickBytes;
  try {
    const Job job(compiled_.kernel(), std::move(metadata), std::move(plan));
    ADD_FAILURE() << "made";
  } catch (const InvalidPlan& refused) {
    EXPECT_EQ(refused.field(), "program_correction_metadata.max_bytes");
  }
}

}  // namespace
}  // namespace svp
