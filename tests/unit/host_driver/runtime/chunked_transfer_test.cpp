// SPDX-License-Identifier: Apache-2.0
// Launches that work on allocations of several chunks, against the real firmware core on a thread.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "host_driver/runtime/strided_split.hpp"
#include "tests/bounds.hpp"
#include "tests/support/chunked_transfers.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;
constexpr AllocationPolicy kInterleaved{.placement = Placement::Interleave};

class Records final : public LaunchObserver {
 public:
  void on_block(const BlockRecord& record) noexcept override { blocks.push_back(record); }
  void on_launch_ended(std::uint64_t, wire::Outcome) noexcept override {}
  std::vector<BlockRecord> blocks;  // read after Synchronize only
};

struct Rig {
  test::NativeCard card{{.window_bytes = 32 * wire::kMiB}};
  Runtime runtime;
  FlexStream& stream = runtime.default_stream();

  explicit Rig(bool checksums = false) : runtime(card.attach(), options(checksums)) {
    test::hold_regions(runtime.allocator(), 3, kRegionBytes);
  }
  static RuntimeOptions options(bool checksums) {
    RuntimeOptions options;
    options.allocator.region_bytes = {kRegionBytes};
    options.staging.chunk_bytes = 4 * wire::kKiB;
    options.checksums = checksums;
    return options;
  }
  void synchronize() { stream.Synchronize(FlexStream::Clock::now() + test_bounds::kWork); }
  AllocationIndex interleaved(std::uint64_t bytes) { return runtime.allocator().allocate(bytes, kInterleaved); }
};

class ChunkedTransfer : public testing::TestWithParam<bool> {};

TEST_P(ChunkedTransfer, MovesEveryByteToItsPlaceAndNoOther) {
  Rig rig(GetParam());
  const std::uint64_t seed = std::random_device{}();
  test::ChunkedTransfers transfers(rig.runtime, rig.stream, seed);
  const auto wrong = transfers.run(60);
  EXPECT_FALSE(wrong) << *wrong << ", seed " << seed;
  const test::ChunkedCounts& counts = transfers.counts();
  EXPECT_GT(counts.chunks, 0U);
  EXPECT_GT(counts.blocks, counts.transfers) << "no transfer was cut";
  EXPECT_GT(counts.cut_nests, 0U);
  EXPECT_LT(counts.refused_nests, counts.nests / 4);
}
INSTANTIATE_TEST_SUITE_P(WithAndWithoutChecksums, ChunkedTransfer, testing::Bool(),
                         [](const auto& name) { return name.param ? "Checksums" : "Plain"; });

TEST(ChunkedLaunch, OneStepIsOneBlockPerChunkWithTheNumberOfTheStep) {
  Rig rig;
  const auto memory = rig.interleaved(3 * 1024);
  std::vector<std::byte> host(3 * 1024);
  Records records;
  rig.stream.Launch(Job(JobPlan({Fill{.allocation_index = memory, .size = 512},
                                 DMA{.host_address = host.data(), .allocation_index = memory, .size = 3 * 1024},
                                 Fill{.allocation_index = memory, .size = 512, .offset = 768}})),
                    {}, {.observer = &records});
  rig.synchronize();
  std::vector<std::uint32_t> steps;
  std::uint64_t bytes = 0;
  for (const BlockRecord& block : records.blocks) {
    steps.push_back(block.step);
    bytes += block.bytes;
  }
  EXPECT_EQ(steps, (std::vector<std::uint32_t>{0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(bytes, 512U + 3 * 1024 + 512);
}

TEST(ChunkedLaunch, ATransferBeyondTheAllocationIsRefusedBeforeAnythingIsSent) {
  Rig rig;
  const auto memory = rig.interleaved(3 * 1024);
  const std::uint64_t before = rig.stream.Launch(Job(JobPlan()), {});
  EXPECT_THROW(rig.stream.Launch(Job::fill(memory, 3 * 1024 + 1, 0), {}), InvalidArgument);
  EXPECT_THROW(rig.stream.Launch(Job::fill(memory, 1, 0, 3 * 1024), {}), InvalidArgument);
  EXPECT_EQ(rig.stream.Launch(Job(JobPlan()), {}), before + 1);
}

TEST(ChunkedLaunch, AStridedBlockThatCrossesChunksIsRefusedAndNamed) {
  Rig rig;
  const auto memory = rig.interleaved(3 * 1024);
  const PinnedBuffer host = rig.runtime.host_memory().allocate(3 * 1024);
  const StridedTransfer whole{.source = PinnedPlace{host.data(), host.size()},
                              .destination = CardPlace{memory},
                              .element_bytes = 2,
                              .loops = {.size = {3 * 512}, .src_stride = {1}, .dst_stride = {1}}};
  try {
    rig.stream.Launch(Job::strided({&whole, 1}), {});
    FAIL() << "expected a refusal";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), "job_plan.step[0]");
  }
  const auto parts = split_at_chunks(rig.runtime.allocator(), whole, 3);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->size(), 3U) << "one for each chunk";
  EXPECT_FALSE(split_at_chunks(rig.runtime.allocator(), whole, 2));
}

