// SPDX-License-Identifier: Apache-2.0
// Copies that pinned memory has no room for, against the real firmware core on a thread: they are staged, exact, and
// touch each byte once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "host_driver/frontend/spyre_stream.hpp"
#include "host_driver/frontend/tensor_copy.hpp"
#include "tests/bounds.hpp"
#include "tests/support/tensor_copies.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;
using wire::kKiB;
using wire::kMiB;

struct Rig {
  explicit Rig(std::uint64_t window_bytes) : card({.window_bytes = window_bytes}) {}
  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * kMiB};
    return options;
  }
  TransferCounters::Snapshot counted() { return runtime.transfer_counters().snapshot(); }
  // All that is left of pinned memory.
  std::vector<PinnedBuffer> exhaust() {
    std::vector<PinnedBuffer> held;
    while (const auto free = runtime.host_memory().statistics().largest_free) {
      held.push_back(runtime.host_memory().allocate(free));
    }
    return held;
  }
  void synchronize() { runtime.default_stream().Synchronize(FlexStream::Clock::now() + test_bounds::kWork); }

  test::NativeCard card;
  Runtime runtime{card.attach(), options()};
  SpyreAllocator allocator{runtime};
  SpyreStream stream{runtime.default_stream()};
};

HostShape floats(Dims shape) { return HostShape::contiguous(DataType::Float32, std::move(shape)); }

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST(StagedCopy, TheSmallestWindowOpensAndStagesInSmallerChunks) {
  Rig rig(wire::kMinWindowBytes);
  EXPECT_EQ(rig.runtime.host_memory().statistics().total_bytes, kMiB);
  EXPECT_EQ(rig.runtime.host_memory().statistics().used_bytes, 256 * kKiB) << "a quarter";
}

TEST(StagedCopy, LinearTransfersCountWhichWayTheyWent) {
  Rig rig(4 * kMiB);
  const auto memory = rig.runtime.allocator().allocate(16 * kMiB);
  std::vector<std::byte> pageable(10 * kMiB + 77, std::byte{3});
  const auto start = rig.counted();
  rig.runtime.default_stream().Launch(Job::to_device(pageable.data(), memory, pageable.size()), {});
  rig.synchronize();
  const auto staged = rig.counted();
  EXPECT_EQ(staged.staged_bytes - start.staged_bytes, pageable.size());
  EXPECT_EQ(staged.copied_bytes - start.copied_bytes, pageable.size()) << "once";
  EXPECT_EQ(staged.direct_bytes, start.direct_bytes);
  const PinnedBuffer pinned = rig.runtime.host_memory().allocate(kMiB + 5);
  rig.runtime.default_stream().Launch(Job::from_device(pinned.data(), memory, pinned.size()), {});
  rig.synchronize();
  const auto direct = rig.counted();
  EXPECT_EQ(direct.direct_bytes - staged.direct_bytes, pinned.size());
  EXPECT_EQ(direct.staged_bytes, staged.staged_bytes);
  EXPECT_EQ(direct.copied_bytes, staged.copied_bytes) << "nobody copied";
  EXPECT_EQ(pinned.bytes().back(), std::byte{3});
}

TEST(StagedCopy, RegisteredMemoryIsReachedByTheCardItself) {
  Rig rig(4 * kMiB);
  constexpr std::size_t kBytes = kMiB;
  const std::unique_ptr<void, decltype(&std::free)> heap(std::aligned_alloc(4096, kBytes), std::free);
  const std::span memory(static_cast<std::byte*>(heap.get()), kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) memory[i] = static_cast<std::byte>(i * 7);
  const std::vector<std::byte> before(memory.begin(), memory.end());
  const auto card = rig.runtime.allocator().allocate(kBytes);
  rig.runtime.host_memory().register_memory(memory);
  const auto start = rig.counted();
  rig.runtime.default_stream().Launch(Job::to_device(memory.data() + 4, card, kBytes - 4), {});
  rig.synchronize();
  std::ranges::fill(memory, std::byte{0});
  rig.runtime.default_stream().Launch(Job::from_device(memory.data() + 4, card, kBytes - 4), {});
  rig.synchronize();
  const auto end = rig.counted();
  EXPECT_EQ(end.direct_bytes - start.direct_bytes, 2 * (kBytes - 4));
  EXPECT_EQ(end.staged_bytes, start.staged_bytes);
  EXPECT_EQ(end.copied_bytes, start.copied_bytes);
  rig.runtime.host_memory().unregister_memory(memory.data());
  EXPECT_TRUE(std::ranges::equal(memory.subspan(4), std::span(before).subspan(4)));
  rig.runtime.default_stream().Launch(Job::to_device(memory.data(), card, kBytes), {});
  rig.synchronize();
  EXPECT_EQ(rig.counted().staged_bytes - end.staged_bytes, kBytes) << "ordinary memory again";
}

