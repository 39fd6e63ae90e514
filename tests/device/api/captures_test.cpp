// SPDX-License-Identifier: Apache-2.0
// Events and functions of the host in captures, on a booted card: order shown by results, errors, and what replays
// leave.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <span>
#include <spyre/spyre.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/device/api/api_card.hpp"
#include "tests/support/gate.hpp"

namespace {

using spyre::SpyreTensor;

class ApiCaptures : public ApiAddition {
 protected:
  void SetUp() override { plan_ = addition(); }
  spyre::Job added() { return plan_.jobs()[0]; }
  static spyre::StreamFailure failure_of(spyre::SpyreStream stream) {
    try {
      stream.Synchronize(soon());
    } catch (const spyre::StreamError& error) {
      return error.failure();
    }
    ADD_FAILURE() << "the stream did not fail";
    return {};
  }

 private:
  spyre::ExecutionPlan plan_;
};

TEST_F(ApiCaptures, ReplaysOfTwoStreamsAreOrderedByEventsOfCaptures) {
  const auto job = added();
  auto a = context().stream(), b = context().stream();
  const SpyreTensor one = filled(1), left = filled(0), right = filled(0);
  // right = left + 1 on one stream, left = right + 1 on the other: each needs what the other has just written.
  spyre::StreamCapture there(a), back(b);
  there.Launch(job, std::array{left, one, right});
  const auto went = there.Record();
  back.Wait(went);
  back.Launch(job, std::array{right, one, left});
  const auto returned = back.Record();
  spyre::StreamCapture again(a);
  again.Wait(returned);
  again.Add(there);
  const auto first = again.Instantiate(), second = back.Instantiate();
  EXPECT_FALSE(went.recorded());
  for (int i = 0; i < 50; ++i) {
    first.Launch(a);
    second.Launch(b);
  }
  EXPECT_TRUE(went.recorded());
  b.Synchronize(soon());
  a.Synchronize(soon());
  EXPECT_EQ(first_of(left), 100.0F);
  EXPECT_GE(returned.since(went).count(), 0);
}

TEST_F(ApiCaptures, SlotsOrderThreadsThatReplayTheSame) {
  const auto job = added();
  auto shared = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0), other = filled(0);
  spyre::StreamCapture capture(shared);
  EXPECT_EQ(capture.WaitSlot(), 0u);
  capture.Launch(job, std::array{sum, one, other});
  capture.Launch(job, std::array{other, one, sum});
  (void)capture.Record();
  const auto graph = capture.Instantiate();
  EXPECT_EQ(graph.slots(), 1u);
  EXPECT_EQ(graph.events(), 1u);
  // A chain through the threads: each replay waits for the one before, on whatever stream that was.
  std::mutex mutex;
  spyre::Event last;
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  threads.reserve(3);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      try {
        auto stream = context().stream();
        for (int i = 0; i < 20; ++i) {
          const std::lock_guard guard(mutex);
          last = graph.Launch(stream, std::array{last}).events.at(0);
        }
        stream.Synchronize(soon());
      } catch (const spyre::Error&) {
        ++failed;
      }
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each of them waits until soon() at most
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(first_of(sum), 120.0F);
  EXPECT_THROW(graph.Launch(shared), spyre::InvalidArgument);
}

TEST_F(ApiCaptures, AFunctionSeesWhatWasComputedAndFeedsWhatComesNext) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0), twice = filled(0);
  std::vector<int> order;
  spyre::StreamCapture capture(stream);
  capture.Launch(job, std::array{one, one, sum});
  capture.LaunchHost([&] { order.push_back(1); });
  capture.Launch(job, std::array{sum, sum, twice});
  capture.LaunchHost([&] { order.push_back(2); });
  const auto graph = capture.Instantiate();
  for (int i = 0; i < 10; ++i) graph.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(twice), 4.0F);
  ASSERT_EQ(order.size(), 20u);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i % 2 == 0 ? 1 : 2);
}

TEST_F(ApiCaptures, APipelineBarrierIsPartOfTheReplay) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0), twice = filled(0);
  spyre::StreamCapture capture(stream);
  capture.Launch(job, std::array{one, one, sum});
  capture.Launch(job, std::array{sum, sum, twice}, {.pipeline_barrier = true});
  const auto graph = capture.Instantiate();
  const auto first = graph.Launch(stream, {}).launch;
  EXPECT_EQ(graph.Launch(stream), first + 2) << "the second of its launches stands behind the barrier";
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(twice), 4.0F);
}

TEST_F(ApiCaptures, AKernelThatFailsFailsTheReplayThatWaitsForIt) {
  const auto job = added();
  const auto spin = loaded("spin", {});
  auto a = context().stream(), b = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0);
  spyre::StreamCapture failing(a), waiting(b);
  failing.Launch(spin.jobs()[0], {}, {.budget_slices = 10});
  waiting.Wait(failing.Record());
  waiting.Launch(job, std::array{one, one, sum});
  const auto end = waiting.Record();
  const auto first = failing.Instantiate(), second = waiting.Instantiate();
  first.Launch(a);
  second.Launch(b);
  EXPECT_EQ(failure_of(a).status, spyre::Status::WatchdogExpired);
  EXPECT_EQ(failure_of(b).status, spyre::Status::EventFailed);
  EXPECT_THROW(end.Synchronize(soon()), spyre::Error);
  a.Reset();
  b.Reset();
  EXPECT_EQ(first_of(sum), 0.0F) << "what stands behind the wait has not run";
}

