// SPDX-License-Identifier: Apache-2.0
// The runtime and its streams.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

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
