// SPDX-License-Identifier: Apache-2.0
// The runtime and its streams.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "tests/bounds.hpp"
#include "tests/conformance/flex/flex_runtime.hpp"

namespace flex_test {
namespace {

using testing::HasSubstr;

class FlexContext : public FlexRuntime {};

TEST_F(FlexContext, ThereAreAsManyDevicesAsItTakes) { EXPECT_GT(flex::getNumDevices(), device_of_rank()); }

TEST_F(FlexContext, TheSameDeviceAgainIsTheSameRuntime) {
  std::shared_ptr<flex::RuntimeContext> again;
  const flex::Status status = flex::initializeRuntime(&again, device_of_rank());
  EXPECT_EQ(again, runtime);
  EXPECT_EQ(flex::getFlexRuntimeContext(), runtime);
  std::ostringstream text;
  text << status;
  EXPECT_THAT(text.str(), HasSubstr("runtime of "));
}

TEST_F(FlexContext, AProcessHasOneDevice) {
  std::shared_ptr<flex::RuntimeContext> other;
  EXPECT_THAT(what_of([&] { flex::initializeRuntime(&other, device_of_rank() + 1); }), HasSubstr("one at a time"));
  EXPECT_EQ(other, nullptr);
}

TEST_F(FlexContext, StreamsAreDistinctUntilAllAreHandedOut) {
  flex::RuntimeStream* const first = runtime->getDefaultStream();
  EXPECT_EQ(runtime->getDefaultStream(), first);
  std::set<flex::RuntimeStream*> streams{first};
  for (int i = 0; i < 40; ++i) streams.insert(runtime->createStream(flex::RuntimeStreamPriority::NORMAL));
  for (int i = 0; i < 32; ++i) streams.insert(runtime->createStream(flex::RuntimeStreamPriority::HIGH));
  EXPECT_EQ(streams.size(), 73U);
  EXPECT_TRUE(streams.contains(runtime->createStream(flex::RuntimeStreamPriority::LOW)));
  for (flex::RuntimeStream* stream : streams) {
    stream->synchronize();
    EXPECT_TRUE(stream->query());
    EXPECT_FALSE(stream->needsShutdown());
  }
  EXPECT_FALSE(runtime->hasStreamError());
}

TEST_F(FlexContext, EndsWithItsLastOwnerAndCanBeOpenedAgain) {
  flex::RuntimeStream* const old_stream = runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
  auto old_allocator = runtime->getAllocator();
  auto memory = tensor(4096);
  runtime.reset();
  EXPECT_THAT(what_of([] { (void)flex::getFlexRuntimeContext(); }), HasSubstr("initializeRuntime()"));
  EXPECT_THAT(what_of([&] { old_stream->synchronize(); }), HasSubstr("has ended"));
  EXPECT_THAT(what_of([&] { (void)old_allocator->allocate(128, tensor_memory()); }), HasSubstr("has ended"));
  EXPECT_TRUE(old_stream->needsShutdown());

  open();
  const auto bytes = counted_bytes(4096);
  EXPECT_THAT(what_of([&] { send(stream(), bytes.data(), bytes.size(), memory); }), HasSubstr("has ended"));
  memory = tensor(4096);
  send(stream(), bytes.data(), bytes.size(), memory);
  EXPECT_EQ(content(memory), bytes);
}

class FlexContextThatEnds : public FlexRuntime {
 protected:
  // A call that is inside of the old runtime holds its device for as long as its end waits for such calls (2 s).
  // Whether opening it again waits as well; nothing: the machine took so long that the end may have given up.
  static std::optional<bool> opening_waits_for_a_call() {
    std::promise<void> inside;
    std::promise<void> let_go;
    const auto old_allocator = runtime->getAllocator();
    flex::RuntimeStream* const old_stream = runtime->getDefaultStream();
    old_allocator->registerMemoryPressureCallback([&](std::unique_lock<std::mutex>& lock) {
      lock.unlock();
      inside.set_value();
      let_go.get_future().wait();  // bounded: this function sets it
      lock.lock();
    });
    std::thread asking([&] {
      EXPECT_THAT(what_of([&] { (void)old_allocator->allocate(std::size_t{1} << 60, tensor_memory()); }),
                  HasSubstr("out of memory"));
    });
    inside.get_future().wait();  // bounded: the allocator calls it once
    const auto began = Clock::now();
    std::thread ending([] { runtime.reset(); });
    while (!old_stream->needsShutdown()) std::this_thread::yield();  // bounded: `ending` does nothing before

    auto opened = std::async(std::launch::async, [] {
      open();
      return Clock::now();
    });
    const bool early = opened.wait_for(test_bounds::kRest / 2) == std::future_status::ready;
    let_go.set_value();
    const auto opened_at = opened.get();  // bounded: opening waits for kCloseEnd and a boot at most
    ending.join();                        // bounded: the end of a runtime is
    asking.join();                        // bounded: its callback has been let go
    if (early && opened_at - began >= 2 * test_bounds::kRest) return std::nullopt;
    return !early;
  }

 private:
  using Clock = std::chrono::steady_clock;
};

TEST_F(FlexContextThatEnds, IsOpenedAgainWhenItHasLetGoOfItsDevice) {
  std::optional<bool> waits;
  for (const auto end = std::chrono::steady_clock::now() + test_bounds::kWork;
       !waits && std::chrono::steady_clock::now() < end;) {
    waits = opening_waits_for_a_call();
  }
  ASSERT_TRUE(waits) << "no round was in time";
  EXPECT_TRUE(*waits) << "the device was opened a second time";
  const auto bytes = counted_bytes(4096);
  const auto memory = tensor(4096);
  send(stream(), bytes.data(), bytes.size(), memory);
  EXPECT_EQ(content(memory), bytes);
}

TEST_F(FlexContext, MistakesAreErrorsThatSayWhatToDo) {
  EXPECT_THAT(what_of([] { flex::initializeRuntime(nullptr, 0); }), HasSubstr("give the address of a pointer"));
  EXPECT_THAT(what_of([] { stream().launchOperationH2D(nullptr); }), HasSubstr("create function"));
  auto* params = flex::createHostCallbackParams({}, nullptr, false);
  EXPECT_THAT(what_of([&] { stream().launchOperationHostCallback(params); }), HasSubstr("give a function"));
  flex::destroyHostCallbackParams(params);
}

const char* name_of(DataFormats format) {
  switch (format) {
    case DataFormats::IEEE_FP32: return "fp32";
    default: DT_ERROR("no such format");  // as torch-spyre ends a function that returns a value
  }
}

TEST(FlexErrors, DtErrorThrowsItsText) {
  EXPECT_STREQ(name_of(DataFormats::IEEE_FP32), "fp32");
  EXPECT_EQ(what_of([] { (void)name_of(DataFormats::INVALID); }), "no such format");
}

}  // namespace
}  // namespace flex_test
