// SPDX-License-Identifier: Apache-2.0
// Transfers that are larger than the window, on a card with the smallest one: 1 MiB of host memory, of which staging
// has a quarter.
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "tests/device/runtime/shared_context.hpp"
#include "tests/support/tensor_copies.hpp"

namespace svp {
namespace {

using test::fill_pattern;
using wire::kKiB;
using wire::kMiB;

HostShape floats(std::vector<std::int64_t> shape) { return HostShape::contiguous(DataType::Float32, std::move(shape)); }

class SmallWindow : public testing::Test {
 public:
  static void SetUpTestSuite() {
    svp::ContextOptions options;
    options.card.emplace().window_bytes = wire::kMinWindowBytes;
    options.function = test::function_under_test();
    opened = svp::Context::open(std::move(options));
  }
  static void TearDownTestSuite() { opened.reset(); }

 protected:
  static svp::Context& context() { return *opened; }
  static FlexStream& stream() { return opened->runtime().default_stream(); }
  static TransferCounters::Snapshot counted() { return opened->runtime().transfer_counters().snapshot(); }
  static FlexStream::Clock::time_point soon() { return test::soon(); }
  static std::vector<PinnedBuffer> exhaust() {
    std::vector<PinnedBuffer> held;
    while (const auto free = context().host_memory().statistics().largest_free) {
      held.push_back(context().host_memory().allocate(free));
    }
    return held;
  }

  static inline std::unique_ptr<svp::Context> opened;
};

TEST_F(SmallWindow, LinearTransfersAreStagedAndEveryByteIsThere) {
  const std::size_t bytes = 48 * kMiB + 77;
  std::vector<std::byte> out(bytes);
  std::vector<std::byte> back(bytes);
  fill_pattern(out, 5);
  const auto memory = context().runtime().allocator().allocate(bytes);
  const auto start = counted();
  stream().Launch(Job::to_device(out.data(), memory, bytes), {});
  stream().Launch(Job::from_device(back.data(), memory, bytes), {});
  stream().Synchronize(soon());
  EXPECT_EQ(std::memcmp(out.data(), back.data(), bytes), 0);
  const auto end = counted();
  EXPECT_EQ(end.staged_bytes - start.staged_bytes, 2 * bytes);
  EXPECT_EQ(end.copied_bytes - start.copied_bytes, 2 * bytes) << "each byte once in each direction";
  EXPECT_EQ(end.direct_bytes, start.direct_bytes);
  context().runtime().allocator().deallocate(memory);
}

TEST_F(SmallWindow, FillsNeedNoHostMemory) {
  const auto held = exhaust();
  const std::size_t bytes = 32 * kMiB;
  const auto memory = context().runtime().allocator().allocate(bytes);
  std::vector<std::uint64_t> back(bytes / 8);
  stream().Launch(Job::fill(memory, bytes, 0x0123456789ABCDEF), {});
  stream().Launch(Job::from_device(back.data(), memory, bytes), {});
  stream().Synchronize(soon());
  EXPECT_EQ(std::ranges::count(back, 0x0123456789ABCDEFU), static_cast<std::ptrdiff_t>(back.size()));
  context().runtime().allocator().deallocate(memory);
}

TEST_F(SmallWindow, TensorsAreConvertedStraightIntoTheWindow) {
  constexpr std::int64_t kRows = 3000;
  constexpr std::int64_t kColumns = 1100;  // a padded stick at the end of each row
  std::vector<float> values(kRows * kColumns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 509);  // 9 bits: exact in DL16
  for (const auto dtype : {DeviceType::Dl16, DeviceType::Fp32}) {
    const auto start = counted();
    const SpyreTensor tensor =
        context().to_device({floats({kRows, kColumns}), std::as_bytes(std::span(values))}, dtype);
    std::vector<float> back(values.size());
    context().to_host(tensor, {floats({kRows, kColumns}), std::as_writable_bytes(std::span(back))});
    EXPECT_EQ(back, values);
    const auto end = counted();
    EXPECT_EQ(end.staged_bytes - start.staged_bytes, 2 * tensor.size_bytes());
    EXPECT_EQ(end.copied_bytes - start.copied_bytes, 2 * tensor.size_bytes());
  }
}

TEST_F(SmallWindow, ViewsLargerThanTheWindowOnBothSides) {
  constexpr std::int64_t kRows = 20'000;
  constexpr std::int64_t kColumns = 130;
  const std::vector<float> zeros(kRows * kColumns, 0.0F);
  const SpyreTensor tensor = context().to_device({floats({kRows, kColumns}), std::as_bytes(std::span(zeros))});
  // Of the host a transposed array, of the card columns inside of sticks.
  constexpr std::int64_t kPart = 90;
  std::vector<float> part(kRows * kPart);
  for (std::size_t i = 0; i < part.size(); ++i) part[i] = static_cast<float>(1 + i % 500);
  const HostShape transposed{.dtype = DataType::Float32, .size = {kRows, kPart}, .stride = {1, kRows}};
  const SpyreTensor view = tensor.slice(1, 20, 20 + kPart);
  context().copy(view, ConstHostTensor{transposed, std::as_bytes(std::span(part))}, context().default_stream());
  std::vector<float> back(zeros.size());
  context().to_host(tensor, {floats({kRows, kColumns}), std::as_writable_bytes(std::span(back))});
  std::vector<float> expected(zeros);
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kPart; ++column) {
      expected[static_cast<std::size_t>(row * kColumns + 20 + column)] =
          part[static_cast<std::size_t>(column * kRows + row)];
    }
  }
  EXPECT_EQ(back, expected);
  std::vector<float> again(part.size());
  context().to_host(view, {transposed, std::as_writable_bytes(std::span(again))});
  EXPECT_EQ(again, part);
  const SpyreTensor columns = context().restickify(tensor, std::vector<std::int64_t>{1, 0}, context().default_stream());
  context().to_host(columns, {floats({kRows, kColumns}), std::as_writable_bytes(std::span(back))});
  EXPECT_EQ(back, expected);
}

