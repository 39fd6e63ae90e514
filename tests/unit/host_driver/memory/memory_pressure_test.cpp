// SPDX-License-Identifier: Apache-2.0
// What an allocation does when memory is short.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/memory/fake_region_source.hpp"

namespace svp {
namespace {

using testing::FakeRegionSource;

constexpr std::uint64_t kAll = 2 * wire::kMiB;

struct MemoryPressure : ::testing::Test {
  MemoryPressure() {
    allocator = std::make_shared<FlexAllocator>(source, testing::regions_of(kAll));
    cached = allocator->allocate(kAll);
  }
  FakeRegionSource source{kAll};
  std::shared_ptr<FlexAllocator> allocator;
  AllocationIndex cached;
};

TEST_F(MemoryPressure, TheLockIsHandedOverHeldAndMayBeGivenUp) {
  int calls = 0;
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>& lock) {
    ++calls;
    EXPECT_TRUE(lock.owns_lock());
    lock.unlock();
    // bounded: one call, which takes no lock that is held
    std::thread([&] { allocator->deallocate(cached); }).join();
    lock.lock();
  });
  EXPECT_TRUE(allocator->try_allocate(1));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(allocator->memory_stats().num_alloc_retries, 1U);
  EXPECT_EQ(allocator->memory_stats().num_ooms, 0U);
}

TEST_F(MemoryPressure, ALockThatIsNotTakenAgainIsNoHarm) {
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    allocator->deallocate(cached);
  });
  EXPECT_TRUE(allocator->try_allocate(1));
  (void)allocator->statistics();  // would dead-lock
}

TEST_F(MemoryPressure, ALockThatIsMovedAwayIsNoHarm) {
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>& lock) {
    {
      const std::unique_lock mine = std::move(lock);
    }
    allocator->deallocate(cached);
  });
  EXPECT_TRUE(allocator->try_allocate(1));
  (void)allocator->statistics();
}

TEST_F(MemoryPressure, ALockThatIsReleasedIsAnErrorAndTheMutexIsUnlocked) {
  allocator->set_locked_memory_pressure_callback([](std::unique_lock<std::mutex>& lock) { (void)lock.release(); });
  const auto failed = allocator->try_allocate(1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().source, "memory-pressure callback");
  EXPECT_TRUE(failed.error().recoverable);
  EXPECT_THROW((void)allocator->allocate(1), Error);
  // bounded: it would dead-lock, and the test with it
  std::thread([&] { (void)allocator->statistics(); }).join();
  allocator->deallocate(cached);
  EXPECT_TRUE(allocator->try_allocate(1));
}

TEST_F(MemoryPressure, ALockThatIsReleasedAndUnlockedByHandIsNoHarm) {
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>& lock) {
    lock.release()->unlock();
    allocator->deallocate(cached);
  });
  EXPECT_TRUE(allocator->try_allocate(1));
  (void)allocator->statistics();
}

TEST_F(MemoryPressure, ACallbackThatReleasesTheLockAndThrowsLeavesNoLockBehind) {
  allocator->set_locked_memory_pressure_callback([](std::unique_lock<std::mutex>& lock) {
    (void)lock.release();
    throw std::runtime_error("no interpreter");
  });
  EXPECT_THROW((void)allocator->allocate(1), std::runtime_error);
  (void)allocator->statistics();
}

TEST_F(MemoryPressure, AllocatingUnderTheLockFailsInsteadOfWaitingForEver) {
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>&) {
    const auto inside = allocator->try_allocate(1);
    ASSERT_FALSE(inside);
    EXPECT_EQ(inside.error().source, "memory-pressure callback");
  });
  EXPECT_FALSE(allocator->try_allocate(1));
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>&) { (void)allocator->allocate(1); });
  EXPECT_THROW((void)allocator->allocate(1), std::system_error);
  (void)allocator->statistics();
}

TEST_F(MemoryPressure, FreeingUnderTheLockIsNoHarm) {
  AllocationUses uses;
  ASSERT_TRUE(allocator->try_use(cached, uses));
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>&) {
    EXPECT_TRUE(allocator->try_deallocate(cached));
    uses.let_go();
  });
  EXPECT_TRUE(allocator->try_allocate(kAll));
}

// Many threads wait for the lock that one of them is given and loses.
TEST_F(MemoryPressure, ReleasedLocksOfManyThreadsAreAllTakenBack) {
  std::atomic<int> calls = 0;
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>& lock) {
    if (++calls % 2 == 0) (void)lock.release();
  });
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) EXPECT_FALSE(allocator->try_allocate(1));
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each allocates a number of times
  EXPECT_EQ(calls, 400);
  (void)allocator->statistics();
}

TEST_F(MemoryPressure, TheCallbackWithTheLockComesFirstAndBothComeOnce) {
  std::string order;
  allocator->set_memory_pressure_callback([&](const MemoryShortage& missing) {
    order += "free ";
    EXPECT_EQ(missing.requested, 128U);
    allocator->deallocate(cached);
  });
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>&) { order += "locked "; });
  EXPECT_TRUE(allocator->try_allocate(1));
  EXPECT_EQ(order, "locked free ");
}