TEST_F(ApiCaptures, AFunctionThatThrowsStopsTheReplay) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0), twice = filled(0);
  spyre::StreamCapture capture(stream);
  capture.Launch(job, std::array{one, one, sum});
  capture.LaunchHost([] { throw std::runtime_error("out of paper"); });
  capture.Launch(job, std::array{sum, sum, twice});
  capture.Instantiate().Launch(stream);
  const auto failure = failure_of(stream);
  EXPECT_EQ(failure.outcome, spyre::Outcome::Fault);
  EXPECT_EQ(failure.job, "host function");
  stream.Reset();
  EXPECT_EQ(first_of(sum), 2.0F);
  EXPECT_EQ(first_of(twice), 0.0F);
}

TEST_F(ApiCaptures, AnEventOfAnotherContextIsWaitedForByAGrant) {
  const auto job = added();
  const auto other = context().open_beside({.function = 1});
  auto theirs = other->stream();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0);
  svp::test::Gate gate;
  theirs.LaunchHost(gate.passing());
  spyre::StreamCapture capture(stream);
  const auto event = theirs.Record();
  capture.Wait(event);
  capture.Wait(event.share());
  capture.Launch(job, std::array{one, one, sum});
  capture.Instantiate().Launch(stream);
  EXPECT_FALSE(stream.Query());
  gate.open();
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum), 2.0F);
}

TEST_F(ApiCaptures, AThousandReplaysOfSeveralThreadsLeaveNothingBehind) {
  const auto job = added();
  const SpyreTensor one = filled(1), sum = filled(0);
  std::atomic<int> runs{0};
  {
    auto stream = context().stream();
    spyre::StreamCapture capture(stream), body(stream);
    body.Launch(job, std::array{one, one, sum});
    capture.Wait(body.Record());  // the replay before, whatever its stream
    capture.Add(body);
    capture.LaunchHost([&] { ++runs; });
    const auto graph = capture.Instantiate();
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        auto own = context().stream();
        for (int i = 0; i < 250; ++i) graph.Launch(own);
        own.Synchronize(soon());
      });
    }
    for (auto& thread : threads) thread.join();  // bounded: each of them waits until soon() at most
  }
  EXPECT_EQ(runs, 1000);
  EXPECT_EQ(first_of(sum), 2.0F);
  // As many buffers as the card has can be prepared once more: 1024 at most are asked for.
  auto stream = context().stream();
  const auto fill_up = [&] {
    std::vector<spyre::PreparedLaunches> all;
    try {
      while (all.size() < 1024) all.push_back(spyre::Prepare(stream, job, std::array{one, one, sum}));
    } catch (const spyre::Error& error) {
      EXPECT_EQ(error.info().status, spyre::Status::OutOfCommandBuffers) << error.what();
    }
    return all.size();
  };
  const std::size_t room = fill_up();
  spyre::StreamCapture capture(stream);
  capture.Launch(job, std::array{one, one, sum});
  (void)capture.Record();
  for (int i = 0; i < 100; ++i) capture.Instantiate().Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(fill_up(), room);
}

// ---- captures begun and ended on a stream

TEST_F(ApiCaptures, CodeThatLaunchesIsCollectedUnchanged) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0), next = filled(0);
  auto bytes = context().host_memory().allocate(128);
  std::atomic<int> runs{0};
  const auto step = [&](spyre::SpyreStream on) {
    on.Launch(job, std::array{sum, one, next});
    context().copy(sum, next, on);  // inside of the card
    on.LaunchHost([&] { ++runs; });
    on.PipelineBarrier();
    on.Launch(spyre::Job::from_device(bytes.data(), sum.allocation_index(), 128), {});
    return on.Record();
  };
  step(stream).Synchronize(soon());
  EXPECT_EQ(first_of(sum), 1.0F);
  spyre::CaptureScope capture(stream);
  const auto event = step(stream);
  const auto graph = capture.End();
  EXPECT_FALSE(event.recorded());
  EXPECT_EQ(graph.size(), 3u);
  for (int i = 0; i < 9; ++i) graph.Launch(stream);
  event.Synchronize(soon());
  EXPECT_EQ(runs, 10);
  EXPECT_EQ(first_of(sum), 10.0F);
  step(stream).Synchronize(soon());
  EXPECT_EQ(first_of(sum), 11.0F) << "it launches again";
}

TEST_F(ApiCaptures, PlansAreCollectedAndPatched) {
  auto plan = addition();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), two = filled(2), sum = filled(0), other = filled(0);
  stream.BeginCapture();
  spyre::LaunchKernel(stream, plan, std::array{one, one, sum});
  EXPECT_EQ(stream.Launch(plan.jobs()[0], std::array{sum, one, other}), 1u);
  const auto graph = stream.EndCapture();
  graph.Patch(stream, 0, std::array{two, two, sum});
  graph.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum), 4.0F);
  EXPECT_EQ(first_of(other), 5.0F);
}

