// SPDX-License-Identifier: Apache-2.0
// Every allocation of the driver under load fails once: launches, staged transfers, failures, resets, the queue reset,
// the end. Each launch ends exactly once, every error is typed, the process goes on. (F1 does the same for opening.)
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>

#include "host_driver/ras/log.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

// Its runtime has an operator new of its own (host_driver/faults/allocation_hook.cpp).
#if defined(__has_feature) && __has_feature(thread_sanitizer)
constexpr bool kAllocationsCanFail = false;
#else
constexpr bool kAllocationsCanFail = true;
#endif

constexpr std::uint64_t kFarTooMany = 3000;

class Ends final : public LaunchObserver {
 public:
  void on_block(const BlockRecord&) noexcept override {}
  void on_launch_ended(std::uint64_t, wire::Outcome) noexcept override { ++ended; }
  std::atomic<unsigned> ended{0};
};

struct Load {
  test::NativeCard& card;
  std::shared_ptr<HostFaults> injector = std::make_shared<HostFaults>();
  Ends ends{};
  unsigned launched = 0;

  template <typename Call>
  bool typed(Call&& call) {
    const DriverCall marked(injector.get());
    try {
      call();
      return true;
    } catch (const Error& error) {
      const DriverCall told(nullptr);
      EXPECT_FALSE(error.info().message.empty());
      EXPECT_FALSE(error.info().next_step.empty()) << error.what();
    } catch (const std::bad_alloc&) {
      return false;  // of the caller's own thread: nothing was done
    }
    return false;
  }
  void launch(FlexStream& stream, const Job& job) {
    if (typed([&] { stream.Launch(job, {}, {.observer = &ends}); })) ++launched;
  }

  void run(std::uint64_t failing) {
    std::vector<std::byte> data(300 * wire::kKiB),
        back(data.size());  // outlive the runtime, which ends with work under way
    DeviceOptions options;
    options.faults.injector = injector;
    RuntimeOptions how;
    how.allocator.region_bytes = {64 * wire::kMiB};
    how.staging.chunk_bytes = 64 * wire::kKiB;
    how.recovery.policy = failing % 2 == 0 ? RecoveryPolicy::FailFast : RecoveryPolicy::Manual;
    Runtime runtime(card.attach(1, std::move(options)), how);
    const auto memory = runtime.allocator().allocate(wire::kMiB);
    FlexStream& stream = runtime.default_stream();
    FlexStream& other = runtime.stream(1);
    const Job in = Job::to_device(data.data(), memory, data.size());
    const Job out = Job::from_device(back.data(), memory, back.size());
    const Job fill = Job::fill(memory, 128, 1);
    ASSERT_TRUE(injector->arm({.point = fault::Point::Allocation, .trigger = wire::occurrences(failing)}));
    for (int i = 0; i < 3; ++i) {
      launch(stream, in);
      launch(stream, fill);
      launch(other, out);
    }
    typed([&] { stream.Synchronize(FlexStream::Clock::now() + test_bounds::kWork); });
    for (int i = 0; i < 100; ++i) launch(other, fill);
    typed([&] { other.Reset(); });
    typed([&] { runtime.recover(ResetLevel::Queue); });
    launch(stream, in);
    for (int i = 0; i < 3; ++i) launch(other, out);
  }
};

TEST(Allocation, EachOneUnderLoadMayFailAndEveryLaunchEndsOnce) {
  if (!kAllocationsCanFail) GTEST_SKIP() << "the thread sanitizer's operator new stays";
  test::NativeCard card{{.window_bytes = 32 * wire::kMiB}};
  std::uint64_t fired = 0, quiet = 0;
  // Some are made now and then only: the end is where several in a row do not fire.
  for (std::uint64_t failing = 1; failing < kFarTooMany && quiet < 3; ++failing) {
    Load load{card};
    load.run(failing);
    ASSERT_EQ(load.ends.ended, load.launched) << "allocation " << failing;
    const bool hit = load.injector->evidence(0).fired != 0;
    quiet = hit ? 0 : quiet + 1;
    fired += hit ? 1 : 0;
  }
  EXPECT_GT(fired, 10u) << "the hook is not linked";
  RecordProperty("allocations", static_cast<int>(fired));
}

// The card dies, with work under way, and there is no memory to say so.
TEST(Allocation, ADeathIsToldWithoutMemory) {
  if (!kAllocationsCanFail) GTEST_SKIP() << "the thread sanitizer's operator new stays";
  for (std::uint64_t first = 1; first <= 12; ++first) {
    test::NativeCard card{{.window_bytes = 32 * wire::kMiB}};
    DeviceOptions options;
    options.faults.injector = std::make_shared<HostFaults>();
    const auto injector = options.faults.injector;
    RuntimeOptions how;
    how.allocator.region_bytes = {64 * wire::kMiB};
    Runtime runtime(card.attach(1, std::move(options)), how);
    const auto memory = runtime.allocator().allocate(wire::kMiB);
    Ends ends;
    card.pause();
    for (int i = 0; i < 200; ++i) {
      runtime.default_stream().Launch(Job::fill(memory, 128, 1), {}, {.observer = &ends});
    }
    // From the n-th on, all of them.
    ASSERT_TRUE(injector->arm({.point = fault::Point::Allocation, .trigger = wire::occurrences(first, 1, 0)}));
    card.die();
    const auto end = FlexStream::Clock::now() + test_bounds::kWork;
    while (runtime.device().health() != Health::Dead && FlexStream::Clock::now() < end) std::this_thread::yield();
    injector->disarm_all();
    try {
      runtime.default_stream().Synchronize(end);
      ADD_FAILURE() << "the death was not told";
    } catch (const StreamError& error) {
      EXPECT_FALSE(error.info().next_step.empty()) << error.what();
    }
    EXPECT_EQ(ends.ended, 200u);
  }
}

// In a process of its own, whose log nobody has made yet.
TEST(AllocationDeathTest, TheFirstRecordOfAProcessNeedsNoMemory) {
  if (!kAllocationsCanFail) GTEST_SKIP() << "the thread sanitizer's operator new stays";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto report_twice = [] {
    HostFaults injector;
    const ErrorInfo error{.layer = Layer::Driver,
                          .source = "a source whose name is longer than a string holds without memory",
                          .outcome = wire::Outcome::Lost,
                          .recoverable = false,
                          .next_step = "look at the next record",
                          .message = "the record before this one found no memory"};
    if (!injector.arm({.point = fault::Point::Allocation, .trigger = wire::occurrences(1, 1, 0)})) std::exit(2);
    {
      const DriverCall marked(&injector);
      ras::report(error, {});
    }
    injector.disarm_all();
    ras::report(error, {});
    const ras::Log& log = ras::Log::process();
    std::exit(log.lost() == 1 && log.occurred(ras::code_of(error)) == 1 ? 0 : 1);
  };
  EXPECT_EXIT(report_twice(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace svp
