// SPDX-License-Identifier: Apache-2.0
// Streams and events of the C++ API on a booted card: order by events, errors along them, the current stream of a
// thread, and waiting for everything.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <set>
#include <span>
#include <spyre/spyre.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/api/api_card.hpp"
#include "tests/support/gate.hpp"

namespace {

using spyre::SpyreTensor;

class ApiStreams : public ApiAddition {};

// The sum runs through all streams: each adds 1 to what the one before it wrote. Launched from the last to the first
// one's view, so that nothing but the events can put them in order.
TEST_F(ApiStreams, AChainOfEventsOrdersStreams) {
  const auto plan = addition();
  const SpyreTensor one = filled(1);
  std::vector<SpyreTensor> sums;
  sums.reserve(41);
  for (int i = 0; i <= 40; ++i) sums.push_back(filled(0));
  spyre::Event before;
  for (std::size_t i = 0; i < 40; ++i) {
    auto stream = context().stream(i % 3 == 0 ? spyre::StreamPriority::High : spyre::StreamPriority::Low);
    stream.Wait(before);
    spyre::LaunchKernel(stream, plan, std::array{sums[i], one, sums[i + 1]});
    before = stream.Record();
  }
  before.Synchronize(soon());
  EXPECT_TRUE(before.Query());
  EXPECT_EQ(first_of(sums[40]), 40.0F);
}

// Sums that each need the one before, with barriers of both kinds between them.
TEST_F(ApiStreams, LaunchesBehindPipelineBarriersAreInOrder) {
  const auto plan = addition();
  const SpyreTensor one = filled(1);
  const SpyreTensor a = filled(0), b = filled(0);
  auto stream = context().stream();
  int functions = 0;
  for (int i = 0; i < 10; ++i) {
    stream.PipelineBarrier();
    stream.Launch(plan.jobs()[0], std::array{a, one, b});
    stream.Launch(plan.jobs()[0], std::array{b, one, a}, {.pipeline_barrier = true});
    stream.PipelineBarrier();
    stream.LaunchHost([&] { ++functions; });
  }
  stream.Synchronize(soon());
  EXPECT_EQ(functions, 10);
  EXPECT_EQ(first_of(a), 20.0F);
}

TEST_F(ApiStreams, TimeBetweenEventsContainsTheKernelBetweenThem) {
  const auto plan = addition();
  const SpyreTensor one = filled(1);
  const SpyreTensor sum = filled(0);
  auto stream = context().stream();
  const spyre::Event start = stream.Record();
  for (int i = 0; i < 10; ++i) spyre::LaunchKernel(stream, plan, std::array{one, one, sum});
  const spyre::Event end = stream.Record();
  end.Synchronize(soon());
  EXPECT_GT(end.since(start).count(), 0);
  EXPECT_THROW((void)end.since(spyre::Event()), spyre::InvalidArgument);
  EXPECT_THROW((void)spyre::Event().since(end), spyre::InvalidArgument);
}

TEST_F(ApiStreams, AKernelThatIsStoppedFailsWhoWaitsForIt) {
  const auto spin = loaded("spin", {});
  auto source = context().stream(), waiter = context().stream(), third = context().stream();
  // The kernel begins when everything has been launched: its error must not come before.
  svp::test::Gate gate;
  auto holder = context().stream();
  holder.LaunchHost(gate.passing());
  source.Wait(holder.Record());
  source.Launch(spin.jobs()[0], {}, {.budget_slices = 10});
  const spyre::Event failed = source.Record();
  waiter.Wait(failed);
  third.Wait(waiter.Record());
  gate.open();
  try {
    third.Synchronize(soon());
    FAIL() << "no error";
  } catch (const spyre::StreamError& error) {
    EXPECT_EQ(error.failure().status, spyre::Status::EventFailed);
    EXPECT_EQ(error.failure().operation, "EVENT_WAIT");
    EXPECT_EQ(error.failure().job, "event");
    EXPECT_NE(std::string(error.what()).find("stream " + std::to_string(waiter.stream_index())), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(failed.Synchronize(soon()), spyre::StreamError);
  EXPECT_EQ(source.error()->failure().outcome, spyre::Outcome::Timeout);
  EXPECT_THROW(context().Synchronize(soon()), spyre::StreamError);
  for (auto* stream : {&source, &waiter, &third}) stream->Reset();
  context().Synchronize(soon());
}

TEST_F(ApiStreams, AFunctionRunsBetweenTwoKernels) {
  const auto plan = addition();
  const SpyreTensor one = filled(1), first = filled(0), second = filled(0);
  auto stream = context().stream();
  float seen = 0;
  spyre::LaunchKernel(stream, plan, std::array{one, one, first});
  stream.LaunchHost([&] { seen = first_of(first); });  // waits for the default stream
  spyre::LaunchKernel(stream, plan, std::array{first, one, second});
  stream.Synchronize(soon());
  EXPECT_EQ(seen, 2.0F);
  EXPECT_EQ(first_of(second), 3.0F);
  stream.LaunchHost([] { throw std::runtime_error("no more paper"); });
  EXPECT_THROW(stream.Synchronize(soon()), spyre::StreamError);
  stream.Reset();
}

TEST_F(ApiStreams, HostStreamsAreAPoolOfTheirOwn) {
  constexpr const char* kVariable = "TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS";
  ::unsetenv(kVariable);
  std::vector<unsigned> ids;
  ids.reserve(8);
  for (int i = 0; i < 8; ++i) ids.push_back(context().host_stream().id());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GE(ids[i], 65u);
    EXPECT_LE(ids[i], 68u);
    EXPECT_EQ(ids[i], ids[i + 4]) << "four of them";
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(ids[i], ids[j]);
  }
  ::setenv(kVariable, "1", 1);
  EXPECT_EQ(context().host_stream().id(), 65u);
  EXPECT_EQ(context().host_stream().id(), 65u);
  for (const char* wrong : {"0", "9", "-1", "four", "4 "}) {
    ::setenv(kVariable, wrong, 1);
    EXPECT_THROW((void)context().host_stream(), spyre::InvalidArgument) << wrong;
  }
  ::unsetenv(kVariable);
  // Work on it: what a kernel wrote is read by a function, whose result the next kernel takes.
  const auto plan = addition();
  const SpyreTensor one = filled(1), sum = filled(0), second = filled(0);
  auto kernels = context().stream(), host = context().host_stream();
  spyre::LaunchKernel(kernels, plan, std::array{one, one, sum});
  host.Wait(kernels.Record());
  float seen = 0;
  host.LaunchHost([&] { seen = first_of(sum); });
  kernels.Wait(host.Record());
  spyre::LaunchKernel(kernels, plan, std::array{sum, one, second});
  kernels.Synchronize(soon());
  EXPECT_EQ(seen, 2.0F);
  EXPECT_EQ(first_of(second), 3.0F);
}

// Within a card it is granted (shared_events_test.cpp).
TEST_F(ApiStreams, AnEventOfAnotherCardIsRefusedAndOfNoUseHere) {
  spyre::ContextOptions options;
  options.card.emplace();
  const auto other = spyre::Context::open(options);
  svp::test::Gate gate;
  auto stream = other->default_stream();
  stream.LaunchHost(gate.passing());
  const spyre::Event event = stream.Record();
  EXPECT_THROW(context().default_stream().Wait(event), spyre::Error);
  EXPECT_FALSE(context().default_stream().error().has_value());
  gate.open();
  event.Synchronize(soon());
  spyre::SynchronizeAll();
  EXPECT_THROW((void)context().set_current_stream(other->default_stream()), spyre::InvalidArgument);
}

TEST_F(ApiStreams, EachThreadHasACurrentStreamPerContext) {
  const auto of_main = context().stream();
  EXPECT_EQ(context().current_stream(), context().default_stream());
  {
    const spyre::StreamGuard guard(context(), of_main);
    EXPECT_EQ(context().current_stream(), of_main);
    std::thread([&] {
      EXPECT_EQ(context().current_stream(), context().default_stream()) << "another thread, another choice";
      (void)context().set_current_stream(context().stream_by_id(40));
      EXPECT_EQ(context().current_stream().id(), 40u);
    }).join();  // bounded: it waits for nothing
    EXPECT_EQ(context().current_stream(), of_main);
  }
  EXPECT_EQ(context().current_stream().id(), 0u);
}

TEST_F(ApiStreams, IdsTellTheirPool) {
  EXPECT_EQ(context().default_stream().priority(), spyre::StreamPriority::Low);
  EXPECT_EQ(context().stream_by_id(32).priority(), spyre::StreamPriority::Low);
  EXPECT_EQ(context().stream_by_id(33).priority(), spyre::StreamPriority::High);
  EXPECT_EQ(context().stream_by_id(64).priority(), spyre::StreamPriority::High);
  EXPECT_EQ(context().stream_by_id(65).priority(), spyre::StreamPriority::Low);
  EXPECT_EQ(context().stream_by_id(72).id(), 72u);
  EXPECT_THROW((void)context().stream_by_id(73), spyre::InvalidArgument);
  EXPECT_EQ(context().stream(spyre::StreamPriority::High).priority(), spyre::StreamPriority::High);
}

TEST_F(ApiStreams, EachPoolHandsOutItsThirtyTwoIdsInTurn) {
  for (const auto& [priority, first] :
       {std::pair{spyre::StreamPriority::Low, 1U}, {spyre::StreamPriority::High, 33U}}) {
    unsigned before = context().stream(priority).id();
    std::set<unsigned> seen;
    for (int i = 0; i < 33; ++i) {
      const unsigned id = context().stream(priority).id();
      EXPECT_EQ(id, before == first + 31 ? first : before + 1);
      seen.insert(before = id);
    }
    EXPECT_EQ(seen.size(), 32u);
    EXPECT_EQ(*seen.begin(), first) << "1 … 32 of low, 33 … 64 of high priority";
  }
  EXPECT_EQ(context().default_stream().id(), 0u);
}

TEST_F(ApiStreams, StreamsAndEventsAreQueriedWithoutWaiting) {
  auto stream = context().stream();
  svp::test::Gate gate;
  stream.LaunchHost(gate.passing());
  const spyre::Event event = stream.Record();
  EXPECT_FALSE(stream.Query());
  EXPECT_FALSE(event.Query());
  gate.open();
  stream.Synchronize(soon());
  EXPECT_TRUE(stream.Query());
  EXPECT_TRUE(event.Query());
}

TEST_F(ApiStreams, SynchronizeWaitsForEveryStream) {
  const auto plan = addition();
  const SpyreTensor one = filled(1);
  std::vector<SpyreTensor> sums;
  std::vector<spyre::SpyreStream> streams;
  for (unsigned i = 0; i < 12; ++i) {
    streams.push_back(context().stream(i % 2 == 0 ? spyre::StreamPriority::Low : spyre::StreamPriority::High));
    sums.push_back(filled(0));
    for (int n = 0; n < 5; ++n) spyre::LaunchKernel(streams[i], plan, std::array{one, one, sums[i]});
  }
  context().Synchronize(soon());
  for (auto& stream : streams) EXPECT_TRUE(stream.Query());
  for (const SpyreTensor& sum : sums) EXPECT_EQ(first_of(sum), 2.0F);
}

// The same launches again and again, at last more of them than a stream has slots for corrections.
TEST_F(ApiStreams, LaunchesThatRepeatAreRight) {
  const auto plan = addition();
  const SpyreTensor one = filled(1);
  constexpr std::size_t kPairs = 150;
  std::vector<SpyreTensor> there, back;
  for (std::size_t i = 0; i < kPairs; ++i) {
    there.push_back(filled(static_cast<float>(i)));
    back.push_back(filled(0));
  }
  auto stream = context().stream();
  for (const std::size_t most : {std::size_t{1}, std::size_t{3}, kPairs}) {
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < most; ++i) {
        stream.Launch(plan.jobs()[0], std::array{there[i], one, back[i]});
        stream.Launch(plan.jobs()[0], std::array{back[i], one, there[i]});
      }
    }
  }
  stream.Synchronize(soon());
  for (std::size_t i = 0; i < kPairs; ++i) {
    EXPECT_EQ(first_of(there[i]), static_cast<float>(i + 6 * (i < 1 ? 3 : i < 3 ? 2 : 1))) << i;
  }
}

}  // namespace