TEST(StagedCopy, ExhaustedPinnedMemoryStagesCopiesAndFailsExplicitRequests) {
  Rig rig(8 * kMiB);
  const auto values = numbers(300 * 200);
  const auto held = rig.exhaust();
  EXPECT_THROW(rig.runtime.host_memory().allocate(1), OutOfMemory);
  const auto start = rig.counted();
  const SpyreTensor tensor = to_device(rig.runtime, rig.allocator, rig.stream,
                                       {floats({300, 200}), std::as_bytes(std::span(values))}, TensorOptions{});
  std::vector<float> back(values.size());
  to_host(rig.runtime, rig.stream, tensor, {floats({300, 200}), std::as_writable_bytes(std::span(back))});
  EXPECT_EQ(back, values);
  const auto end = rig.counted();
  EXPECT_EQ(end.staged_bytes - start.staged_bytes, 2 * tensor.size_bytes());
  EXPECT_EQ(end.copied_bytes - start.copied_bytes, 2 * tensor.size_bytes()) << "each byte once in each direction";
  EXPECT_EQ(end.direct_bytes, start.direct_bytes);
}

TEST(StagedCopy, TheSourceOfAStagedCopyIsTheCallersWhenItReturns) {
  Rig rig(8 * kMiB);
  const auto held = rig.exhaust();
  const SpyreTensor tensor = SpyreTensor::empty(rig.allocator, DataType::Float32, {500, 700});
  auto values = numbers(500 * 700);
  const auto expected = values;
  copy(rig.runtime, rig.stream, tensor, {floats({500, 700}), std::as_bytes(std::span(values))});
  std::ranges::fill(values, -1.0F);
  std::vector<float> back(values.size());
  to_host(rig.runtime, rig.stream, tensor, {floats({500, 700}), std::as_writable_bytes(std::span(back))});
  EXPECT_EQ(back, expected);
}

// Every shape, layout, view and format, with all of pinned memory taken, and with little of it left.
TEST(StagedCopy, WithoutPinnedMemoryEveryByteIsAsInTheModel) {
  Rig rig(wire::kMinWindowBytes);
  const auto held = rig.exhaust();
  const std::uint64_t seed = std::random_device{}();
  test::TensorCopies copies(rig.runtime, rig.allocator, rig.stream, seed);
  const auto wrong = copies.run(400);
  EXPECT_FALSE(wrong) << *wrong << ", seed " << seed;
}

TEST(StagedCopy, WithLittlePinnedMemoryEveryByteIsAsInTheModel) {
  Rig rig(wire::kMinWindowBytes);
  auto held = rig.exhaust();
  held.clear();
  const PinnedBuffer most = rig.runtime.host_memory().allocate(700 * kKiB);
  const std::uint64_t seed = std::random_device{}();
  test::TensorCopies copies(rig.runtime, rig.allocator, rig.stream, seed);
  const auto wrong = copies.run(400);
  EXPECT_FALSE(wrong) << *wrong << ", seed " << seed;
}

TEST(StagedCopy, AViewLargerThanTheWindowKeepsItsNeighbours) {
  Rig rig(wire::kMinWindowBytes);
  constexpr std::int64_t kRows = 9000;
  constexpr std::int64_t kColumns = 150;
  const std::vector<float> zeros(kRows * kColumns, 0.0F);
  const SpyreTensor tensor = to_device(rig.runtime, rig.allocator, rig.stream,
                                       {floats({kRows, kColumns}), std::as_bytes(std::span(zeros))}, TensorOptions{});
  const auto part = numbers(kRows * 120);
  const SpyreTensor view = tensor.slice(1, 10, 130);  // begins and ends inside of sticks; 2 MiB and more
  copy(rig.runtime, rig.stream, view, {floats({kRows, 120}), std::as_bytes(std::span(part))});
  std::vector<float> back(zeros.size());
  to_host(rig.runtime, rig.stream, tensor, {floats({kRows, kColumns}), std::as_writable_bytes(std::span(back))});
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    const std::int64_t column = i % kColumns;
    const bool inside = column >= 10 && column < 130;
    const float expected = inside ? part[static_cast<std::size_t>(i / kColumns * 120 + column - 10)] : 0.0F;
    ASSERT_EQ(back[static_cast<std::size_t>(i)], expected) << i;
  }
}

TEST(StagedCopy, MoreStreamsThanChunksAllEnd) {
  Rig rig(wire::kMinWindowBytes);
  const auto held = rig.exhaust();
  constexpr unsigned kThreads = 6;  // two chunks
  std::vector<std::thread> threads;
  std::atomic<unsigned> wrong{0};
  for (unsigned t = 0; t < kThreads; ++t) {
    SpyreStream mine(rig.runtime.next_stream(t % 2 == 0 ? StreamPriority::Low : StreamPriority::High));
    threads.emplace_back([&rig, &wrong, mine, t]() mutable {
      std::mt19937 random(t);
      std::vector<float> values(200 * 300);
      for (int round = 0; round < 3; ++round) {
        for (float& value : values) value = static_cast<float>(random() % 4096);
        const SpyreTensor tensor = to_device(rig.runtime, rig.allocator, mine,
                                             {floats({200, 300}), std::as_bytes(std::span(values))}, TensorOptions{});
        std::vector<float> back(values.size());
        to_host(rig.runtime, mine, tensor, {floats({200, 300}), std::as_writable_bytes(std::span(back))});
        if (back != values) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: the test's own time-out
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace svp
