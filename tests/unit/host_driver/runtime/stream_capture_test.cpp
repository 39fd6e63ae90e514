// SPDX-License-Identifier: Apache-2.0
// Captures begun and ended on a stream, against the real firmware core on a thread: what is collected, and that misuse
// is refused and leaves the stream usable.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/device/device_source.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/support/gate.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using Clock = FlexStream::Clock;

Clock::time_point soon() { return Clock::now() + test_bounds::kWork; }

class SameFunctionAgain final : public DeviceSource {
 public:
  explicit SameFunctionAgain(test::NativeCard& card) : card_(card) {}
  Expected<std::unique_ptr<Device>> open() override { return Device::attach(card_.slot(1), card_.device_options()); }
  Expected<void> raise(ResetLevel, bool) override { return {}; }
  ResetLevel highest() const override { return ResetLevel::Function; }

 private:
  test::NativeCard& card_;
};

class StreamCaptures : public testing::Test {
 protected:
  StreamCaptures()
      : runtime_(std::make_unique<Runtime>(card_.attach(), options(), std::make_unique<SameFunctionAgain>(card_))) {}

  static RuntimeOptions options() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    return options;
  }
  AllocationIndex allocate() { return runtime_->allocator().allocate(wire::kMiB); }
  static std::uint64_t fill(FlexStream& stream, AllocationIndex memory, std::uint64_t pattern,
                            const LaunchOptions& launch = {}) {
    return stream.Launch(Job::fill(memory, 128, pattern), {}, launch);
  }
  static std::uint64_t value(FlexStream& stream, AllocationIndex memory) {
    std::uint64_t word = 0;
    stream.Launch(Job::from_device(&word, memory, sizeof word), {});
    stream.Synchronize(soon());
    return word;
  }
  // `call` throws Error whose text has `text`, and the capture under way on the stream goes on.
  template <typename Call>
  static void refused(const std::string& text, Call call) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      EXPECT_FALSE(error.info().next_step.empty());
    }
  }
  static void on_another_thread(const std::function<void()>& body) {
    std::thread(body).join();  // bounded: the body does not wait
  }

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
  std::unique_ptr<Runtime> runtime_;
  FlexStream& a_ = runtime_->next_stream(StreamPriority::Low);
  FlexStream& b_ = runtime_->next_stream(StreamPriority::Low);
};

TEST_F(StreamCaptures, WhatIsLaunchedIsCollectedAndRunByTheReplay) {
  const auto memory = allocate();
  fill(a_, memory, 1);
  const PinnedBuffer out = runtime_->host_memory().allocate(128);
  std::vector<std::uint64_t> seen;
  a_.BeginCapture();
  EXPECT_EQ(fill(a_, memory, 2), 0u) << "numbers for Patch()";
  EXPECT_EQ(a_.Launch(Job::from_device(out.data(), memory, 128), {}), 1u);
  a_.LaunchHost([&] {
    std::uint64_t word = 0;
    std::memcpy(&word, out.data(), sizeof word);
    seen.push_back(word);
  });
  const auto middle = a_.RecordInCapture();
  const auto job = Job::fill(memory, 128, 3), again = Job::fill(memory, 128, 4);
  const std::array requests{LaunchRequest{.job = &job}, LaunchRequest{.job = &again}};
  EXPECT_EQ(a_.Launch(requests), 3u);
  const auto graph = a_.EndCapture();
  EXPECT_EQ(value(a_, memory), 1u) << "nothing of it ran";
  EXPECT_EQ(middle->latest(), nullptr);
  EXPECT_EQ(graph->size(), 4u);
  EXPECT_EQ(graph->events(), 1u);
  for (int i = 0; i < 3; ++i) a_.Launch(*graph);
  EXPECT_EQ(value(a_, memory), 4u);
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{2, 2, 2}));
  middle->latest()->Synchronize(soon());
}

TEST_F(StreamCaptures, TwoStreamsCaptureForEachOther) {
  const auto memory = allocate();
  a_.BeginCapture();
  b_.BeginCapture();
  fill(a_, memory, 5);
  const auto written = a_.RecordInCapture();
  EXPECT_TRUE(b_.WaitInCapture(written));
  fill(b_, memory, 6);
  const auto first = a_.EndCapture(), second = b_.EndCapture();
  for (int i = 0; i < 20; ++i) {
    a_.Launch(*first);
    b_.Launch(*second);
    EXPECT_EQ(value(b_, memory), 6u);
  }
  EXPECT_FALSE(b_.WaitInCapture(written)) << "it launches again";
}

