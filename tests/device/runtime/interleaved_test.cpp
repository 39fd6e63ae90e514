// SPDX-License-Identifier: Apache-2.0
// Tensors in several regions on the real firmware: transfers, strided nests and copies of tensors against models, and a
// launch that does not take them. SPYRE_CHUNKED_ROUNDS, SPYRE_COPIES: how many; SPYRE_SEED: repeat a run.
#include <cstdio>
#include <random>

#include "tests/device/runtime/shared_context.hpp"
#include "tests/support/chunked_transfers.hpp"
#include "tests/support/tensor_copies.hpp"

namespace svp {
namespace {

constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Interleaved : public test::OneCard {
 public:
  static void SetUpTestSuite() {
    svp::ContextOptions options;
    options.card.emplace().boot_arguments = "watchdog=200";
    options.function = test::function_under_test();
    options.runtime.allocator.region_bytes = {kRegionBytes};
    opened = svp::Context::open(std::move(options));
    test::hold_regions(opened->runtime().allocator(), 3, kRegionBytes);
  }

 protected:
  static std::size_t chunks(const SpyreTensor& tensor) {
    return context().runtime().allocator().resolve_chunks(tensor.allocation_index()).count;
  }
  static SpyreTensor on_card(const std::vector<float>& values, std::int64_t rows, bool interleaved) {
    const HostShape shape =
        HostShape::contiguous(DataType::Float32, {rows, static_cast<std::int64_t>(values.size()) / rows});
    return context().to_device({shape, std::as_bytes(std::span(values))},
                               TensorOptions{.device_dtype = DeviceType::Dl16, .interleaved = interleaved});
  }
  static std::vector<float> back(const SpyreTensor& tensor) {
    const HostShape shape = HostShape::contiguous(DataType::Float32, tensor.shape());
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    context().to_host(tensor, {shape, std::as_writable_bytes(std::span(values))});
    return values;
  }
};

TEST_F(Interleaved, TransfersMoveEveryByteToItsPlaceAndNoOther) {
  const std::uint64_t seed = number("SPYRE_SEED", std::random_device{}());
  test::ChunkedTransfers transfers(context().runtime(), stream(), seed);
  const auto wrong = transfers.run(number("SPYRE_CHUNKED_ROUNDS", 60));
  const test::ChunkedCounts& counts = transfers.counts();
  std::printf("%zu transfers in %zu blocks, %zu of %zu nests cut; seed %llu\n", counts.transfers, counts.blocks,
              counts.cut_nests, counts.nests, static_cast<unsigned long long>(seed));
  EXPECT_FALSE(wrong) << *wrong;
  EXPECT_GT(counts.blocks, counts.transfers);
  EXPECT_GT(counts.cut_nests, 0U);
}

TEST_F(Interleaved, CopiesOfTensorsAgreeWithTheModelInEveryByte) {
  const std::uint64_t seed = number("SPYRE_SEED", std::random_device{}());
  SpyreStream default_stream = context().default_stream();
  test::TensorCopies copies(context().runtime(), context().allocator(), default_stream, seed);
  const auto wrong = copies.run(number("SPYRE_COPIES", 1500));
  std::printf("%zu copies, %zu tensors in several chunks; seed %llu\n", copies.counts().copies(),
              copies.counts().in_chunks, static_cast<unsigned long long>(seed));
  EXPECT_FALSE(wrong) << *wrong;
  EXPECT_GT(copies.counts().in_chunks, 20U);
}

TEST_F(Interleaved, ATensorLargerThanARegionGoesThereAndBack) {
  std::vector<std::byte> values(2 * kRegionBytes + 3 * 128);
  test::fill_pattern(values, 7);
  const HostShape shape = HostShape::contiguous(DataType::Int8, {static_cast<std::int64_t>(values.size())});
  const SpyreTensor tensor = context().to_device({shape, values}, TensorOptions{.interleaved = true});
  EXPECT_EQ(chunks(tensor), 3U);
  std::vector<std::byte> found(values.size());
  context().to_host(tensor, {shape, found});
  EXPECT_EQ(found, values);
}

TEST_F(Interleaved, AKernelRefusesItBeforeAnythingIsSentAndTakesTheCopyInOneChunk) {
  ExecutionPlan plan;
  plan.add(Job(CompiledKernel(context().kernel("add"), {{"M", 64}, {"N", 64}})));
  context().load(plan);
  std::vector<float> values(64 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 100);
  const SpyreTensor a = on_card(values, 64, false);
  const SpyreTensor b = on_card(values, 64, true);
  const SpyreTensor sum = on_card(std::vector<float>(64 * 64, -1.0F), 64, false);
  ASSERT_EQ(chunks(b), 3U);
  SpyreStream to = context().default_stream();
  const std::uint64_t before = stream().Launch(Job(JobPlan()), {});
  std::optional<CopyNeeded> refused;
  try {
    to.Launch(plan.jobs()[0], std::vector{a, b, sum});
  } catch (const CopyNeeded& error) {
    refused = error;
  }
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->field(), "operand B");
  EXPECT_NE(refused->info().message.find("lies in 3 chunks"), std::string::npos) << refused->info().message;
  EXPECT_EQ(stream().Launch(Job(JobPlan()), {}), before + 1);
  EXPECT_EQ(back(sum), std::vector<float>(64 * 64, -1.0F));
  to.Launch(plan.jobs()[0], std::vector{a, context().contiguous(b, to), sum});
  std::vector<float> twice = values;
  for (float& value : twice) value *= 2;
  EXPECT_EQ(back(sum), twice);
}

}  // namespace
}  // namespace svp
