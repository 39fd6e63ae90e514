// SPDX-License-Identifier: Apache-2.0
// record_stream(): memory that a stream uses without naming it, against the real firmware core on a thread.
#include "host_driver/runtime/stream_records.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "host_driver/frontend/spyre_allocator.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;
constexpr std::uint64_t kBytes = 256 * wire::kKiB;

void end(FlexStream& on) { on.Synchronize(Clock::now() + test_bounds::kWork); }

struct Rig {
  test::NativeCard card{{.window_bytes = 32 * wire::kMiB}};
  std::unique_ptr<Runtime> runtime = std::make_unique<Runtime>(card.attach(), options());
  std::optional<SpyreAllocator> allocator{*runtime};
  FlexStream& stream = runtime->stream(1);
  FlexStream& other = runtime->stream(2);
  std::shared_ptr<const DeviceStorage> scratch = allocator->allocate(128);
  const std::uint64_t base = active();  // the correction slots, and that

  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB};
    options.staging.chunk_bytes = 64 * wire::kKiB;
    return options;
  }
  // Work that names `scratch` and nothing else.
  void work(FlexStream& on) { on.Launch(Job::fill(scratch->allocation_index(), 128, 1), {}); }
  // The last owner of `storage` goes while work of `stream`, in which it is recorded, is under way: the card is paused.
  void free_under_work(std::shared_ptr<const DeviceStorage> storage) {
    storage->record_stream(stream);
    card.pause();
    work(stream);
    storage.reset();
  }
  std::uint64_t active() const { return allocator->memory_stats().active_bytes.current; }
  std::uint64_t allocated() const { return allocator->memory_stats().allocated_bytes.current; }
};

TEST(RecordStream, MemoryIsNobodyElsesBeforeWhatWasLaunchedUntilItsFreeHasEnded) {
  Rig rig;
  rig.free_under_work(rig.allocator->allocate(kBytes));
  EXPECT_EQ(rig.allocated(), rig.base);
  EXPECT_EQ(rig.active(), rig.base + kBytes) << "free and in use";
  rig.work(rig.stream);  // after the free: not waited for
  rig.card.resume();
  end(rig.stream);
  EXPECT_EQ(rig.active(), rig.base);
}

TEST(RecordStream, AllChunksOfInterleavedMemoryAreKept) {
  Rig rig;
  auto large = rig.allocator->allocate(63 * wire::kMiB);
  auto other = rig.allocator->allocate(4 * wire::kMiB);  // another region
  large.reset();
  other.reset();
  auto storage = rig.allocator->allocate(kBytes, {.interleaved = true});
  ASSERT_EQ(rig.runtime->allocator().resolve_chunks(storage->allocation_index()).count, 2U);
  rig.free_under_work(std::move(storage));
  EXPECT_EQ(rig.active(), rig.base + kBytes) << "free and in use";
  rig.card.resume();
  end(rig.stream);
  EXPECT_EQ(rig.active(), rig.base);
}

TEST(RecordStream, LaunchesAfterTheFreeDoNotKeepIt) {
  Rig rig;
  auto storage = rig.allocator->allocate(kBytes);
  storage->record_stream(rig.stream);
  rig.work(rig.stream);
  end(rig.stream);
  rig.card.pause();
  rig.work(rig.other);  // another stream's
  storage.reset();
  EXPECT_EQ(rig.active(), rig.base) << "at once: what was launched on the stream had ended";
  rig.work(rig.stream);
  rig.card.resume();
  end(rig.stream);
  end(rig.other);
}

TEST(RecordStream, WithoutItOnlyLaunchesThatNameTheMemoryKeepIt) {
  Rig rig;
  auto storage = rig.allocator->allocate(kBytes);
  rig.card.pause();
  rig.work(rig.stream);
  storage.reset();
  EXPECT_EQ(rig.active(), rig.base);
  rig.card.resume();
  end(rig.stream);
}

TEST(RecordStream, EveryRecordedStreamIsWaitedForAndEachOnce) {
  Rig rig;
  auto storage = rig.allocator->allocate(kBytes);
  for (int i = 0; i < 3; ++i) {
    storage->record_stream(rig.stream);
    storage->record_stream(rig.other);
  }
  rig.card.pause();
  rig.work(rig.other);
  storage.reset();
  EXPECT_EQ(rig.active(), rig.base + kBytes);
  rig.card.resume();
  end(rig.other);
  EXPECT_EQ(rig.active(), rig.base);
}

