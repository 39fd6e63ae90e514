// SPDX-License-Identifier: Apache-2.0
// Functions of the program in the order of a stream: LaunchHost against the real firmware core on a thread.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/support/gate.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using test::Gate;
using Clock = FlexStream::Clock;

Clock::time_point soon() { return Clock::now() + test_bounds::kWork; }

class HostCallTest : public testing::Test {
 protected:
  explicit HostCallTest(RecoveryPolicy policy = RecoveryPolicy::Manual) {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    options.recovery.policy = policy;
    runtime_ = std::make_unique<Runtime>(card_.attach(), options);
    memory_ = runtime_->allocator().allocate(4096);
    a_ = &runtime_->next_stream(StreamPriority::Low);
    b_ = &runtime_->next_stream(StreamPriority::Low);
  }
  void fill(FlexStream& stream, std::uint64_t pattern) { stream.Launch(Job::fill(memory_, 8, pattern), {}); }
  void read(FlexStream& stream, std::uint64_t& word) { stream.Launch(Job::from_device(&word, memory_, 8), {}); }

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
  std::unique_ptr<Runtime> runtime_;
  AllocationIndex memory_{};
  FlexStream* a_ = nullptr;
  FlexStream* b_ = nullptr;
};

TEST_F(HostCallTest, RunsBetweenWhatStandsBeforeAndBehindIt) {
  std::uint64_t before = 0, seen = 0, behind = 0;
  std::uint64_t next = 0;
  for (std::uint64_t round = 1; round <= 50; ++round) {
    fill(*a_, round);
    read(*a_, before);
    const std::uint64_t number = a_->LaunchHost([&, round] {
      seen = before;
      next = round + 1000;
    });
    a_->Launch(Job::to_device(&next, memory_, 8), {});
    read(*a_, behind);
    EXPECT_EQ(number + 2, a_->LaunchHost([] {}) - 1) << "a launch like any other";
    a_->Synchronize(soon());
    EXPECT_EQ(seen, round);
    EXPECT_EQ(behind, round + 1000);
  }
}

