// SPDX-License-Identifier: Apache-2.0
// A kernel with sixteen operands of rank 6, a scalar, two formats and 22 symbols; and faults and refusals of operands
// behind the eight rows of a control block.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/device/runtime/shared_context.hpp"

namespace svp {
namespace {

constexpr std::size_t kOperands = 16;
const Shape kShape{2, 3, 2, 3, 2, 70};
constexpr std::int64_t kPerStick = 32;

class WideKernel : public test::OneCard {
 protected:
  void SetUp() override {
    bytes_ = StickGeometry::of(kShape, kPerStick).bytes;
    ExecutionPlan plan(
        {Job(CompiledKernel(context().kernel("wide"), {{"A", 2}, {"B", 3}, {"C", 2}, {"D", 3}, {"E", 2}, {"F", 70}}))});
    context().load(plan);
    job_ = std::make_unique<Job>(plan.jobs()[0]);
    expected_.assign(bytes_ / 4, 0);
    for (std::size_t i = 0; i < kOperands; ++i) add_operand(i);
  }
  void TearDown() override {
    OneCard::TearDown();
    for (const Argument& argument : arguments_) free(argument.allocation);
  }
  void add_operand(std::size_t i) {
    const bool scalar = i == 0;
    std::vector<std::uint32_t> values((scalar ? wire::kStickBytes : bytes_) / 4);
    test::fill_pattern(std::as_writable_bytes(std::span(values)), i);
    const AllocationIndex memory = allocate(values.size() * 4);
    stream().Launch(Job::to_device(values.data(), memory, values.size() * 4), {});
    stream().Synchronize(test::soon());
    arguments_.push_back({.allocation = memory,
                          .shape = scalar ? Shape() : kShape,
                          .dtype = scalar ? DeviceType::Fp32 : DeviceType::Int32});
    if (i + 1 == kOperands) return;
    for (std::size_t lane = 0; lane < expected_.size(); ++lane) expected_[lane] ^= values[scalar ? 0 : lane];
  }
  std::string refused(const std::vector<Argument>& arguments) {
    try {
      stream().Launch(*job_, arguments);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "launched";
  }

  std::uint64_t bytes_ = 0;
  std::unique_ptr<Job> job_;
  std::vector<Argument> arguments_;
  std::vector<std::uint32_t> expected_;
};

TEST_F(WideKernel, ComputesFromAllOfItsOperands) {
  for (const std::uint64_t cores : {std::uint64_t{1}, context().runtime().launch_site(0).all_cores}) {
    stream().Launch(Job::fill(arguments_.back().allocation, bytes_, 0), {});
    stream().Launch(*job_, arguments_, {.core_mask = cores});
    std::vector<std::uint32_t> result(bytes_ / 4);
    stream().Launch(Job::from_device(result.data(), arguments_.back().allocation, bytes_), {});
    stream().Synchronize(test::soon());
    EXPECT_EQ(result, expected_);
  }
}

TEST_F(WideKernel, ATensorWithoutDimensionsIsAScalar) {
  const float value = 2.5F;
  const SpyreTensor scalar = context().to_device(
      {HostShape::contiguous(DataType::Float32, {}), std::as_bytes(std::span(&value, 1))}, DeviceType::Fp32);
  std::uint32_t before = 0, after = 0;
  stream().Launch(Job::from_device(&before, arguments_[0].allocation, 4), {});
  stream().Synchronize(test::soon());
  std::memcpy(&after, &value, 4);
  for (std::uint32_t& lane : expected_) lane ^= before ^ after;
  auto arguments = arguments_;
  arguments[0] = scalar.argument();
  stream().Launch(*job_, arguments);
  std::vector<std::uint32_t> result(bytes_ / 4);
  stream().Launch(Job::from_device(result.data(), arguments.back().allocation, bytes_), {});
  stream().Synchronize(test::soon());
  EXPECT_EQ(result, expected_);
}

TEST_F(WideKernel, OperandsBehindTheRowsOfABlockAreCheckedByTheDriver) {
  auto arguments = arguments_;
  arguments[12].dtype = DeviceType::Fp32;
  EXPECT_THAT(refused(arguments), testing::HasSubstr("operand INL of kernel wide is IEEE_FP32"));
  arguments = arguments_;
  arguments[12].allocation = arguments[0].allocation;
  EXPECT_THAT(refused(arguments), testing::HasSubstr("operand INL of kernel wide needs"));
  arguments = arguments_;
  arguments.back().allocation = arguments[9].allocation;
  EXPECT_THAT(refused(arguments), testing::HasSubstr("operand OUT of kernel wide is written and overlaps operand INI"));
}

// A host operation of the program sends the kernel behind the end of operand 12.
TEST_F(WideKernel, AFaultBehindTheRowsOfABlockNamesItsOperand) {
  const auto kernel = job_->binary();
  const HostFunction astray = [](const HostOperationInput& input, std::span<std::byte> correction) {
    const std::size_t bytes = build_correction(input, correction);
    std::byte* const address = correction.data() + sizeof(wire::CorrectionHeader) +
                               12 * sizeof(wire::CorrectionSymbol) + offsetof(wire::CorrectionSymbol, value);
    const std::uint64_t far = std::uint64_t{15} << 30;  // no region is so large here
    std::memcpy(address, &far, sizeof far);
    return bytes;
  };
  Job stray(kernel, ProgramCorrectionMetadata::of(*kernel),
            JobPlan({HostOperation{astray}, CorrectionDMA{}, *job_->job_plan().compute()}));
  stray.set_program(job_->program());
  stream().Launch(stray, arguments_);
  try {
    stream().Synchronize(test::soon());
    ADD_FAILURE() << "no error";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().status, wire::Status::LoadFault);
    EXPECT_THAT(error.failure().operand, testing::HasSubstr("bytes behind operand")) << error.what();
  }
}

}  // namespace
}  // namespace svp
