// SPDX-License-Identifier: Apache-2.0
// Functions of a program that the library calls, for memory and in a stream's order: no lock is held over them,
// whatever they were called for. A program that comes back, or that waits for a thread which does, would wait for ever.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <spyre/spyre.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/api/api_card.hpp"

namespace {

// Locks that this thread holds. Counted by the functions below, which take the places of the C library's in this
// program and in libspyre.so.
thread_local int held = 0;

template <typename Function>
Function* next(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

template <typename Lock>
int take(const char* name, Lock* lock) {
  const int result = next<int(Lock*)>(name)(lock);
  held += result == 0 ? 1 : 0;
  return result;
}

template <typename Lock>
int give_back(const char* name, Lock* lock) {
  --held;
  return next<int(Lock*)>(name)(lock);
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
#define COUNTED [[gnu::visibility("default")]] int
COUNTED pthread_mutex_lock(pthread_mutex_t* lock) noexcept { return take("pthread_mutex_lock", lock); }
COUNTED pthread_mutex_trylock(pthread_mutex_t* lock) noexcept { return take("pthread_mutex_trylock", lock); }
COUNTED pthread_mutex_unlock(pthread_mutex_t* lock) noexcept { return give_back("pthread_mutex_unlock", lock); }
COUNTED pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept { return take("pthread_rwlock_rdlock", lock); }
COUNTED pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept { return take("pthread_rwlock_wrlock", lock); }
COUNTED pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept { return give_back("pthread_rwlock_unlock", lock); }
#undef COUNTED
}
// NOLINTEND(readability-identifier-naming)

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kRegion = 16 * kMiB;

class Callbacks : public ApiAddition {
 protected:
  static void SetUpTestSuite() {
    spyre::ContextOptions options;
    options.memory.limit_bytes = 2 * kRegion;
    options.memory.region_bytes = {kRegion};
    options.memory.acquire_at_open = {kRegion};
    open(options);
  }
  static spyre::SpyreAllocator& allocator() { return context().allocator(); }

  // With no memory left: calls `work`, which has to need some. The callback frees all.
  void expect_unlocked(const std::string& what, const std::function<void()>& work) {
    SCOPED_TRACE(what);
    allocator().set_memory_limit(allocator().memory_stats().reserved_bytes.current);
    std::vector<std::shared_ptr<const spyre::DeviceStorage>> rest;
    for (std::uint64_t bytes = kRegion; bytes >= 128;) {
      auto got = allocator().try_allocate(bytes);
      if (got) rest.push_back(std::move(got.storage));
      if (!got) bytes /= 2;
    }
    int calls = 0, most = 0;
    allocator().set_memory_pressure_callback([&](const spyre::MemoryShortage&) {
      ++calls;
      most = std::max(most, held);
      rest.clear();
      (void)spyre::ops::neg(context(), ready_);  // comes back
    });
    work();
    context().Synchronize(soon());
    allocator().set_memory_pressure_callback(nullptr);
    EXPECT_GE(calls, 1) << "no memory was needed";
    EXPECT_EQ(most, 0) << "locks held over the callback";
  }

  spyre::SpyreTensor ready_ = filled(1);  // the operation of the callback is loaded, too
  spyre::SpyreTensor negated_ = spyre::ops::neg(context(), ready_);
};

TEST_F(Callbacks, LocksAreCounted) {
  std::mutex mutex;
  std::shared_mutex shared;
  EXPECT_EQ(held, 0);
  {
    const std::scoped_lock lock(mutex);
    const std::shared_lock beside(shared);
    EXPECT_EQ(held, 2);
  }
  EXPECT_EQ(held, 0);
}

// The locked form gives the program the allocator's mutex, and nothing else.
TEST_F(Callbacks, TheLockedFormHoldsOneLock) {
  int calls = 0;
  allocator().set_locked_memory_pressure_callback([&](std::unique_lock<std::mutex>&) {
    ++calls;
    EXPECT_EQ(held, 1);
  });
  EXPECT_FALSE(allocator().try_allocate(kRegion + 1));
  allocator().set_locked_memory_pressure_callback(nullptr);
  EXPECT_EQ(calls, 1);
}

TEST_F(Callbacks, OfAllocationsHoldNoLock) {
  using spyre::DataType;
  const std::vector<float> values(kRows * kColumns, 2);
  const spyre::ConstHostTensor host{spyre::HostShape::contiguous(DataType::Float32, {kRows, kColumns}),
                                    std::as_bytes(std::span(values))};
  expect_unlocked("allocate", [] { (void)allocator().allocate(kMiB); });
  expect_unlocked("try_allocate", [] { EXPECT_TRUE(allocator().try_allocate(kMiB)); });
  expect_unlocked("empty", [] { (void)context().empty(DataType::Float16, {64, 64}); });
  expect_unlocked("to_device", [&] { (void)context().to_device(host); });
  expect_unlocked("contiguous", [&] { (void)context().contiguous(ready_.transpose(0, 1)); });
  expect_unlocked("restickify", [&] { (void)context().restickify(ready_, std::vector<std::int64_t>{1, 0}); });
}

// What an operation needs first, so that the callback comes: its result, or the place of its program when the result is
// given.
TEST_F(Callbacks, OfOperationsHoldNoLock) {
  namespace ops = spyre::ops;
  const auto into = filled(0);
  const std::array parts{ready_.slice(1, 0, 100), ready_};
  expect_unlocked("a result", [&] { (void)ops::neg(context(), ready_); });
  expect_unlocked("a program", [&] { (void)ops::relu(context(), ready_, {.out = into}); });
  expect_unlocked("several programs", [&] { (void)ops::softmax(context(), ready_, 1, {.out = into}); });
  expect_unlocked("two results", [&] { (void)ops::topk(context(), ready_, 4); });
  expect_unlocked("parts inside of sticks", [&] { (void)ops::cat(context(), parts, 1); });
  expect_unlocked("a view that is copied",
                  [&] { (void)ops::exp(context(), ready_.transpose(0, 1), {.out = into.reshape({kColumns, kRows})}); });
  expect_unlocked("a type that is converted", [&] {
    const auto wide = context().empty(spyre::DataType::Float32, {kRows, kColumns});
    (void)ops::tanh(context(), ready_, {.out = wide});
  });
}

// The plan's device program gets its place, and a workspace (tests/support/program_plan.cpp: it copies a tensor).
TEST_F(Callbacks, OfPlansHoldNoLock) {
  const std::array tensors{ready_, filled(0)};
  auto stream = context().default_stream();
  const auto loaded_plan = [] {
    auto plan = spyre::ExecutionPlan::from_directory(SPYRE_PROGRAM_PLAN);
    context().load(plan);
    return plan;
  };
  const auto first = loaded_plan(), second = loaded_plan(), third = loaded_plan();
  expect_unlocked("LaunchKernel", [&] { spyre::LaunchKernel(stream, first, tensors); });
  expect_unlocked("Launch", [&] { (void)stream.Launch(second.jobs()[0], tensors); });
  expect_unlocked("Prepare", [&] { (void)spyre::Prepare(stream, third.jobs()[0], tensors); });
}

TEST_F(Callbacks, OfStreamsHoldNoLock) {
  auto stream = context().stream();
  int launched = -1, replayed = -1;
  stream.LaunchHost([&] { launched = held; });
  stream.Synchronize(soon());
  EXPECT_EQ(launched, 0);
  spyre::StreamCapture capture(stream);
  capture.LaunchHost([&] { replayed = held; });
  const spyre::PreparedLaunches replay = capture.Instantiate();
  (void)replay.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(replayed, 0);
}

}  // namespace