TEST_F(StreamCaptures, MemoryThatIsReleasedMeanwhileIsHeld) {
  auto& allocator = runtime_->allocator();
  const auto memory = allocate();
  a_.BeginCapture();
  fill(a_, memory, 7);
  allocator.deallocate(memory);
  auto graph = a_.EndCapture();
  a_.Launch(*graph);
  a_.Synchronize(soon());
  graph.reset();
  EXPECT_THROW(fill(a_, memory, 7), InvalidAllocation);
}

TEST_F(StreamCaptures, ABarrierHoldsItsLaunchOfTheReplay) {
  const auto memory = allocate();
  a_.BeginCapture();
  fill(a_, memory, 1);
  a_.PipelineBarrier();
  fill(a_, memory, 2);
  fill(a_, memory, 3, {.pipeline_barrier = true});
  const auto graph = a_.EndCapture();
  EXPECT_EQ(a_.Launch(*graph), 3u) << "a launch for each barrier";
  EXPECT_EQ(value(a_, memory), 3u);
}

TEST_F(StreamCaptures, WhatWaitsOrLaunchesOtherwiseIsRefused) {
  const auto memory = allocate();
  const auto other = [&] {
    const auto job = Job::fill(memory, 128, 1);
    const LaunchRequest request{.job = &job};
    return a_.Prepare(std::span(&request, 1));
  }();
  const auto capture = a_.BeginCapture();
  fill(a_, memory, 2);
  refused("Synchronize() cannot be captured", [&] { a_.Synchronize(); });
  refused("Synchronize() cannot be captured", [&] { a_.Synchronize(soon()); });
  refused("Query() cannot be captured", [&] { (void)a_.Query(); });
  refused("under way already", [&] { a_.BeginCapture(); });
  refused("cannot be captured", [&] { a_.Launch(*other); });
  refused("cannot be captured", [&] { a_.Patch(*other, 0, {}); });
  refused("cannot be captured", [&] { (void)a_.Record(); });
  refused("cannot be captured", [&] { runtime_->synchronize(); });
  std::array<std::byte, 128> pageable{};
  EXPECT_THROW(a_.Launch(Job::to_device(pageable.data(), memory, 128), {}), InvalidArgument);
  EXPECT_THROW(a_.Launch(Job::fill(static_cast<AllocationIndex>(12345), 128, 1), {}), InvalidAllocation);
  EXPECT_THROW(a_.LaunchHost({}), InvalidArgument);
  EXPECT_THROW(a_.Wait(spyre::SharedEvent{}), InvalidArgument);
  const auto graph = a_.EndCapture();
  EXPECT_EQ(graph->size(), 1u) << "nothing of what was refused";
  a_.Launch(*graph);
  EXPECT_EQ(value(a_, memory), 2u);
  EXPECT_FALSE(a_.AbandonCapture(capture)) << "it has ended";
}

TEST_F(StreamCaptures, OfSeveralLaunchesAllOrNoneAreCollected) {
  const auto memory = allocate();
  std::array<std::byte, 128> pageable{};
  const auto good = Job::fill(memory, 128, 8), bad = Job::to_device(pageable.data(), memory, 128);
  const std::array requests{LaunchRequest{.job = &good}, LaunchRequest{.job = &bad}};
  a_.BeginCapture();
  fill(a_, memory, 2);
  EXPECT_THROW(a_.Launch(requests), InvalidArgument);
  fill(a_, memory, 3);
  const auto graph = a_.EndCapture();
  EXPECT_EQ(graph->size(), 2u);
  EXPECT_EQ(graph->blocks(), 2u);
  a_.Launch(*graph);
  EXPECT_EQ(value(a_, memory), 3u);
}

TEST_F(StreamCaptures, OtherThreadsAreRefused) {
  const auto memory = allocate();
  const auto capture = a_.BeginCapture();
  on_another_thread([&] {
    refused("another thread captures it", [&] { fill(a_, memory, 1); });
    refused("another thread captures it", [&] { a_.LaunchHost([] {}); });
    refused("another thread captures it", [&] { a_.Synchronize(); });
    refused("another thread captures it", [&] { (void)a_.Query(); });
    refused("another thread captures it", [&] { a_.BeginCapture(); });
    refused("another thread captures it", [&] { (void)a_.EndCapture(); });
    refused("another thread captures it", [&] { a_.Reset(); });
    refused("another thread captures it", [&] { (void)a_.RecordInCapture(); });
    fill(b_, memory, 9);
  });
  EXPECT_EQ(value(b_, memory), 9u);
  fill(a_, memory, 4);
  a_.Launch(*a_.EndCapture() /* kept by its launch */);
  on_another_thread([&] { EXPECT_EQ(value(a_, memory), 4u); });
  (void)capture;
}

