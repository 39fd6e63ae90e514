// SPDX-License-Identifier: Apache-2.0
// The frontend against the real firmware core on a thread.
#include "host_driver/frontend/spyre_stream.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "host_driver/frontend/tensor_copy.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "shared/dl16.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using svp::DataType;
using svp::DeviceType;
using svp::HostShape;

struct Rig {
  svp::test::NativeCard card{{.window_bytes = 16 * wire::kMiB}};
  svp::Runtime runtime{card.attach(), options()};
  SpyreAllocator allocator{runtime};
  SpyreStream stream{runtime.default_stream()};

  static svp::RuntimeOptions options() {
    svp::RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB};
    options.staging.chunk_bytes = wire::kMiB;
    return options;
  }
};

TEST(AllowTiledLaunch, OnlyFourWordsAreUnderstood) {
  EXPECT_TRUE(parse_allow_tiled_launch(nullptr));
  EXPECT_TRUE(parse_allow_tiled_launch("1"));
  EXPECT_TRUE(parse_allow_tiled_launch("true"));
  EXPECT_FALSE(parse_allow_tiled_launch("0"));
  EXPECT_FALSE(parse_allow_tiled_launch("false"));
  for (const char* wrong : {"", "yes", "TRUE", "2", " 1"}) {
    try {
      parse_allow_tiled_launch(wrong);
      FAIL() << wrong;
    } catch (const svp::InvalidArgument& error) {
      EXPECT_EQ(error.field(), kAllowTiledLaunchVariable);
    }
  }
}

TEST(SpyreTensor, Fp16GoesToDl16InStickLayoutAndComesBackBitForBit) {
  Rig rig;
  const auto shape = HostShape::contiguous(DataType::Float16, {100, 130});
  std::vector<std::uint16_t> host(100 * 130);
  std::iota(host.begin(), host.end(), std::uint16_t{0});  // positive finite values, subnormals first
  const SpyreTensor tensor = to_device(rig.runtime, rig.allocator, rig.stream, {shape, std::as_bytes(std::span(host))});
  EXPECT_EQ(tensor.layout().device_dtype, DeviceType::Dl16);
  EXPECT_EQ(tensor.size_bytes(), 3u * 100 * 128);
  EXPECT_EQ(tensor.argument().shape, (svp::Shape{100, 130}));
  std::vector<std::uint16_t> back(host.size());
  to_host(rig.runtime, rig.stream, tensor, {shape, std::as_writable_bytes(std::span(back))});
  for (std::size_t i = 0; i < host.size(); ++i) {
    const auto through_dl16 = wire::fp32_from_dl16(wire::dl16_from_fp16(host[i]));
    EXPECT_EQ(wire::dl16_from_fp16(back[i]), wire::dl16_from_fp32(through_dl16)) << i;
  }
  EXPECT_EQ(back[1], 1u) << "subnormals survive";
}

TEST(SpyreTensor, CopiesShareMemoryAndTheLastOneFreesIt) {
  Rig rig;
  const auto used = rig.allocator.statistics().bytes.current;
  {
    const SpyreTensor tensor = SpyreTensor::empty(rig.allocator, DataType::Float16, {64, 64});
    const SpyreTensor copy = tensor;  // NOLINT(performance-unnecessary-copy-initialization): the copy is the subject
    EXPECT_EQ(copy.allocation_index(), tensor.allocation_index());
    EXPECT_EQ(rig.allocator.statistics().bytes.current, used + 64 * 128);
  }
  EXPECT_EQ(rig.allocator.statistics().bytes.current, used);
}

TEST(SpyreTensor, AnEmptyTensorMovesNothing) {
  Rig rig;
  const auto shape = HostShape::contiguous(DataType::Float16, {0, 64});
  const SpyreTensor tensor = to_device(rig.runtime, rig.allocator, rig.stream, {shape, {}});
  EXPECT_EQ(tensor.size_bytes(), 0u);
  EXPECT_NO_THROW(to_host(rig.runtime, rig.stream, tensor, {shape, {}}));
}

TEST(SpyreTensor, ShapesHaveToAgree) {
  Rig rig;
  const SpyreTensor tensor = SpyreTensor::empty(rig.allocator, DataType::Float16, {64, 64});
  std::vector<std::uint16_t> host(64 * 32);
  const auto shape = HostShape::contiguous(DataType::Float16, {64, 32});
  EXPECT_THROW(to_host(rig.runtime, rig.stream, tensor, {shape, std::as_writable_bytes(std::span(host))}),
               svp::InvalidArgument);
}