TEST(RecordStream, AnAllocationWaitsForTheMemoryThatAStreamStillUses) {
  Rig rig;
  constexpr std::uint64_t kMost = 40 * wire::kMiB;  // no two of them fit into the region
  rig.allocator->set_memory_limit(rig.allocator->memory_stats().reserved_bytes.current);
  rig.free_under_work(rig.allocator->allocate(kMost));
  std::thread resumes([&] { rig.card.resume(); });
  const auto next = rig.allocator->try_allocate(kMost);
  resumes.join();  // bounded: it resumes the card once
  EXPECT_TRUE(next);
  end(rig.stream);
}

TEST(RecordStream, AStreamOfAnotherContextIsRefusedByName) {
  Rig rig;
  Runtime beside(rig.card.attach(2), Rig::options());
  auto storage = rig.allocator->allocate(kBytes);
  try {
    storage->record_stream(beside.default_stream());
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), "stream");
  }
  const auto none = rig.allocator->allocate(0);
  EXPECT_THROW(none->record_stream(beside.default_stream()), InvalidArgument);
  EXPECT_NO_THROW(none->record_stream(rig.stream));
  storage.reset();
  EXPECT_EQ(rig.active(), rig.base);
}

TEST(RecordStream, AResetOfTheStreamEndsWhatItKeeps) {
  Rig rig;
  rig.free_under_work(rig.allocator->allocate(kBytes));
  EXPECT_EQ(rig.active(), rig.base + kBytes);
  std::thread resumes([&] { rig.card.resume(); });
  rig.stream.Reset();
  resumes.join();  // bounded: it resumes the card once
  end(rig.stream);
  EXPECT_EQ(rig.active(), rig.base);
}

TEST(RecordStream, ADeadCardKeepsNothing) {
  Rig rig;
  rig.free_under_work(rig.allocator->allocate(kBytes));
  rig.card.die();
  EXPECT_THROW(end(rig.stream), StreamError);
  EXPECT_EQ(rig.active(), rig.base);
}

TEST(RecordStream, AStorageMayOutliveTheRuntimeThatItWasRecordedIn) {
  Rig rig;
  auto idle = rig.allocator->allocate(kBytes);
  auto busy = rig.allocator->allocate(kBytes);
  idle->record_stream(rig.stream);
  busy->record_stream(rig.stream);
  rig.card.pause();
  rig.work(rig.stream);
  busy.reset();  // the runtime ends with it
  rig.runtime.reset();
  idle.reset();
  rig.card.resume();
}

TEST(RecordStream, MemoryThatWentWithAResetIsRefused) {
  Rig rig;
  auto storage = rig.allocator->allocate(kBytes);
  auto kept = rig.allocator->allocate(kBytes);
  kept->record_stream(rig.stream);
  rig.runtime->shared_allocator()->forget_regions();  // as a reset of the function does
  try {
    storage->record_stream(rig.stream);
    FAIL();
  } catch (const InvalidAllocation& error) {
    EXPECT_EQ(error.reason(), InvalidAllocation::Reason::LostInReset);
  }
  kept.reset();
  EXPECT_EQ(rig.active(), 0U);
}

TEST(RecordStream, ManyStoragesEndWithOneLaunch) {
  constexpr int kMany = 200'000;  // deep enough for any stack, had the list been a recursion
  Rig rig;
  std::vector<std::shared_ptr<const DeviceStorage>> storages;
  for (int i = 0; i < kMany; ++i) {
    storages.push_back(rig.allocator->allocate(128));
    storages.back()->record_stream(rig.stream);
  }
  rig.card.pause();
  rig.work(rig.stream);
  storages.clear();
  EXPECT_EQ(rig.active(), rig.base + kMany * 128ULL);
  rig.card.resume();
  end(rig.stream);
  EXPECT_EQ(rig.active(), rig.base);
}

// For the thread sanitizer: streams end work while storages that were recorded on them are recorded again and freed.
TEST(RecordStreamThreads, RecordingFreeingAndEndingAtOnce) {
  Rig rig;
  std::vector<std::thread> threads;
  threads.reserve(4);
  auto shared = rig.allocator->allocate(kBytes);
  for (int k = 0; k < 3; ++k) {
    threads.emplace_back([&rig, &shared, k] {
      FlexStream& mine = k % 2 == 0 ? rig.stream : rig.other;
      for (int i = 0; i < 200; ++i) {
        const auto storage = rig.allocator->allocate(kBytes);
        shared->record_stream(i % 2 == 0 ? rig.stream : rig.other);
        storage->record_stream(mine);
        rig.work(mine);
        if (i % 20 == 0) end(mine);
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each does a number of things
  shared.reset();
  end(rig.stream);
  end(rig.other);
  EXPECT_EQ(rig.active(), rig.base);
}

}  // namespace
}  // namespace svp
