// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/job.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

std::string plan_field(std::vector<Step> steps) {
  try {
    JobPlan plan(std::move(steps));
  } catch (const InvalidPlan& error) {
    return error.field();
  }
  return "accepted";
}

const AllocationIndex kSome{1};

TEST(JobPlan, TheStandardPlanIsHostOperationThenDmaThenCompute) {
  const JobPlan plan = JobPlan::standard(test::matmul_1024());
  ASSERT_EQ(plan.steps().size(), 3u);
  EXPECT_TRUE(std::holds_alternative<HostOperation>(plan.steps()[0]));
  EXPECT_TRUE(std::holds_alternative<CorrectionDMA>(plan.steps()[1]));
  EXPECT_TRUE(std::holds_alternative<DeviceCompute>(plan.steps()[2]));
  EXPECT_EQ(plan.blocks_per_walk(), 2u);
  EXPECT_EQ(plan.correction_at(), 0u);
}

TEST(JobPlan, AMisorderedStepIsNamed) {
  char host[1];
  const DMA dma{.host_address = host, .allocation_index = kSome, .size = 1};
  EXPECT_EQ(plan_field({}), "accepted");
  EXPECT_EQ(plan_field({dma, Fill{.allocation_index = kSome, .size = 1}}), "accepted");
  EXPECT_EQ(plan_field({HostOperation{}, DeviceCompute{}}), "job_plan.step[0]");
  EXPECT_EQ(plan_field({CorrectionDMA{}, DeviceCompute{}}), "job_plan.step[0]");
  EXPECT_EQ(plan_field({HostOperation{}, CorrectionDMA{}}), "job_plan.step[1]");
  EXPECT_EQ(plan_field({HostOperation{}, dma, DeviceCompute{}}), "job_plan.step[0]");
  EXPECT_EQ(plan_field({DeviceCompute{}, DeviceCompute{}}), "job_plan.step[1]");
  EXPECT_EQ(plan_field({HostOperation{.function = {}}, CorrectionDMA{}, DeviceCompute{}}), "job_plan.step[0]");
}

TEST(JobPlan, AnIncompleteTransferIsRefused) {
  char host[1];
  EXPECT_EQ(plan_field({DMA{.host_address = host, .allocation_index = kSome, .size = 0}}), "job_plan.step[0]");
  EXPECT_EQ(plan_field({DMA{.host_address = nullptr, .allocation_index = kSome, .size = 1}}), "job_plan.step[0]");
  EXPECT_EQ(plan_field({DMA{.host_address = host, .size = 1}}), "job_plan.step[0]");
  EXPECT_EQ(plan_field({DMA{.host_address = host, .allocation_index = kSome, .size = 1, .offset = 64}}),
            "job_plan.step[0]");
  EXPECT_EQ(plan_field({DMA{.allocation_index = kSome, .size = 1, .direction = Direction::DeviceToDevice}}),
            "job_plan.step[0]");
  EXPECT_EQ(plan_field({Fill{.allocation_index = kSome, .size = 0}}), "job_plan.step[0]");
}

TEST(Job, BinaryPlanAndShapesHaveToFit) {
  const auto kernel = test::matmul_kernel();
  const auto metadata = ProgramCorrectionMetadata::of(*kernel);
  const DeviceCompute good{.expected_input_shapes = {{64, 64}, {64, 64}, {64, 64}}};
  EXPECT_NO_THROW(Job(kernel, metadata, JobPlan({HostOperation{}, CorrectionDMA{}, good})));
  EXPECT_THROW(Job(kernel, metadata, JobPlan({good})), InvalidPlan) << "symbols need a correction";
  EXPECT_THROW(Job(nullptr, metadata, JobPlan({good})), InvalidPlan);
  EXPECT_THROW(Job(JobPlan({good})), InvalidPlan) << "a compute needs a binary";
  const DeviceCompute torn{.expected_input_shapes = {{64, 64}, {128, 64}, {64, 64}}};
  EXPECT_THROW(Job(kernel, metadata, JobPlan({HostOperation{}, CorrectionDMA{}, torn})), InvalidPlan);
  const DeviceCompute two{.expected_input_shapes = {{64, 64}, {64, 64}}};
  EXPECT_THROW(Job(kernel, metadata, JobPlan({HostOperation{}, CorrectionDMA{}, two})), InvalidPlan);
}

