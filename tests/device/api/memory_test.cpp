// SPDX-License-Identifier: Apache-2.0
// Memory through the C++ API on a booted card: a limit, regions at open, streams that are recorded, raw storages.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <spyre/spyre.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/api/api_card.hpp"

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kRegion = 16 * kMiB;
constexpr std::uint64_t kMost = 10 * kMiB;  // one of them in a region

class Memory : public ApiCard {
 protected:
  static void SetUpTestSuite() {
    spyre::ContextOptions options;
    options.memory.limit_bytes = 32 * kMiB;
    options.memory.region_bytes = {kRegion};
    options.memory.acquire_at_open = {kRegion};
    open(options);
  }
  void SetUp() override { allocator().set_memory_limit(32 * kMiB); }
  static spyre::SpyreAllocator& allocator() { return context().allocator(); }
  static std::uint64_t reserved() { return allocator().memory_stats().reserved_bytes.current; }
  // Runs until `slices` milliseconds of the card have passed, and names no memory.
  static void spin(spyre::SpyreStream stream, std::uint64_t slices) {
    static const std::vector<spyre::Job> jobs = loaded("spin", {}).jobs();
    stream.Launch(jobs.front(), {}, {.budget_slices = slices});
  }
};

TEST_F(Memory, ARegionIsHeldFromTheStartAndTheLimitKeepsASecondOneOut) {
  EXPECT_EQ(allocator().memory_limit(), 32 * kMiB);
  EXPECT_EQ(allocator().memory_stats().segment.current, 2u) << "of programs, and of tensors";
  const auto first = allocator().allocate(kRegion);
  EXPECT_EQ(allocator().memory_stats().segment.current, 2u);
  const auto failed = allocator().try_allocate(kRegion);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error->message.find("the memory limit of 33554432 bytes is the reason"), std::string::npos)
      << failed.error->message;
  EXPECT_LE(reserved(), 32 * kMiB);

  allocator().set_memory_limit(64 * kMiB);
  {
    const auto second = allocator().allocate(kRegion);
    EXPECT_GT(reserved(), 32 * kMiB);
    allocator().set_memory_limit(32 * kMiB);
    EXPECT_GT(reserved(), 32 * kMiB) << "what is held stays";
    EXPECT_NO_THROW((void)allocator().memory_info());
  }
  EXPECT_EQ(allocator().empty_cache(), kRegion);
  EXPECT_LE(reserved(), 32 * kMiB);
}

TEST_F(Memory, ATensorLargerThanAnyBlockIsCopiedAndNoOperandOfAKernel) {
  using spyre::DataType;
  constexpr std::int64_t kRows = 3072;
  constexpr std::int64_t kColumns = 2048;         // 24 MiB on the card
  const auto keeper = allocator().allocate(128);  // its region stays, and the limit allows no other of 24 MiB
  EXPECT_FALSE(allocator().try_allocate(kRows * kColumns * sizeof(float)));
  {
    const auto tensor =
        spyre::SpyreTensor::empty(allocator(), DataType::Float32, {kRows, kColumns},
                                  spyre::TensorOptions{.device_dtype = spyre::DeviceType::Dl16, .interleaved = true});
    const auto shape = spyre::HostShape::contiguous(DataType::Float32, {kRows, kColumns});
    std::vector<float> values(kRows * kColumns);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 509);  // DL16 has each of them
    context().copy(tensor, spyre::ConstHostTensor{shape, std::as_bytes(std::span(values))});
    std::vector<float> found(values.size());
    context().to_host(tensor, {shape, std::as_writable_bytes(std::span(found))});
    EXPECT_EQ(found, values);

    spyre::ExecutionPlan plan;
    plan.add(spyre::Job(spyre::CompiledKernel(context().kernel("add"), {{"M", kRows}, {"N", kColumns}})));
    context().load(plan);
    auto stream = context().default_stream();
    EXPECT_THROW(spyre::LaunchKernel(stream, plan, std::array{tensor, tensor, tensor}), spyre::CopyNeeded);
  }
  allocator().empty_cache();
}

TEST_F(Memory, AFractionIsOneOfAllThatTheContextCouldGet) {
  allocator().set_memory_fraction(0.5);
  EXPECT_EQ(allocator().memory_limit(), allocator().memory_info().total_bytes / 2);
  EXPECT_THROW(allocator().set_memory_fraction(1.5), spyre::InvalidArgument);
}