TEST_F(HostCallTest, LaunchingDoesNotWaitForTheFunction) {
  Gate gate;
  std::atomic<int> order = 0;
  int first = 0, second = 0;
  a_->LaunchHost([&] {
    gate.pass();
    first = ++order;
  });
  a_->LaunchHost([&] { second = ++order; });
  const auto event = a_->Record();
  EXPECT_FALSE(a_->Query());
  EXPECT_FALSE(event->Query());
  // Other streams, and their functions, go on meanwhile.
  bool other = false;
  b_->LaunchHost([&] { other = true; });
  b_->Synchronize(soon());
  EXPECT_TRUE(other);
  gate.open();
  event->Synchronize(soon());
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST_F(HostCallTest, AFunctionMayWaitForAnotherStreamAndItsFunctions) {
  std::vector<int> order;
  a_->LaunchHost([&] {
    b_->LaunchHost([&] { order.push_back(1); });
    b_->Synchronize(soon());
    order.push_back(2);
  });
  a_->Synchronize(soon());
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(HostCallTest, AFunctionMayLaunchOnItsOwnStreamButNotWaitForIt) {
  std::string refused;
  bool later = false;
  a_->LaunchHost([&] {
    a_->LaunchHost([&] { later = true; });
    try {
      a_->Synchronize(soon());
    } catch (const Error& error) {
      refused = error.what();
    }
  });
  a_->Synchronize(soon());
  a_->Synchronize(soon());
  EXPECT_TRUE(later);
  EXPECT_NE(refused.find("its own stream"), std::string::npos) << refused;
}

TEST_F(HostCallTest, WhatItThrowsIsTheStreamsError) {
  Gate gate;
  fill(*a_, 1);
  const std::uint64_t number = a_->LaunchHost([&] {
    gate.pass();
    throw std::runtime_error("no more paper");
  });
  const auto event = a_->Record();
  fill(*a_, 2);
  b_->Wait(event);
  fill(*b_, 3);
  gate.open();
  for (int i = 0; i < 2; ++i) {
    try {
      a_->Synchronize(soon());
      FAIL() << "no error";
    } catch (const StreamError& error) {
      EXPECT_EQ(error.failure().launch, number);
      EXPECT_EQ(error.failure().outcome, wire::Outcome::Fault);
      EXPECT_EQ(error.failure().job, "host function");
      EXPECT_NE(std::string(error.what()).find("no more paper"), std::string::npos) << error.what();
      EXPECT_TRUE(error.info().recoverable);
    }
  }
  EXPECT_THROW(event->Synchronize(soon()), StreamError);
  EXPECT_THROW(b_->Synchronize(soon()), StreamError);
  std::uint64_t word = 0;
  read(runtime_->default_stream(), word);
  runtime_->default_stream().Synchronize(soon());
  EXPECT_EQ(word, 1u) << "nothing behind the function has run";
  EXPECT_THROW(a_->LaunchHost([] {}), StreamError);
  a_->Reset();
  b_->Reset();
  bool ran = false;
  a_->LaunchHost([&] { ran = true; });
  a_->Synchronize(soon());
  EXPECT_TRUE(ran);
}

TEST_F(HostCallTest, WhatIsNoExceptionIsTakenAsWell) {
  a_->LaunchHost([] { throw 7; });
  EXPECT_THROW(a_->Synchronize(soon()), StreamError);
}

TEST_F(HostCallTest, AnEmptyFunctionIsRefused) {
  EXPECT_THROW(a_->LaunchHost({}), InvalidArgument);
  EXPECT_EQ(a_->error(), std::nullopt);
}

TEST_F(HostCallTest, AfterAnErrorNoFunctionBegins) {
  Gate gate;
  bool ran = false;
  a_->LaunchHost([&] {
    gate.pass();
    throw std::runtime_error("no");
  });
  a_->LaunchHost([&] { ran = true; });
  gate.open();
  EXPECT_THROW(a_->Synchronize(soon()), StreamError);
  a_->Reset();
  a_->Synchronize(soon());
  EXPECT_FALSE(ran);
}

TEST_F(HostCallTest, AResetDoesNotStopAFunctionAndIsNotHeldByIt) {
  Gate gate;
  a_->LaunchHost([&] {
    gate.pass();
    throw std::runtime_error("of the time before the reset");
  });
  gate.wait_for_arrival();
  a_->Reset();
  fill(*a_, 5);
  EXPECT_FALSE(a_->Query()) << "in order, also after the reset";
  gate.open();
  EXPECT_NO_THROW(a_->Synchronize(soon()));
  std::uint64_t word = 0;
  read(*a_, word);
  a_->Synchronize(soon());
  EXPECT_EQ(word, 5u);
}

TEST_F(HostCallTest, WhatAFunctionHoldsIsReleasedWithItsLaunch) {
  Gate gate;
  const auto held = std::make_shared<int>(1);
  a_->LaunchHost([held] {});
  a_->LaunchHost([held, &gate] {
    gate.pass();
    throw std::runtime_error("no");
  });
  a_->LaunchHost([held] {});
  gate.open();
  EXPECT_THROW(a_->Synchronize(soon()), StreamError);
  a_->Reset();
  a_->Synchronize(soon());
  EXPECT_EQ(held.use_count(), 1);
}

// What it throws is the program's code as well: it is asked and destroyed where it may use the stream.
class AsksTheStream : public std::exception {
 public:
  AsksTheStream(FlexStream& stream, std::atomic<int>& asked) : stream_(stream), asked_(asked) {}
  AsksTheStream(const AsksTheStream&) = default;
  AsksTheStream& operator=(const AsksTheStream&) = delete;
  ~AsksTheStream() override { ask(); }
  const char* what() const noexcept override {
    ask();
    return "no";
  }

 private:
  void ask() const {
    EXPECT_FALSE(stream_.Query());
    ++asked_;
  }
  FlexStream& stream_;
  std::atomic<int>& asked_;
};

TEST_F(HostCallTest, WhatIsThrownMayUseTheStream) {
  std::atomic<int> asked{0};
  a_->LaunchHost([&] { throw AsksTheStream(*a_, asked); });
  EXPECT_THROW(a_->Synchronize(soon()), StreamError);
  EXPECT_GE(asked, 2);
}

TEST_F(HostCallTest, TheEndOfTheRuntimeWaitsForTheFunctionUnderWay) {
  Gate gate;
  std::atomic<bool> returned = false;
  a_->LaunchHost([&] {
    gate.pass();
    returned = true;
  });
  gate.wait_for_arrival();
  std::thread opener([&] { gate.open(); });
  runtime_.reset();
  EXPECT_TRUE(returned);
  opener.join();  // bounded: it waits for nothing
}

TEST_F(HostCallTest, TheDeathOfTheCardEndsStreamsWithFunctions) {
  Gate gate;
  a_->LaunchHost([&] { gate.pass(); });
  fill(*a_, 1);
  b_->Wait(a_->Record());
  gate.wait_for_arrival();
  card_.die();
  gate.open();
  EXPECT_THROW(a_->Synchronize(soon()), StreamError);
  EXPECT_THROW(b_->Synchronize(soon()), StreamError);
}

TEST_F(HostCallTest, ManyStreamsRunManyFunctions) {
  std::vector<std::vector<int>> order(20);
  for (int i = 0; i < 100; ++i) {
    for (unsigned s = 0; s < order.size(); ++s) {
      FlexStream& stream = runtime_->stream(1 + s);
      if (i % 3 == 0) fill(stream, s);
      stream.LaunchHost([&of = order[s], i] { of.push_back(i); });
    }
  }
  runtime_->synchronize(soon());
  for (const auto& of : order) {
    ASSERT_EQ(of.size(), 100u);
    EXPECT_TRUE(std::ranges::is_sorted(of));
  }
}

class RecoveredHostCalls : public HostCallTest {
 protected:
  RecoveredHostCalls() : HostCallTest(RecoveryPolicy::Recover) {}
};

TEST_F(RecoveredHostCalls, WhatStoodBehindAFunctionThatThrewIsSentAgain) {
  Gate gate;
  int ran = 0;
  a_->LaunchHost([&] {
    gate.pass();
    throw std::runtime_error("no");
  });
  fill(*a_, 9);
  // What the first one would have written nobody knows: what may read it is not sent again.
  a_->LaunchHost([&] { ++ran; });
  gate.open();
  EXPECT_THROW(a_->Synchronize(soon()), StreamError);
  EXPECT_NO_THROW(a_->Synchronize(soon()));
  EXPECT_EQ(ran, 0);
  std::uint64_t word = 0;
  read(*a_, word);
  a_->Synchronize(soon());
  EXPECT_EQ(word, 9u);
}

}  // namespace
}  // namespace svp
