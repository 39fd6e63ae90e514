// SPDX-License-Identifier: Apache-2.0
// Storages behind a void* and a deleter, as at::DataPtr owns them.
#include "host_driver/frontend/raw_storage.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "host_driver/ras/log.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using Reason = InvalidAllocation::Reason;
// What PyTorch's DataPtr is made of.
using DataPtr = std::unique_ptr<void, void (*)(void*)>;

struct RawStorageTest : ::testing::Test {
  test::NativeCard card{{.window_bytes = 16 * wire::kMiB}};
  Runtime runtime{card.attach(), options()};
  SpyreAllocator allocator{runtime};
  RawStorages& raw = RawStorages::of_this_process();

  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB};
    options.staging.chunk_bytes = 64 * wire::kKiB;
    return options;
  }
  std::uint64_t allocated() const { return allocator.memory_stats().allocation.current; }
  void* hand_out(std::uint64_t bytes = 1000) { return raw.hand_out(allocator.allocate(bytes)); }

  const std::uint64_t before = allocated();
};

template <typename Call>
std::optional<Reason> refusal(Call&& call) {
  try {
    call();
  } catch (const InvalidAllocation& error) {
    EXPECT_FALSE(error.info().next_step.empty());
    return error.reason();
  }
  return std::nullopt;
}

TEST_F(RawStorageTest, TheDeleterOfTheLastOwnerFreesTheMemory) {
  {
    const DataPtr data(hand_out(), delete_raw_storage);
    EXPECT_EQ(allocated(), before + 1);
    EXPECT_EQ(raw.find(data.get())->bytes(), 1000U);
    const DataPtr again(raw.hand_out(raw.find(data.get())), delete_raw_storage);
    EXPECT_NE(again.get(), data.get()) << "another owner";
    EXPECT_EQ(raw.find(again.get()), raw.find(data.get())) << "of the same storage";
  }
  EXPECT_EQ(allocated(), before);
  EXPECT_EQ(raw.size(), 0U);
}

TEST_F(RawStorageTest, EachOwnerIsOneAndSharedPointersAreOwnersToo) {
  auto storage = allocator.allocate(1000);
  void* const first = raw.hand_out(storage);
  void* const second = raw.hand_out(std::exchange(storage, nullptr));
  raw.take_back(first);
  EXPECT_EQ(refusal([&] { raw.take_back(first); }), Reason::Released) << "and the second owner keeps the memory";
  EXPECT_EQ(allocated(), before + 1);
  auto kept = raw.find(second);
  raw.take_back(second);
  EXPECT_EQ(allocated(), before + 1) << "the shared pointer keeps it";
  kept.reset();
  EXPECT_EQ(allocated(), before);
}

TEST_F(RawStorageTest, ASecondDeleteIsRecognisedAndChangesNothing) {
  void* const context = hand_out();
  void* const other = hand_out();
  raw.take_back(context);
  EXPECT_EQ(refusal([&] { raw.take_back(context); }), Reason::Released);
  EXPECT_EQ(refusal([&] { (void)raw.find(context); }), Reason::Released);
  void* const reused = hand_out();  // the same block, another name
  EXPECT_NE(reused, context);
  EXPECT_EQ(refusal([&] { raw.take_back(context); }), Reason::Released);
  EXPECT_EQ(allocated(), before + 2);
  raw.take_back(other);
  raw.take_back(reused);
}

TEST_F(RawStorageTest, ForeignPointersAreRecognisedAndNeverFollowed) {
  int here = 0;
  const auto heap = std::make_unique<int>(0);
  for (void* const foreign : {static_cast<void*>(&here), static_cast<void*>(heap.get()), std::bit_cast<void*>(1UL),
                              std::bit_cast<void*>(~0UL), std::bit_cast<void*>(1UL << 63)}) {
    EXPECT_EQ(refusal([&] { raw.take_back(foreign); }), Reason::Foreign);
    EXPECT_EQ(refusal([&] { (void)raw.find(foreign); }), Reason::Foreign);
  }
  void* const context = hand_out();
  const std::uint64_t number = std::bit_cast<std::uint64_t>(context);
  const auto index = static_cast<std::uint64_t>(raw.find(context)->allocation_index());
  for (const std::uint64_t wrong : {number + 1, number + (1UL << 24), (1UL << 47) - (1UL << 24), index}) {
    EXPECT_EQ(refusal([&] { raw.take_back(std::bit_cast<void*>(wrong)); }), Reason::Foreign) << wrong;
  }
  raw.take_back(context);
}

TEST_F(RawStorageTest, TheDeleterTellsTheLogAndReturns) {
  int told = 0;
  ras::Log::process().set_sink([&](const ras::Record&) { ++told; });
  void* const context = hand_out();
  delete_raw_storage(context);
  delete_raw_storage(nullptr);
  EXPECT_EQ(told, 0);
  delete_raw_storage(context);
  delete_raw_storage(&told);
  ras::Log::process().set_sink({});
  EXPECT_EQ(told, 2);
}

TEST_F(RawStorageTest, AStorageWithoutMemoryIsNullAndNobodyHasToDeleteIt) {
  EXPECT_EQ(hand_out(0), nullptr);
  EXPECT_EQ(raw.find(nullptr), nullptr);
  raw.take_back(nullptr);
  EXPECT_EQ(raw.size(), 0U);
}

TEST_F(RawStorageTest, AContextIsAboveEveryAddressAndNoneIsGivenOutTwice) {
  std::set<void*> seen;
  for (int i = 0; i < 1000; ++i) {
    void* const context = hand_out();
    EXPECT_GE(std::bit_cast<std::uintptr_t>(context), std::uintptr_t{1} << 47);
    EXPECT_TRUE(seen.insert(context).second);
    raw.take_back(context);
  }
}

TEST_F(RawStorageTest, ItMayOutliveItsRuntime) {
  void* context = nullptr;
  {
    Runtime gone(card.attach(2), options());
    context = raw.hand_out(SpyreAllocator(gone).allocate(1000));
  }
  raw.take_back(context);
  EXPECT_EQ(refusal([&] { raw.take_back(context); }), Reason::Released);
}

TEST_F(RawStorageTest, ManyThreadsHandOutAndTakeBack) {
  void* const shared = hand_out();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        void* const mine = hand_out(128);
        void* const more = raw.hand_out(raw.find(shared));
        delete_raw_storage(mine);
        delete_raw_storage(more);
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each does a number of things
  EXPECT_EQ(raw.size(), 1U);
  raw.take_back(shared);
  EXPECT_EQ(allocated(), before);
}

}  // namespace
}  // namespace svp