TEST_F(Memory, WhatARecordedStreamMayUseIsNotGivenOutBeforeItsWorkHasEnded) {
  allocator().set_memory_limit(reserved());  // one region of tensors
  auto stream = context().stream();
  auto storage = allocator().allocate(kMost);
  storage->record_stream(stream);
  spin(stream, 100'000);
  storage.reset();
  const auto stats = allocator().memory_stats();
  EXPECT_EQ(stats.active_bytes.current, stats.allocated_bytes.current + kMost);
  const auto beside = allocator().allocate(kRegion - kMost);  // not the same memory
  stream.Reset();
  EXPECT_NO_THROW((void)allocator().allocate(kMost));
}

TEST_F(Memory, AnAllocationWaitsForARecordedStream) {
  allocator().set_memory_limit(reserved());  // one region of tensors
  auto stream = context().stream();
  auto storage = allocator().allocate(kMost);
  storage->record_stream(stream);
  spin(stream, 50);
  storage.reset();
  const auto next = allocator().allocate(kMost);  // the only block that is large enough
  EXPECT_TRUE(stream.Query());
  EXPECT_THROW(stream.Synchronize(soon()), spyre::StreamError) << "the kernel's budget";
  stream.Reset();
}

// The program of an operation gets its place at the first call.
TEST_F(Memory, ACallbackMayRunTheOperationThatIsBeingLoaded) {
  allocator().set_memory_limit(reserved());  // one region of tensors
  const auto x = context().empty(spyre::DataType::Float16, {64, 64});
  const auto y = context().empty(spyre::DataType::Float16, {64, 64});
  const auto z = context().empty(spyre::DataType::Float16, {64, 64});
  auto room = allocator().allocate(kMiB);  // before the rest is taken
  std::vector<std::shared_ptr<const spyre::DeviceStorage>> rest;
  for (std::uint64_t bytes = kRegion; bytes >= 128;) {
    auto got = allocator().try_allocate(bytes);
    if (got) rest.push_back(std::move(got.storage));
    if (!got) bytes /= 2;
  }
  int calls = 0;
  allocator().set_memory_pressure_callback([&](const spyre::MemoryShortage&) {
    ++calls;
    room.reset();
    spyre::ops::relu(context(), x, {.out = y});
  });
  spyre::ops::relu(context(), x, {.out = z});
  context().default_stream().Synchronize(soon());
  allocator().set_memory_pressure_callback(nullptr);
  EXPECT_EQ(calls, 1);
}

TEST_F(Memory, WithoutARecordTheSameMemoryIsGivenOutAtOnce) {
  allocator().set_memory_limit(reserved());  // one region of tensors
  auto stream = context().stream();
  auto storage = allocator().allocate(kMost);
  spin(stream, 100'000);
  storage.reset();
  const auto next = allocator().allocate(kMost);
  EXPECT_FALSE(stream.Query());
  stream.Reset();
}

TEST_F(Memory, TensorsAreRecordedAndStreamsOfOtherContextsAreRefused) {
  spyre::ContextOptions options;
  options.function = 1;
  options.memory.max_regions = 1;
  const auto other = context().open_beside(options);
  auto tensor = context().empty(spyre::DataType::Float16, {64, 64});
  tensor.record_stream(context().default_stream());
  EXPECT_THROW(tensor.record_stream(other->default_stream()), spyre::InvalidArgument);
  spyre::SpyreTensor().record_stream(other->default_stream());
  EXPECT_NO_THROW((void)other->empty(spyre::DataType::Float16, {64, 64}));
}

TEST_F(Memory, ARawStorageIsFreedByItsDeleterAndUsedUntilThen) {
  const auto before = allocator().memory_stats();
  spyre::RawStorage raw = spyre::to_raw(allocator().allocate(1000));
  EXPECT_EQ(raw.data, raw.context);
  std::vector<std::byte> out(1000, std::byte{7}), in(1000);
  auto stream = context().stream();
  const auto index = spyre::storage_of(raw.data)->allocation_index();
  stream.Launch(spyre::Job::to_device(out.data(), index, out.size()), {});
  stream.Launch(spyre::Job::from_device(in.data(), index, in.size()), {});
  spyre::storage_of(raw.data)->record_stream(stream);
  raw.deleter(raw.context);
  EXPECT_EQ(allocator().memory_stats().allocation.current, before.allocation.current);
  EXPECT_EQ(allocator().memory_stats().requested_bytes.current, before.requested_bytes.current);
  stream.Synchronize(soon());
  EXPECT_EQ(in, out);
  EXPECT_THROW(spyre::delete_raw(raw.context), spyre::InvalidAllocation);
  EXPECT_THROW((void)spyre::storage_of(&raw), spyre::InvalidAllocation);
}

TEST_F(Memory, ImpossibleOptionsAreRefusedByName) {
  spyre::ContextOptions options;
  options.function = 1;
  options.memory.max_regions = 8;
  try {
    (void)context().open_beside(options);
    FAIL();
  } catch (const spyre::InvalidArgument& error) {
    EXPECT_EQ(error.field(), "max_regions");
  }
  options.memory.max_regions = 7;
  options.memory.acquire_at_open = {std::uint64_t{16} << 30, std::uint64_t{16} << 30, std::uint64_t{16} << 30,
                                    std::uint64_t{16} << 30, std::uint64_t{16} << 30, std::uint64_t{16} << 30,
                                    std::uint64_t{16} << 30};  // more than the card has
  EXPECT_THROW((void)context().open_beside(options), spyre::Error);
  options.memory.acquire_at_open.clear();
  EXPECT_NO_THROW((void)context().open_beside(options)) << "nothing is left of the attempt";
}

// A card of the default size for one context. Nothing is written to the memory.
TEST(WholeCard, AllOfItCanBeAllocatedAndFreeBytesSayHowMuch) {
  const auto context = spyre::Context::open({});
  spyre::SpyreAllocator& allocator = context->allocator();
  const std::uint64_t programs = allocator.memory_stats().reserved_bytes.current;
  const spyre::MemoryInfo before = allocator.memory_info();
  EXPECT_EQ(before.free_bytes + programs, before.total_bytes);
  std::vector<std::shared_ptr<const spyre::DeviceStorage>> storages;
  constexpr std::uint64_t kTensor = 12 * 1024 * kMiB;
  for (int i = 0; i < 7; ++i) storages.push_back(allocator.allocate(kTensor));
  const std::uint64_t rest = before.free_bytes - 7 * kTensor;
  EXPECT_GT(rest, 11 * 1024 * kMiB);
  storages.push_back(allocator.allocate(rest, {.interleaved = true}));
  EXPECT_EQ(allocator.memory_info().free_bytes, 0u);
  const auto refused = allocator.try_allocate(128);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error->next_step.find("free tensors"), std::string::npos) << refused.error->next_step;
}

}  // namespace