TEST_F(SmallWindow, RandomCopiesAgreeWithTheModelInEveryByte) {
  const std::uint64_t seed = std::random_device{}();
  SpyreStream stream = context().default_stream();
  test::TensorCopies copies(context().runtime(), context().allocator(), stream, seed);
  const auto wrong = copies.run(500);
  EXPECT_FALSE(wrong) << *wrong << ", seed " << seed;
  const auto held = exhaust();
  test::TensorCopies staged(context().runtime(), context().allocator(), stream, seed + 1);
  const auto also_wrong = staged.run(500);
  EXPECT_FALSE(also_wrong) << *also_wrong << ", exhausted, seed " << seed + 1;
}

TEST_F(SmallWindow, MoreTransfersAtOnceThanStagingChunks) {
  constexpr unsigned kStreams = 8;  // two chunks
  const std::size_t bytes = 3 * kMiB + 300;
  std::vector<std::vector<std::byte>> out(kStreams, std::vector<std::byte>(bytes));
  std::vector<std::vector<std::byte>> back = out;
  std::vector<AllocationIndex> memory;
  std::vector<FlexStream*> streams;
  const auto start = counted();
  for (unsigned i = 0; i < kStreams; ++i) {
    fill_pattern(out[i], 100 + i);
    memory.push_back(context().runtime().allocator().allocate(bytes));
    streams.push_back(&context().runtime().next_stream(i % 2 == 0 ? StreamPriority::Low : StreamPriority::High));
    streams[i]->Launch(Job::to_device(out[i].data(), memory[i], bytes), {});
    streams[i]->Launch(Job::from_device(back[i].data(), memory[i], bytes), {});
  }
  for (FlexStream* each : streams) each->Synchronize(soon());
  for (unsigned i = 0; i < kStreams; ++i) {
    EXPECT_EQ(std::memcmp(out[i].data(), back[i].data(), bytes), 0) << i;
    context().runtime().allocator().deallocate(memory[i]);
  }
  EXPECT_EQ(counted().staged_bytes - start.staged_bytes, 2 * kStreams * bytes);
}

TEST_F(SmallWindow, ManyThreadsCopyTensorsAtOnce) {
  constexpr unsigned kThreads = 6;
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    SpyreStream mine = context().stream(t % 2 == 0 ? StreamPriority::Low : StreamPriority::High);
    threads.emplace_back([&wrong, mine, t] {
      std::vector<float> values(1000 * 700);
      std::iota(values.begin(), values.end(), static_cast<float>(t));
      for (float& value : values) value = static_cast<float>(static_cast<int>(value) % 500);
      const SpyreTensor tensor = context().to_device({floats({1000, 700}), std::as_bytes(std::span(values))}, mine);
      std::vector<float> back(values.size());
      context().to_host(tensor, {floats({1000, 700}), std::as_writable_bytes(std::span(back))}, mine);
      if (back != values) ++wrong;
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: to_host() ends with its stream
  EXPECT_EQ(wrong, 0U);
}

TEST_F(SmallWindow, RegisteredMemoryIsReachedByTheCard) {
  constexpr std::size_t kBytes = 256 * kKiB;
  const std::unique_ptr<void, decltype(&std::free)> heap(std::aligned_alloc(4096, kBytes), std::free);
  const std::span memory(static_cast<std::byte*>(heap.get()), kBytes);
  fill_pattern(memory, 31);
  const std::vector<std::byte> expected(memory.begin(), memory.end());
  const auto card = context().runtime().allocator().allocate(kBytes);
  context().host_memory().register_memory(memory);
  const auto start = counted();
  stream().Launch(Job::to_device(memory.data(), card, kBytes), {});
  stream().Synchronize(soon());
  std::ranges::fill(memory, std::byte{0});
  stream().Launch(Job::from_device(memory.data(), card, kBytes), {});
  stream().Synchronize(soon());
  EXPECT_EQ(std::memcmp(memory.data(), expected.data(), kBytes), 0);
  const auto end = counted();
  EXPECT_EQ(end.direct_bytes - start.direct_bytes, 2 * kBytes);
  EXPECT_EQ(end.copied_bytes, start.copied_bytes);
  context().host_memory().unregister_memory(memory.data());
  EXPECT_EQ(std::memcmp(memory.data(), expected.data(), kBytes), 0);

  const std::unique_ptr<void, decltype(&std::free)> large(std::aligned_alloc(4096, 2 * kMiB), std::free);
  EXPECT_THROW(context().host_memory().register_memory({static_cast<std::byte*>(large.get()), 2 * kMiB}), OutOfMemory);
  context().runtime().allocator().deallocate(card);
}

}  // namespace
}  // namespace svp