// A slot of a stream has 4096 bytes; a larger correction tensor is allowed, and has memory of its own.
TEST(Job, ACorrectionTensorIsBoundedByWhatAKernelIsGivenNotByASlot) {
  const auto kernel = test::matmul_kernel();
  const DeviceCompute compute{.expected_input_shapes = {{64, 64}, {64, 64}, {64, 64}}};
  const auto job_of = [&](std::uint64_t bytes) {
    ProgramCorrectionMetadata metadata = ProgramCorrectionMetadata::of(*kernel);
    metadata.max_bytes = bytes;
    return Job(kernel, std::move(metadata), JobPlan({HostOperation{}, CorrectionDMA{}, compute}));
  };
  EXPECT_EQ(job_of(16384).program_correction_metadata().max_bytes, 16384u);
  try {
    (void)job_of(16512);
    ADD_FAILURE() << "accepted";
  } catch (const InvalidPlan& error) {
    EXPECT_EQ(error.field(), "program_correction_metadata.max_bytes");
    EXPECT_EQ(error.info().message, "a correction tensor of 16512 bytes is larger than a kernel can be given");
    EXPECT_EQ(error.info().next_step, "keep it within 16384 bytes");
  }
}

TEST(Correction, TheTensorCarriesEverySymbolInOrderAndTheRegionMap) {
  const auto kernel = test::matmul_kernel();
  const auto metadata = ProgramCorrectionMetadata::of(*kernel);
  const ResolvedOperand operands[3] = {{{7, 128}, {128, 1000}}, {{7, 256}, {128, 2000}}, {{9, 384}, {128, 3000}}};
  const std::int64_t dimensions[3] = {11, 22, 33};  // M, K, N
  RegionMap regions;
  regions.mode = wire::AddressMode::Pf;
  regions.region_id[2] = 7;
  alignas(8) std::byte tensor[512]{};
  const std::size_t bytes = build_correction(
      {.metadata = metadata, .operands = operands, .dimensions = dimensions, .regions = regions, .tile = 0}, tensor);
  EXPECT_EQ(bytes, wire::correction_bytes(9));
  wire::CorrectionHeader header;
  std::memcpy(&header, tensor, sizeof header);
  EXPECT_EQ(header.magic, wire::kCorrectionMagic);
  EXPECT_EQ(header.mode, wire::AddressMode::Pf);
  EXPECT_EQ(header.symbol_count, 9u);
  EXPECT_EQ(header.region[2].region_id, 7u);
  EXPECT_EQ(header.region[0].region_id, wire::kNoRegion);
  wire::CorrectionSymbol symbols[9];
  std::memcpy(symbols, tensor + sizeof header, sizeof symbols);
  EXPECT_EQ(symbols[2].region_id, 9u);
  EXPECT_EQ(symbols[2].value, 384u);
  EXPECT_EQ(symbols[4].value, 2000u);
  EXPECT_EQ(symbols[6].value, 11u);
  EXPECT_EQ(symbols[7].value, 33u);
  EXPECT_EQ(symbols[8].value, 22u);
}

TEST(Correction, PartialsAreAPlaceAndAPassIsBits) {
  const auto kernel = test::matmul_in_passes();
  const auto metadata = ProgramCorrectionMetadata::of(*kernel);
  ResolvedOperand operands[3] = {{{7, 128}, {128, 1000}}, {{7, 256}, {128, 2000}}, {{9, 384}, {128, 3000}}};
  const std::int64_t dimensions[3] = {11, 22, 33};
  alignas(8) std::byte tensor[512]{};
  wire::CorrectionSymbol symbols[11];
  const auto build = [&](std::uint64_t pass) {
    EXPECT_EQ(build_correction({.metadata = metadata,
                                .operands = operands,
                                .dimensions = dimensions,
                                .regions = {},
                                .tile = 0,
                                .pass = pass},
                               tensor),
              wire::correction_bytes(11));
    std::memcpy(symbols, tensor + sizeof(wire::CorrectionHeader), sizeof symbols);
  };
  build(wire::kPassFirst | wire::kPassLast);
  EXPECT_EQ(symbols[9].region_id, wire::kNoRegion);
  EXPECT_EQ(symbols[10].value, 3u);
  operands[2].partials = {9, 512};
  build(wire::kPassLast);
  EXPECT_EQ(symbols[9].region_id, 9u);
  EXPECT_EQ(symbols[9].value, 512u);
  EXPECT_EQ(symbols[10].value, 2u);
}

}  // namespace
}  // namespace svp
