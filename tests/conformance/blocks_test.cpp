// SPDX-License-Identifier: Apache-2.0
// Control blocks: each ends exactly once, with what it was given, in the order of its stream.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "tests/conformance/provider.hpp"

namespace svp::conformance {
namespace {

using test::Blocks;
using test::CompletionCounter;
using test::CompletionRecorder;
using test::submit_nops;

TEST(Blocks, ABlockEndsExactlyOnceAndItsFieldsComeBack) {
  const auto device = provider().open();
  CompletionRecorder recorder;
  const auto block = Blocks::nop(77);
  const ControlBlockRequest request{&block, &recorder};
  ASSERT_EQ(device->submit(0, {&request, 1}).value(), 1u);
  ASSERT_EQ(device->wait_until([&] { return recorder.ended() == 1; }, test::soon()), WaitStatus::Done);
  const auto completion = recorder.all().front();
  EXPECT_EQ(completion.outcome, wire::Outcome::Ok);
  EXPECT_EQ(completion.cookie, 77u);
  EXPECT_EQ(completion.sequence, 1u);
  EXPECT_NE(completion.end_time, 0u);
  EXPECT_EQ(device->outstanding(0), 0u);
}

TEST(Blocks, WithAndWithoutOptionalFeaturesTheResultIsTheSame) {
  for (const std::uint64_t features :
       {std::uint64_t{0}, wire::kFeatureEventIdx, wire::kFeatureControlBlockCrc, wire::kOptionalFeatures}) {
    OpenOptions options;
    options.optional_features = features;
    const auto device = provider().open(options);
    EXPECT_EQ(device->features() & wire::kOptionalFeatures, features);
    CompletionCounter counter;
    for (std::uint64_t sent = 0; sent < 2000;) {
      sent += value_or_throw(submit_nops(*device, 0, counter, std::min<std::size_t>(7, 2000 - sent)));
      (void)device->wait_until([&] { return counter.ended() + 64 > sent; }, test::soon());
    }
    EXPECT_EQ(device->wait_until([&] { return counter.ended() == 2000; }, test::soon()), WaitStatus::Done);
    EXPECT_EQ(counter.not_ok(), 0u);
  }
}

TEST(Blocks, BlocksOfAStreamEndInTheOrderOfSubmission) {
  const auto device = provider().open();
  CompletionRecorder recorder;
  std::uint64_t next = 0;
  while (next < 1000) {
    const auto block = Blocks::nop(next);
    const ControlBlockRequest request{&block, &recorder};
    next += device->submit(0, {&request, 1}).value();
  }
  ASSERT_EQ(device->wait_until([&] { return recorder.ended() == 1000; }, test::soon()), WaitStatus::Done);
  const auto all = recorder.all();
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].cookie, i);
    ASSERT_EQ(all[i].sequence, i + 1);
  }
}

class Refiller final : public CreditSink {
 public:
  Refiller(Device& device, CompletionSink& sink, std::size_t total) : device_(device), sink_(sink), left_(total) {}
  void on_credits(std::uint32_t stream) noexcept override {
    const std::lock_guard lock(mutex_);  // the call may come before the submit() that was cut short has returned
    const auto block = Blocks::nop();
    const std::vector<ControlBlockRequest> requests(std::min<std::size_t>(left_, 400), {&block, &sink_});
    left_ -= device_.submit(stream, requests).value_or(0);
  }

 private:
  Device& device_;
  CompletionSink& sink_;
  std::mutex mutex_;
  std::size_t left_;
};

// The pending list of the layer above drains by itself: no thread waits.
TEST(Blocks, CreditsComeBackThroughTheEventLoopWhenNobodyWaits) {
  const auto device = provider().open();
  CompletionCounter counter;
  Refiller refiller(*device, counter, 5000);
  device->set_credit_sink(0, &refiller);
  refiller.on_credits(0);
  for (const auto end = test::soon(); counter.ended() < 5000 && Device::Clock::now() < end;) std::this_thread::yield();
  EXPECT_EQ(counter.ended(), 5000u);
  EXPECT_EQ(counter.not_ok(), 0u);
  EXPECT_GT(device->statistics().loop_reaps, 0u);
  device->set_credit_sink(0, nullptr);
}

TEST(Blocks, ManyThreadsOnManyStreamsAllFinish) {
  const auto device = provider().open();
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> bad{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const auto stream = device->open_stream(t % 2 != 0 ? StreamPriority::High : StreamPriority::Low);
      if (!stream) {
        bad.fetch_add(1);
        return;
      }
      CompletionCounter counter;
      std::uint64_t sent = 0;
      for (int round = 0; round < 200; ++round) {
        sent += value_or_throw(submit_nops(*device, *stream, counter, 1u + static_cast<unsigned>(round) % 5u));
        if (device->wait_until([&] { return counter.ended() == sent; }, test::soon()) != WaitStatus::Done)
          bad.fetch_add(1);
      }
      if (counter.not_ok() != 0 || !device->close_stream(*stream)) bad.fetch_add(1);
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each waits until soon() at most
  EXPECT_EQ(bad.load(), 0u);
}

}  // namespace
}  // namespace svp::conformance