TEST(MemoryPressureUses, MemoryThatACallbackFreedIsWaitedForWhileWorkUsesIt) {
  FakeRegionSource source(kAll);
  FlexAllocatorOptions options;
  options.region_bytes = {kAll};
  options.timeout = test_bounds::kThread;
  const auto allocator = std::make_shared<FlexAllocator>(source, options);
  for (int i = 0; i < 50; ++i) {
    const auto index = allocator->allocate(kAll);
    AllocationUses uses;
    ASSERT_TRUE(allocator->try_use(index, uses));
    std::thread ends;
    allocator->set_memory_pressure_callback([&](const MemoryShortage&) {
      allocator->deallocate(index);
      ends = std::thread([&] { uses.let_go(); });
    });
    const auto next = allocator->try_allocate(kAll);
    ends.join();  // bounded: it does not wait
    ASSERT_TRUE(next);
    allocator->deallocate(*next);
  }
}

TEST_F(MemoryPressure, AnAllocationInsideACallbackFailsWithoutAnotherCall) {
  int calls = 0;
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>& lock) {
    ++calls;
    lock.unlock();
    EXPECT_FALSE(allocator->try_allocate(1));
    lock.lock();
  });
  EXPECT_FALSE(allocator->try_allocate(1));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(allocator->memory_stats().num_ooms, 2U);
  EXPECT_EQ(allocator->memory_stats().num_alloc_retries, 1U);
}

TEST_F(MemoryPressure, WhatACallbackThrowsIsAnErrorOfTheRequestAndLeavesNoLockBehind) {
  allocator->set_locked_memory_pressure_callback(
      [](std::unique_lock<std::mutex>&) { throw std::runtime_error("no interpreter"); });
  EXPECT_THROW((void)allocator->allocate(1), std::runtime_error);
  const auto failed = allocator->try_allocate(1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().source, "memory-pressure callback");
  EXPECT_TRUE(std::string_view(failed.error().message).contains("no interpreter"));
  allocator->set_locked_memory_pressure_callback({});
  int calls = 0;  // the thread is not taken for one inside a callback
  allocator->set_memory_pressure_callback([&](const MemoryShortage&) { ++calls; });
  EXPECT_FALSE(allocator->try_allocate(1));
  EXPECT_EQ(calls, 1);
}

TEST_F(MemoryPressure, ARemovedCallbackIsNotCalled) {
  allocator->set_memory_pressure_callback([](const MemoryShortage&) { ADD_FAILURE(); });
  allocator->set_locked_memory_pressure_callback([](std::unique_lock<std::mutex>&) { ADD_FAILURE(); });
  allocator->set_memory_pressure_callback({});
  allocator->set_locked_memory_pressure_callback({});
  EXPECT_FALSE(allocator->try_allocate(1));
}

TEST_F(MemoryPressure, TheErrorSaysOutOfMemoryAndFourFigures) {
  allocator->deallocate(cached);
  const auto half = allocator->allocate(kAll / 2);
  (void)half;
  const auto failed = allocator->try_allocate(kAll - 1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().layer, Layer::Memory);
  EXPECT_EQ(
      failed.error().message,
      "out of memory: tensor memory, requested 2097152 bytes, free 1048576, largest block 1048576, total 2097152");
  try {
    (void)allocator->allocate(kAll - 1);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_TRUE(std::string_view(error.what()).contains("out of memory")) << error.what();
  }
}

TEST_F(MemoryPressure, SizesBeyondEveryRegionFailAndChangeNothing) {
  const auto before = allocator->memory_stats();
  EXPECT_EQ(allocator->try_allocate(0), AllocationIndex::Null);
  for (const std::uint64_t bytes : {std::uint64_t{1} << 31, std::uint64_t{1} << 35, std::uint64_t{1} << 63,
                                    ~std::uint64_t{0}, ~std::uint64_t{126}}) {
    const auto failed = allocator->try_allocate(bytes);
    ASSERT_FALSE(failed) << bytes;
    EXPECT_EQ(failed.error().outcome, wire::Outcome::Rejected);
    EXPECT_EQ(failed.error().next_step.empty(), false);
  }
  EXPECT_EQ(allocator->memory_stats().allocation, before.allocation);
  EXPECT_EQ(allocator->memory_stats().segment, before.segment);
  EXPECT_EQ(allocator->memory_stats().num_ooms, 5U);
}

TEST_F(MemoryPressure, ADeadCardIsNoShortage) {
  source.failure = FakeRegionSource::failed("the card is gone", wire::Outcome::Lost);
  allocator->set_memory_pressure_callback([](const MemoryShortage&) { ADD_FAILURE(); });
  const auto failed = allocator->try_allocate(1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().outcome, wire::Outcome::Lost);
  EXPECT_EQ(allocator->memory_stats().num_ooms, 0U);
}

TEST_F(MemoryPressure, ManyThreadsThatRunOutAtOnceAllEnd) {
  allocator->deallocate(cached);
  std::atomic<int> calls = 0;
  allocator->set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>& lock) {
    ++calls;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  });
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        if (const auto index = allocator->try_allocate(kAll * 2 / 5)) allocator->deallocate(*index);
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each allocates a number of times
  EXPECT_EQ(allocator->memory_stats().allocation.current, 0U);
  EXPECT_EQ(allocator->memory_stats().num_alloc_retries, static_cast<std::uint64_t>(calls.load()));
}

}  // namespace
}  // namespace svp