TEST_F(StreamCaptures, WithoutACaptureOrWithoutStepsThereIsNoEnd) {
  refused("no capture is under way", [&] { (void)a_.EndCapture(); });
  a_.BeginCapture();
  EXPECT_THROW((void)a_.EndCapture(), InvalidArgument);
  refused("no capture is under way", [&] { (void)a_.EndCapture(); });
  EXPECT_EQ(a_.RecordInCapture(), nullptr);
  const auto memory = allocate();
  fill(a_, memory, 3);
  EXPECT_EQ(value(a_, memory), 3u);
}

TEST_F(StreamCaptures, AnAbandonedOneLeavesNothing) {
  const auto memory = allocate();
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> held = token;
  const auto capture = a_.BeginCapture();
  fill(a_, memory, 5, {.keep_alive = token});
  token.reset();
  EXPECT_FALSE(held.expired());
  EXPECT_TRUE(a_.AbandonCapture(capture));
  a_.Synchronize(soon());
  a_.BeginCapture();
  fill(a_, memory, 6);
  a_.Reset();  // abandons it as well
  refused("no capture is under way", [&] { (void)a_.EndCapture(); });
  EXPECT_EQ(value(a_, memory), 0u);
}

TEST_F(StreamCaptures, AnEventOfAContextThatHasEndedIsRefused) {
  std::shared_ptr<Event> dead;
  {
    Runtime other(card_.attach(2), options());
    dead = other.default_stream().Record();
  }
  const auto memory = allocate();
  a_.BeginCapture();
  refused("has ended", [&] { a_.Wait(dead); });
  a_.Wait(std::shared_ptr<Event>{});
  fill(a_, memory, 1);
  EXPECT_EQ(a_.Launch(*a_.EndCapture()), 1u);
}

TEST_F(StreamCaptures, AFailureOfWhatWasLaunchedBeforeIsTold) {
  const auto memory = allocate();
  a_.LaunchHost([] { throw std::runtime_error("no"); });
  EXPECT_THROW(a_.Synchronize(soon()), StreamError);
  EXPECT_THROW(a_.BeginCapture(), StreamError);
  a_.Reset();
  test::Gate gate;
  a_.LaunchHost([&] {
    gate.pass();
    throw std::runtime_error("no");
  });
  const auto event = a_.Record();
  a_.BeginCapture();
  fill(a_, memory, 1);
  gate.open();
  EXPECT_THROW(event->Synchronize(soon()), Error) << "an event from before may be waited for";
  EXPECT_THROW(fill(a_, memory, 2), StreamError);
  EXPECT_THROW((void)a_.EndCapture(), StreamError);
  a_.Reset();
  fill(a_, memory, 3);
  EXPECT_EQ(value(a_, memory), 3u);
}

TEST_F(StreamCaptures, ARecoveryEndsTheCapture) {
  for (const ResetLevel level : {ResetLevel::Queue, ResetLevel::Function}) {
    auto memory = allocate();
    a_.BeginCapture();
    fill(a_, memory, 1);
    runtime_->recover(level);
    refused("was recovered since the capture began", [&] { fill(a_, memory, 2); });
    refused("was recovered since the capture began", [&] { a_.LaunchHost([] {}); });
    refused("was recovered since the capture began", [&] { (void)a_.EndCapture(); });
    memory = allocate();
    a_.BeginCapture();
    fill(a_, memory, 4);
    const auto graph = a_.EndCapture();
    a_.Launch(*graph);
    EXPECT_EQ(value(a_, memory), 4u);
  }
}

TEST_F(StreamCaptures, AStreamResetOfARecoveryLeavesIt) {
  const auto memory = allocate();
  a_.BeginCapture();
  fill(a_, memory, 1);
  b_.LaunchHost([] { throw std::runtime_error("no"); });
  EXPECT_THROW(b_.Synchronize(soon()), StreamError);
  runtime_->recover(ResetLevel::Stream);
  fill(a_, memory, 2);
  a_.Launch(*a_.EndCapture());
  EXPECT_EQ(value(a_, memory), 2u);
}

TEST_F(StreamCaptures, TheEndOfTheContextAbandonsIt) {
  const auto memory = allocate();
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> held = token;
  a_.BeginCapture();
  fill(a_, memory, 1, {.keep_alive = token});
  a_.LaunchHost([token] {});
  token.reset();
  runtime_.reset();
  EXPECT_TRUE(held.expired());
}

}  // namespace
}  // namespace svp
