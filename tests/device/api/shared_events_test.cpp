// SPDX-License-Identifier: Apache-2.0
// Events across functions of a booted card, as a program sees them: order, errors, what a reset of either function
// ends, and bytes that are no event.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <spyre/spyre.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/api/api_card.hpp"
#include "tests/support/gate.hpp"

namespace {

using spyre::ResetLevel;
using spyre::Status;
using spyre::StreamError;

// The context on the physical function, and one on the virtual function of the same card.
class SharedEvents : public ApiCard {
 protected:
  SharedEvents() : beside_(context().open_beside({.function = 1})) {}

  // What is launched on the stream afterwards waits for open_gate().
  void hold(spyre::SpyreStream stream) { stream.LaunchHost(gate_.passing()); }
  void open_gate() { gate_.open(); }

  static Status status_of(spyre::SpyreStream stream) {
    try {
      stream.Synchronize(soon());
    } catch (const StreamError& error) {
      EXPECT_FALSE(error.info().next_step.empty());
      return error.failure().status;
    }
    return Status::None;
  }

  std::unique_ptr<spyre::Context> beside_;

 private:
  svp::test::Gate gate_;
};

TEST_F(SharedEvents, OrderTheStreamsOfTwoFunctions) {
  for (const bool as_bytes : {false, true}) {
    auto first = context().stream();
    auto second = beside_->stream();
    std::atomic<int> step{0};
    int seen = -1;
    svp::test::Gate gate;
    first.LaunchHost(gate.passing());
    first.LaunchHost([&] { step = 1; });
    const spyre::Event event = first.Record();
    as_bytes ? second.Wait(event.share()) : second.Wait(event);
    second.LaunchHost([&] { seen = step; });
    gate.open();
    second.Synchronize(soon());
    EXPECT_EQ(seen, 1);
    first.Synchronize(soon());
  }
}

// Each step of one function begins behind the step before of the other.
TEST_F(SharedEvents, AChainThroughBothFunctionsRunsInOrder) {
  constexpr int kSteps = 100;
  std::array<std::vector<spyre::SpyreStream>, 2> streams;
  for (int i = 0; i < 3; ++i) {
    streams[0].push_back(context().host_stream());
    streams[1].push_back(beside_->host_stream());
  }
  std::vector<int> order;
  spyre::Event last;
  hold(streams[0][0]);
  for (int step = 0; step < kSteps; ++step) {
    spyre::SpyreStream& stream = streams[step % 2][step % 3];
    stream.Wait(last);
    stream.LaunchHost([&order, step] { order.push_back(step); });
    last = stream.Record();
  }
  open_gate();
  last.Synchronize(soon());
  ASSERT_EQ(order.size(), std::size_t{kSteps});
  for (int step = 0; step < kSteps; ++step) EXPECT_EQ(order[step], step);
  spyre::SynchronizeAll();
}

TEST_F(SharedEvents, AnErrorOfOneFunctionFailsWhoWaitsInAnother) {
  const auto spin = loaded("spin", {});
  auto source = context().stream(), holder = context().stream();
  auto waiter = beside_->stream(), second = beside_->stream();
  hold(holder);
  source.Wait(holder.Record());
  source.Launch(spin.jobs()[0], {}, {.budget_slices = 10});
  waiter.Wait(source.Record());
  second.Wait(waiter.Record());
  open_gate();
  EXPECT_EQ(status_of(second), Status::EventFailed);
  EXPECT_EQ(status_of(waiter), Status::EventFailed);
  // Each function's completions come by its own rings: those of the source may come later.
  EXPECT_THROW(source.Synchronize(soon()), StreamError);
  EXPECT_EQ(source.error()->failure().outcome, spyre::Outcome::Timeout) << source.error()->what();
  for (auto* stream : {&source, &waiter, &second}) stream->Reset();
  waiter.Wait(source.Record());
  EXPECT_EQ(status_of(waiter), Status::None);
}

TEST_F(SharedEvents, TheResetOfTheOwnersStreamEndsTheWait) {
  auto source = context().stream();
  auto waiter = beside_->stream();
  hold(source);
  waiter.Wait(source.Record());
  waiter.LaunchHost([] { FAIL() << "the event was never signalled"; });
  std::thread resets([&] { source.Reset(); });
  EXPECT_EQ(status_of(waiter), Status::EventFailed);
  open_gate();
  resets.join();  // bounded: the function of the host ends with the gate
  waiter.Reset();
}

TEST_F(SharedEvents, TheResetOfEitherFunctionEndsTheWaitAndNewEventsWork) {
  for (const bool of_owner : {true, false}) {
    SCOPED_TRACE(of_owner);
    auto source = context().stream();
    auto waiter = beside_->stream();
    const spyre::SharedEvent before = source.Record().share();
    waiter.Wait(before);
    waiter.Synchronize(soon());
    svp::test::Gate gate;
    auto holder = context().stream();
    holder.LaunchHost(gate.passing());
    source.Wait(holder.Record());
    waiter.Wait(source.Record());
    std::thread opens([&] { gate.open(); });
    // The recovery of the owner waits for its host function, whose end may come before the reset or after it.
    (void)(of_owner ? context() : *beside_).recover(ResetLevel::Function);
    opens.join();  // bounded: it opens the gate
    const Status status = status_of(waiter);
    if (of_owner) {
      EXPECT_TRUE(status == Status::GrantRevoked || status == Status::EventFailed || status == Status::None);
      if (status != Status::None) waiter.Reset();
      // The bytes from before are void, whatever is recorded now. A grant that is known here the card refuses later.
      try {
        waiter.Wait(before);
        EXPECT_EQ(status_of(waiter), Status::GrantRevoked);
        waiter.Reset();
      } catch (const spyre::Error& error) {
        EXPECT_FALSE(error.info().next_step.empty());
      }
    }
    waiter.Wait(source.Record());
    source.Wait(waiter.Record());
    EXPECT_EQ(status_of(source), Status::None);
    EXPECT_EQ(status_of(waiter), Status::None);
  }
}

TEST_F(SharedEvents, BytesThatAreNoEventAreRefused) {
  auto source = context().stream();
  auto waiter = beside_->stream();
  const spyre::SharedEvent good = source.Record().share();
  EXPECT_THROW(waiter.Wait(spyre::SharedEvent{}), spyre::InvalidArgument);
  EXPECT_THROW((void)spyre::Event().share(), spyre::InvalidArgument);
  for (std::size_t i = 0; i < spyre::SharedEvent::kBytes; ++i) {
    spyre::SharedEvent bad = good;
    bad.bytes[i] ^= std::byte{0x40};
    // Magic, version, token, reserved: refused. Value and incarnation: a wait for something else on the same timeline,
    // which ends as such.
    try {
      waiter.Wait(bad);
      EXPECT_TRUE(i >= 24 && i < 36) << i;
    } catch (const spyre::Error& error) {
      EXPECT_FALSE(error.info().next_step.empty());
    }
    waiter.Reset();
  }
  waiter.Wait(good);
  EXPECT_EQ(status_of(waiter), Status::None);
}

TEST_F(SharedEvents, AnEventOfAnotherCardIsRefusedAndCanBeWaitedForOnTheHost) {
  spyre::ContextOptions options;
  options.card.emplace().virtual_functions = 0;
  const auto other = spyre::Context::open(options);
  const spyre::Event event = other->default_stream().Record();
  auto waiter = context().stream();
  try {
    waiter.Wait(event.share());
    ADD_FAILURE() << "waits for an event that this card does not know";
  } catch (const spyre::Error& refused) {
    EXPECT_EQ(refused.info().status, Status::UnknownGrant);
    EXPECT_TRUE(refused.info().message.starts_with("the event is of another card, or ")) << refused.info().message;
    EXPECT_TRUE(refused.info().next_step.contains("another card on the host (Synchronize())"))
        << refused.info().next_step;
  }
  event.Synchronize(soon());
  EXPECT_EQ(status_of(waiter), Status::None) << "nothing was launched";
}

TEST_F(SharedEvents, TheEndOfAContextEndsWaitsForItsEvents) {
  auto waiter = context().stream();
  auto source = beside_->stream();
  const spyre::SharedEvent shared = source.Record().share();
  const spyre::Event event = source.Record();
  source.Synchronize(soon());
  beside_.reset();
  EXPECT_THROW((void)event.share(), spyre::Error);
  EXPECT_THROW(waiter.Wait(shared), spyre::Error);
  waiter.Wait(event);  // it has been signalled
  EXPECT_EQ(status_of(waiter), Status::None);
  beside_ = context().open_beside({.function = 1});
  waiter.Wait(beside_->default_stream().Record());
  EXPECT_EQ(status_of(waiter), Status::None);
}

// Firmware restart, card reset and power cycle reset every function: what was signalled stays so, everything else of
// both functions has ended, and new events order their streams.
TEST_F(SharedEvents, EachResetLevelOfTheCardLeavesADefinedState) {
  for (const ResetLevel level : {ResetLevel::Firmware, ResetLevel::Card, ResetLevel::PowerCycle}) {
    SCOPED_TRACE(spyre::name(level));
    const auto spin = loaded("spin", {});
    auto source = context().stream(), own = context().stream();
    auto waiter = beside_->stream();
    const spyre::Event before = source.Record();
    const spyre::SharedEvent shared = before.share();
    waiter.Wait(shared);
    before.Synchronize(soon());
    waiter.Synchronize(soon());
    source.Launch(spin.jobs()[0], {}, {.budget_slices = 1'000'000});
    const spyre::Event failed = source.Record();
    own.Wait(failed);
    waiter.Wait(failed);
    const spyre::Event behind = waiter.Record();

    EXPECT_EQ(context().recover(level).level(), level);
    (void)beside_->recover();  // the restart of the card concerns it as well
    for (const spyre::Event* event : {&failed, &behind}) {
      EXPECT_TRUE(event->Query());
      EXPECT_THROW(event->Synchronize(soon()), spyre::Error);
    }
    EXPECT_TRUE(before.Query());
    EXPECT_NO_THROW(before.Synchronize(soon()));
    EXPECT_THROW((void)before.share(), spyre::Error) << "its timeline is gone";
    EXPECT_THROW(waiter.Wait(shared), spyre::Error);
    own.Wait(before);
    own.Wait(source.Record());
    waiter.Wait(source.Record());
    source.Wait(waiter.Record());
    for (auto* stream : {&own, &waiter, &source}) EXPECT_EQ(status_of(*stream), Status::None);
  }
}

}  // namespace
