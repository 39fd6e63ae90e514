// SPDX-License-Identifier: Apache-2.0
// Prepared launches against the real firmware core on a thread: what they run, patches, errors, resets, and what holds
// what. Kernels: tests/device/api/prepared_test.cpp.
#include "host_driver/runtime/prepared_launches.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/device/device_source.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;
using wire::Status;

Clock::time_point soon() { return Clock::now() + test_bounds::kWork; }

// Opens the function again.
class SameFunction final : public DeviceSource {
 public:
  explicit SameFunction(test::NativeCard& card) : card_(card) {}
  Expected<std::unique_ptr<Device>> open() override { return Device::attach(card_.slot(1), card_.device_options()); }
  Expected<void> raise(ResetLevel, bool) override { return {}; }
  ResetLevel highest() const override { return ResetLevel::Function; }

 private:
  test::NativeCard& card_;
};

class Prepared : public testing::Test {
 protected:
  Prepared() : runtime_(std::make_unique<Runtime>(card_.attach(), options(), std::make_unique<SameFunction>(card_))) {}

  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    return options;
  }
  AllocationIndex allocate() { return runtime_->allocator().allocate(wire::kMiB); }
  static std::shared_ptr<PreparedLaunches> prepare(FlexStream& stream, const std::vector<Job>& jobs) {
    std::vector<LaunchRequest> requests;
    for (const Job& job : jobs) requests.push_back({.job = &job});
    return stream.Prepare(requests);
  }
  static std::uint64_t value(FlexStream& stream, AllocationIndex memory, std::uint64_t offset = 0) {
    std::uint64_t word = 0;
    stream.Launch(Job::from_device(&word, memory, sizeof word, offset), {});
    stream.Synchronize(soon());
    return word;
  }
  // What `call` throws as svp::Error.
  template <typename Call>
  static ErrorInfo refused(Call call) {
    try {
      call();
    } catch (const Error& error) {
      return error.info();
    }
    ADD_FAILURE() << "it was not refused";
    return {};
  }

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
  std::unique_ptr<Runtime> runtime_;
  FlexStream& a_ = runtime_->next_stream(StreamPriority::Low);
  FlexStream& b_ = runtime_->next_stream(StreamPriority::Low);
};

TEST_F(Prepared, LaunchesRunInOrderAgainAndAgainAsOneLaunch) {
  const auto memory = allocate();
  const auto both = prepare(a_, {Job::fill(memory, 256, 1), Job::fill(memory, 128, 2), Job::fill(memory, 128, 3, 128)});
  EXPECT_EQ(both->size(), 3u);
  EXPECT_EQ(both->blocks(), 3u);
  const std::uint64_t submitted = runtime_->device().statistics().submitted;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    EXPECT_EQ(a_.Launch(*both), i);
    a_.Synchronize(soon());
  }
  EXPECT_EQ(runtime_->device().statistics().submitted, submitted + 5) << "a block of one stick each";
  EXPECT_EQ(value(a_, memory), 2u);
  EXPECT_EQ(value(a_, memory, 128), 3u);
}

TEST_F(Prepared, AsManyBlocksAsWantedLieInSeveralBuffers) {
  const auto memory = allocate();
  std::vector<Job> jobs;
  for (std::uint64_t i = 0; i < 200; ++i) jobs.push_back(Job::fill(memory, 128, i + 1, i * 128));
  const auto all = prepare(a_, jobs);
  const std::uint64_t submitted = runtime_->device().statistics().submitted;
  a_.Launch(*all);
  a_.Synchronize(soon());
  EXPECT_EQ(runtime_->device().statistics().submitted, submitted + 4);
  for (const std::uint64_t i : {0u, 63u, 64u, 128u, 199u}) EXPECT_EQ(value(a_, memory, i * 128), i + 1);
}

TEST_F(Prepared, PinnedMemoryIsReadAndWrittenByEachLaunch) {
  const auto memory = allocate();
  const PinnedBuffer in = runtime_->host_memory().allocate(128), out = runtime_->host_memory().allocate(128);
  const auto through = prepare(a_, {Job::to_device(in.data(), memory, 128), Job::from_device(out.data(), memory, 128)});
  for (std::uint8_t i = 1; i <= 3; ++i) {
    std::memset(in.data(), i, 128);
    a_.Launch(*through);
    a_.Synchronize(soon());
    EXPECT_EQ(std::memcmp(in.data(), out.data(), 128), 0);
  }
}

TEST_F(Prepared, PageableMemoryAndNothingAreRefused) {
  std::array<std::byte, 128> pageable{};
  EXPECT_THROW(prepare(a_, {Job::to_device(pageable.data(), allocate(), 128)}), InvalidArgument);
  EXPECT_THROW(prepare(a_, {}), InvalidArgument);
}

TEST_F(Prepared, TheyAreOrderedWithOtherLaunchesAndByEvents) {
  const auto memory = allocate();
  const auto one = prepare(a_, {Job::fill(memory, 128, 1)});
  for (int i = 0; i < 20; ++i) {
    a_.Launch(Job::fill(memory, 128, 7), {});
    a_.Launch(*one);
    b_.Wait(a_.Record());
    b_.Launch(Job::fill(memory, 128, 9), {});
    EXPECT_EQ(value(b_, memory), 9u);
    a_.Launch(*one);
    EXPECT_EQ(value(a_, memory), 1u);
  }
}