TEST(ChunkedLaunch, AnOperandOfSeveralChunksIsRefusedByNameBeforeAnythingIsSent) {
  Rig rig;
  const CompiledKernel kernel(test::matmul_kernel(), {{"M", 64}, {"K", 64}, {"N", 64}});
  ExecutionPlan plan({Job(kernel)});
  plan.load(rig.runtime, rig.stream);
  rig.synchronize();
  const std::uint64_t bytes = 64 * 64 * 2;
  const auto a = rig.runtime.allocator().allocate(bytes);
  const auto b = rig.interleaved(bytes);
  const auto c = rig.runtime.allocator().allocate(bytes);
  const std::vector<Argument> arguments{
      {.allocation = a, .shape = {64, 64}}, {.allocation = b, .shape = {64, 64}}, {.allocation = c, .shape = {64, 64}}};
  Records records;
  const Job fill = Job::fill(a, bytes, 1);
  const std::uint64_t before = rig.stream.Launch(Job(JobPlan()), {});
  const LaunchRequest requests[] = {{.job = &fill, .options = {.observer = &records}},
                                    {.job = &plan.jobs()[0], .arguments = arguments}};
  std::optional<spyre::CopyNeeded> refused;
  try {
    rig.stream.Launch(requests);
  } catch (const spyre::CopyNeeded& error) {
    refused = error;
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->field(), "operand b");
  EXPECT_NE(refused->info().message.find("(number 1) lies in 3 chunks"), std::string::npos) << refused->info().message;
  EXPECT_NE(refused->info().next_step.find("contiguous"), std::string::npos) << refused->info().next_step;
  EXPECT_EQ(rig.stream.Launch(Job(JobPlan()), {}), before + 1);
  rig.synchronize();
  EXPECT_TRUE(records.blocks.empty()) << "a part of it was launched";
  rig.runtime.allocator().deallocate(b);
  EXPECT_EQ(rig.runtime.allocator().memory_stats().active_bytes.current,
            rig.runtime.allocator().memory_stats().allocated_bytes.current)
      << "the refused launch keeps nothing";
}

TEST(ChunkedLaunch, MemoryThatIsReleasedWithWorkUnderWayStaysWhole) {
  Rig rig;
  const auto used = [&] { return rig.runtime.allocator().memory_stats().active_bytes.current; };
  const std::uint64_t before = used();
  const auto memory = rig.interleaved(96 * wire::kKiB);
  rig.card.pause();
  rig.stream.Launch(Job::fill(memory, 96 * wire::kKiB, 7), {});
  rig.runtime.allocator().deallocate(memory);
  EXPECT_EQ(used(), before + 96 * wire::kKiB);
  rig.card.resume();
  rig.synchronize();
  EXPECT_EQ(used(), before);
  EXPECT_THROW(rig.stream.Launch(Job::fill(memory, 128, 7), {}), InvalidAllocation);
}

}  // namespace
}  // namespace svp