// `call` throws Error, and what is captured before and after it is all that is captured.
template <typename Call>
void refused(spyre::SpyreStream stream, const char* what, Call call) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << what;
  } catch (const spyre::Error& error) {
    EXPECT_FALSE(error.info().next_step.empty()) << what;
    EXPECT_FALSE(stream.error().has_value()) << what;
  }
}

TEST_F(ApiCaptures, WhatIsNoPartOfACaptureIsRefusedAndTheStreamIsUsable) {
  const auto job = added();
  auto plan = addition();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0);
  const std::vector<float> values(kRows * kColumns, 5);
  std::vector<float> out(kRows * kColumns);
  const auto shape = spyre::HostShape::contiguous(spyre::DataType::Float32, {kRows, kColumns});
  const auto prepared = spyre::Prepare(stream, job, std::array{one, one, sum});
  stream.BeginCapture();
  stream.Launch(job, std::array{one, one, sum});
  refused(stream, "Synchronize", [&] { stream.Synchronize(); });
  refused(stream, "Query", [&] { (void)stream.Query(); });
  refused(stream, "BeginCapture", [&] { stream.BeginCapture(); });
  refused(stream, "copy to the card", [&] { context().copy(sum, {shape, std::as_bytes(std::span(values))}, stream); });
  refused(stream, "copy to the host",
          [&] { (void)context().copy({shape, std::as_writable_bytes(std::span(out))}, sum, stream); });
  refused(stream, "to_host", [&] { context().to_host(sum, {shape, std::as_writable_bytes(std::span(out))}, stream); });
  refused(stream, "prepared launches", [&] { prepared.Launch(stream); });
  refused(stream, "patch", [&] { prepared.Patch(stream, 0, std::array{one, one, one}); });
  refused(stream, "Context::Synchronize", [&] { context().Synchronize(); });
  refused(stream, "pageable memory",
          [&] { stream.Launch(spyre::Job::from_device(out.data(), sum.allocation_index(), 128), {}); });
  refused(stream, "tensors of another number", [&] { stream.Launch(job, std::array{one}); });
  std::thread([&] {
    refused(stream, "another thread", [&] { stream.Launch(job, std::array{one, one, sum}); });
  }).join();  // bounded: every call of the thread is refused
  const auto graph = stream.EndCapture();
  EXPECT_EQ(graph.size(), 1u);
  refused(stream, "EndCapture", [&] { (void)stream.EndCapture(); });
  graph.Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum), 2.0F);
}

TEST_F(ApiCaptures, TheDefaultStreamDoesNotCaptureWhatTheLibraryDoesForItself) {
  auto stream = context().default_stream();
  const auto job = added();
  const SpyreTensor one = filled(1), sum = filled(0);
  {
    spyre::CaptureScope capture(stream);
    stream.Launch(job, std::array{one, one, sum});
    EXPECT_TRUE(addition().loaded()) << "plans are loaded on a stream of the library's own";
    const auto graph = capture.End();
    EXPECT_EQ(graph.size(), 1u);
    graph.Launch(stream);
  }
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum), 2.0F);
}

TEST_F(ApiCaptures, AnExceptionAbandonsTheCapture) {
  const auto job = added();
  auto stream = context().stream();
  const SpyreTensor one = filled(1), sum = filled(0), other = filled(0);
  const auto fail_in_a_capture = [&] {
    const spyre::CaptureScope capture(stream);
    stream.Launch(job, std::array{one, one, sum});
    throw std::runtime_error("a defect of the program");
  };
  EXPECT_THROW(fail_in_a_capture(), std::runtime_error);
  stream.Launch(job, std::array{one, one, other});
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum), 0.0F);
  EXPECT_EQ(first_of(other), 2.0F);
}

TEST_F(ApiCaptures, AScopeMayOutliveItsContext) {
  auto other = context().open_beside({.function = 1});
  spyre::CaptureScope capture(other->stream());
  other.reset();
}

TEST_F(ApiCaptures, ARecoveryEndsTheCaptureAndTheNextOneWorks) {
  auto stream = context().stream();
  {
    const SpyreTensor one = filled(1), sum = filled(0);
    const auto job = added();
    stream.BeginCapture();
    stream.Launch(job, std::array{one, one, sum});
    (void)context().recover(spyre::ResetLevel::Function);
    EXPECT_THROW(stream.LaunchHost([] {}), spyre::Error);
    EXPECT_THROW((void)stream.EndCapture(), spyre::Error);
  }
  const auto plan = addition();
  const SpyreTensor one = filled(1), sum = filled(0);
  spyre::CaptureScope capture(stream);
  stream.Launch(plan.jobs()[0], std::array{one, one, sum});
  capture.End().Launch(stream);
  stream.Synchronize(soon());
  EXPECT_EQ(first_of(sum), 2.0F);
}

}  // namespace