TEST_F(Prepared, SeveralThreadsLaunchTheSame) {
  const auto memory = allocate();
  const auto fills = prepare(a_, {Job::fill(memory, 128, 1), Job::fill(memory, 128, 1, 128)});
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      FlexStream& stream = t % 2 == 0 ? a_ : b_;
      for (int i = 0; i < 100; ++i) {
        try {
          stream.Launch(*fills);
          // Its own is launched and gone while the others run.
          const auto own = prepare(stream, {Job::fill(memory, 128, 1, 4096 * (t + 1))});
          stream.Launch(*own);
        } catch (const Error&) {
          ++failed;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: launches do not block, admin commands are bounded
  a_.Synchronize(soon());
  b_.Synchronize(soon());
  EXPECT_EQ(failed, 0);
  for (std::uint64_t t = 0; t < 5; ++t) EXPECT_EQ(value(a_, memory, 4096 * t), 1u);
}

TEST_F(Prepared, TheCardsMemoryIsFreedWithThem) {
  const auto memory = allocate();
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<PreparedLaunches>> all;
    for (std::uint32_t i = 0; i < wire::kCommandBuffers; ++i) all.push_back(prepare(a_, {Job::fill(memory, 128, i)}));
    const auto full = refused([&] { (void)prepare(a_, {Job::fill(memory, 128, 1)}); });
    EXPECT_EQ(full.status, Status::OutOfCommandBuffers) << full.message;
    a_.Launch(*all.back());
    EXPECT_EQ(value(a_, memory), wire::kCommandBuffers - 1);
  }
}

TEST_F(Prepared, TheLastLaunchKeepsThemUntilItHasEnded) {
  const auto memory = allocate();
  const auto large = runtime_->allocator().allocate(8 * wire::kMiB);
  for (std::uint64_t i = 1; i <= 20; ++i) {
    a_.Launch(Job::fill(large, 8 * wire::kMiB, i), {});
    auto one = prepare(a_, {Job::fill(memory, 128, i)});
    a_.Launch(*one);
    one.reset();
    EXPECT_EQ(value(a_, memory), i);
  }
}

TEST_F(Prepared, TheyMayOutliveTheirContextAndEndWithWorkInFlight) {
  const auto memory = allocate();
  const auto large = runtime_->allocator().allocate(8 * wire::kMiB);
  const auto fills = prepare(a_, std::vector<Job>(10, Job::fill(large, 8 * wire::kMiB, 5)));
  const auto idle = prepare(a_, {Job::fill(memory, 128, 1)});
  for (int i = 0; i < 10; ++i) a_.Launch(*fills);
  runtime_.reset();
  EXPECT_EQ(idle->size(), 1u);
}

TEST_F(Prepared, ResetsOfStreamsKeepThem) {
  const auto memory = allocate();
  const auto one = prepare(a_, {Job::fill(memory, 128, 4)});
  a_.Launch(*one);
  a_.Reset();
  a_.Launch(*one);
  EXPECT_EQ(value(a_, memory), 4u);
  runtime_->recover(ResetLevel::Queue);
  a_.Launch(Job::fill(memory, 128, 1), {});
  a_.Launch(*one);
  EXPECT_EQ(value(a_, memory), 4u);
}

TEST_F(Prepared, AResetOfTheFunctionEndsThem) {
  const auto one = prepare(a_, {Job::fill(allocate(), 128, 4)});
  a_.Launch(*one);
  a_.Synchronize(soon());
  runtime_->recover(ResetLevel::Function);
  const auto ended = refused([&] { a_.Launch(*one); });
  EXPECT_EQ(ended.status, Status::StaleCommandBuffer) << ended.message;
  EXPECT_EQ(refused([&] { a_.Patch(*one, 0, {}); }).status, Status::StaleCommandBuffer);
  const auto memory = allocate();
  const auto again = prepare(a_, {Job::fill(memory, 128, 6)});
  a_.Launch(*again);
  EXPECT_EQ(value(a_, memory), 6u);
}

TEST_F(Prepared, OfAnotherContextTheyAreRefused) {
  const auto one = prepare(a_, {Job::fill(allocate(), 128, 4)});
  Runtime other(card_.attach(2), options());
  EXPECT_THROW(other.default_stream().Launch(*one), InvalidArgument);
  EXPECT_THROW(other.default_stream().Patch(*one, 0, {}), InvalidArgument);
}

TEST_F(Prepared, ALaunchOnAPoisonedStreamThrowsItsError) {
  const auto memory = allocate();
  const auto one = prepare(a_, {Job::fill(memory, 128, 4)});
  // This card runs no kernels.
  ExecutionPlan plan{{Job(CompiledKernel(test::kernel_without_symbols(), {{"M", 64}, {"N", 64}}))}};
  plan.load(*runtime_, b_);
  b_.Synchronize(soon());
  const std::array arguments{Argument{.allocation = memory, .shape = {64, 64}}};
  const std::array requests{LaunchRequest{.job = &plan.jobs()[0], .arguments = arguments}};
  const auto kernel = a_.Prepare(requests);
  a_.Launch(*kernel);
  try {
    a_.Synchronize(soon());
    ADD_FAILURE() << "a kernel ran";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.failure().job, "plain") << error.what();
    EXPECT_EQ(error.failure().status, Status::Unsupported);
  }
  EXPECT_THROW(a_.Launch(*one), StreamError);
  a_.Reset();
  a_.Launch(*one);
  EXPECT_EQ(value(a_, memory), 4u);
}

TEST_F(Prepared, APatchOfWhatIsNotThereIsRefused) {
  const auto one = prepare(a_, {Job::fill(allocate(), 128, 4)});
  EXPECT_THROW(a_.Patch(*one, 1, {}), InvalidArgument);
  const std::array arguments{Argument{.allocation = allocate(), .shape = {64}}};
  EXPECT_THROW(a_.Patch(*one, 0, arguments), InvalidArgument) << "a transfer takes no operands";
}

}  // namespace
}  // namespace svp