TEST(LaunchKernel, TakesIndexAndMetadataOfEachTensor) {
  Rig rig;
  const svp::CompiledKernel kernel(svp::test::matmul_kernel(), {{"M", 64}, {"N", 64}, {"K", 64}});
  svp::ExecutionPlan plan({svp::Job(kernel)});
  EXPECT_FALSE(plan.loaded());
  plan.load(rig.runtime, rig.runtime.default_stream());
  EXPECT_TRUE(plan.loaded());
  std::vector<SpyreTensor> tensors;
  for (int i = 0; i < 3; ++i) tensors.push_back(SpyreTensor::empty(rig.allocator, DataType::Float16, {64, 64}));
  LaunchKernel(rig.stream, plan, tensors);
  // The native build has no cores: the launch was well formed, the card says that it can not compute.
  try {
    rig.stream.Synchronize(std::chrono::steady_clock::now() + test_bounds::kWork);
    FAIL();
  } catch (const svp::StreamError& error) {
    EXPECT_EQ(error.failure().status, wire::Status::Unsupported);
  }
  rig.stream.Reset();
  tensors[1] = SpyreTensor::empty(rig.allocator, DataType::Float32, {64, 64});  // FP32 on the card
  EXPECT_THROW(LaunchKernel(rig.stream, plan, tensors), svp::InvalidArgument);
}

TEST(SpyreTensor, ATensorMayBeDroppedAsSoonAsItsWorkIsLaunched) {
  Rig rig;
  const auto shape = HostShape::contiguous(DataType::Float16, {64, 64});
  std::vector<std::uint16_t> ones(64 * 64, 0x3C00), twos(64 * 64, 0x4000), back(64 * 64);
  const auto used = rig.allocator.statistics().bytes.current;
  const SpyreTensor kept = SpyreTensor::empty(rig.allocator, DataType::Float16, {64, 64});
  for (int i = 0; i < 100; ++i) {
    {
      const SpyreTensor dropped =
          to_device(rig.runtime, rig.allocator, rig.stream, {shape, std::as_bytes(std::span(ones))});
      rig.stream.flex_stream().Launch(
          svp::Job(svp::JobPlan({svp::DMA{.allocation_index = kept.allocation_index(),
                                          .size = kept.size_bytes(),
                                          .direction = svp::Direction::DeviceToDevice,
                                          .source_allocation_index = dropped.allocation_index()}})),
          {});
    }
    // On another stream, which nothing orders with the first one.
    SpyreStream second(rig.runtime.stream(1));
    const SpyreTensor next = to_device(rig.runtime, rig.allocator, second, {shape, std::as_bytes(std::span(twos))});
    second.Synchronize();
    to_host(rig.runtime, rig.stream, kept, {shape, std::as_writable_bytes(std::span(back))});
    ASSERT_EQ(back, ones) << "the copy read what another stream had written";
  }
  rig.stream.Synchronize();
  EXPECT_EQ(rig.allocator.statistics().bytes.current, used + kept.size_bytes());
}

TEST(LaunchKernel, TheEnvironmentIsReadOnce) {
  Rig rig;
  const svp::CompiledKernel kernel(svp::test::matmul_kernel(), {{"M", 64}, {"N", 64}, {"K", 64}});
  svp::ExecutionPlan plan({svp::Job(kernel)});
  plan.load(rig.runtime, rig.runtime.default_stream());
  rig.stream.Synchronize();
  std::vector<SpyreTensor> tensors;  // two tiles
  for (const std::int64_t rows : {128, 64, 128}) {
    tensors.push_back(SpyreTensor::empty(rig.allocator, DataType::Float16, {rows, 64}));
  }
  const auto launch = [&] {
    LaunchKernel(rig.stream, plan, tensors);
    rig.stream.Reset();
  };
  EXPECT_NO_THROW(launch());
  ASSERT_EQ(::setenv(kAllowTiledLaunchVariable, "0", 1), 0);
  EXPECT_NO_THROW(launch()) << "read again";
  ::unsetenv(kAllowTiledLaunchVariable);
}

TEST(LaunchKernel, APlanIsLaunchedAsAWholeOrNotAtAll) {
  Rig rig;
  const auto memory = rig.runtime.allocator().allocate(4096);
  std::uint64_t seen = 0;
  const svp::CompiledKernel kernel(svp::test::matmul_kernel(), {{"M", 64}, {"N", 64}, {"K", 64}});
  svp::ExecutionPlan plan({svp::Job::fill(memory, 4096, 7), svp::Job(kernel)});
  plan.load(rig.runtime, rig.runtime.default_stream());
  rig.stream.Synchronize();
  std::vector<SpyreTensor> tensors(2);  // one operand is missing
  rig.stream.flex_stream().Launch(svp::Job::fill(memory, 4096, 1), {});
  EXPECT_THROW(LaunchKernel(rig.stream, plan, tensors), svp::InvalidArgument);
  rig.stream.flex_stream().Launch(svp::Job::from_device(&seen, memory, sizeof seen), {});
  rig.stream.Synchronize();
  EXPECT_EQ(seen, 1u) << "the job before the one that was refused ran";
}

}  // namespace
}  // namespace svp
