// SPDX-License-Identifier: Apache-2.0
// The tables of states: every change that a table has can be made, and no other; and the real card makes them.
#include "firmware/core/states.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "firmware/core/function_reset.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fw::CardState;
using fw::FunctionReset;
using fw::ResetState;
using fw::StreamState;
using fwtest::Program;

// ---- each table by itself -------------------------------------------------------------------------------------------

template <const auto& kTable>
struct Of {
  static constexpr const auto& kStates = kTable;
  using State = typename std::remove_cvref_t<decltype(kTable)>::State;
  using Machine = fw::StateMachine<kTable>;
  using Shared = fw::SharedStateMachine<kTable>;
};

template <typename Table>
class States : public testing::Test {
 protected:
  using State = typename Table::State;
  static constexpr unsigned kCount = Table::kStates.names.size();

  // The changes that lead from the first state to this one; nothing: none do.
  static std::optional<std::vector<State>> way_to(State target) {
    std::vector<std::optional<std::vector<State>>> ways(kCount);
    ways[0].emplace();
    std::deque<State> left{State{}};
    while (!left.empty()) {
      const State from = left.front();
      left.pop_front();
      for (const auto& edge : Table::kStates.edges) {
        auto& way = ways[std::to_underlying(edge.to)];
        if (edge.from != from || way) continue;
        way = ways[std::to_underlying(from)];
        way->push_back(edge.to);
        left.push_back(edge.to);
      }
    }
    return ways[std::to_underlying(target)];
  }
  template <typename Machine>
  static Machine& bring(Machine& machine, State state) {
    const std::vector<State> way = way_to(state).value();
    for (const State step : way) machine.set_state(step);
    return machine;
  }
  static void for_each_pair(auto visit) {
    for (unsigned from = 0; from < kCount; ++from) {
      for (unsigned to = 0; to < kCount; ++to) visit(static_cast<State>(from), static_cast<State>(to));
    }
  }
};

using Tables = testing::Types<Of<fw::kCardStates>, Of<fw::kResetStates>, Of<fw::kStreamStates>, Of<fw::kLaunchStates>>;
TYPED_TEST_SUITE(States, Tables);

TYPED_TEST(States, EveryStateHasANameOfItsOwnAndAWayToIt) {
  std::set<std::string_view> names;
  for (unsigned s = 0; s < TestFixture::kCount; ++s) {
    const auto state = static_cast<typename TypeParam::State>(s);
    EXPECT_FALSE(TypeParam::kStates.name(state).empty());
    EXPECT_TRUE(names.insert(TypeParam::kStates.name(state)).second) << TypeParam::kStates.name(state);
    EXPECT_TRUE(TestFixture::way_to(state).has_value()) << TypeParam::kStates.name(state);
  }
}

TYPED_TEST(States, NoChangeStandsInTheTableTwice) {
  std::set<std::pair<unsigned, unsigned>> seen;
  for (const auto& edge : TypeParam::kStates.edges) {
    EXPECT_TRUE(seen.insert({std::to_underlying(edge.from), std::to_underlying(edge.to)}).second);
    EXPECT_NE(edge.from, edge.to);
    EXPECT_FALSE(edge.when.empty());
  }
}

TYPED_TEST(States, EveryChangeOfTheTableIsMade) {
  for (const auto& edge : TypeParam::kStates.edges) {
    typename TypeParam::Machine machine;
    EXPECT_EQ(this->bring(machine, edge.from).set_state(edge.to), edge.from);
    EXPECT_TRUE(machine.is(edge.to));
    EXPECT_EQ(machine.name(), TypeParam::kStates.name(edge.to));
    typename TypeParam::Shared shared;
    this->bring(shared, edge.from).set_state(edge.to);
    EXPECT_TRUE(shared.is(edge.to));
  }
}

TYPED_TEST(States, EveryOtherChangeEndsTheFirmware) {
  this->for_each_pair([&](auto from, auto to) {
    if (TypeParam::kStates.allows(from, to)) return;
    typename TypeParam::Machine machine;
    this->bring(machine, from);
    EXPECT_DEATH(machine.set_state(to), "not next to it")
        << TypeParam::kStates.name(from) << " to " << TypeParam::kStates.name(to);
    typename TypeParam::Shared shared;
    this->bring(shared, from);
    EXPECT_DEATH(shared.set_state(to), "not next to it");
  });
}

TEST(SharedStates, AChangeFromAnotherStateThanTheRightOneIsNotMade) {
  fw::SharedStateMachine<fw::kLaunchStates> launch;
  EXPECT_FALSE((launch.change<fw::LaunchState::Running, fw::LaunchState::Stopping>()));
  launch.set_state(fw::LaunchState::Prepared);
  EXPECT_TRUE((launch.change<fw::LaunchState::Prepared, fw::LaunchState::Condemned>()));
  EXPECT_TRUE(launch.is(fw::LaunchState::Condemned));
}

// ---- a reset's operations -------------------------------------------------------------------------------------------

class ResetOperations : public testing::Test {
 protected:
  native::Board board_{{}};
  FunctionReset reset_;
};

TEST_F(ResetOperations, OfAQueueIsAnsweredOnce) {
  const auto request = wire::make_message(0, 1, 7, wire::QueueIndex{1});
  reset_.begin_queue(1, request);
  EXPECT_TRUE(reset_.running());
  EXPECT_FALSE(reset_.of_function());
  ASSERT_TRUE(reset_.take_request());
  EXPECT_FALSE(reset_.take_request());
  reset_.end();
  EXPECT_FALSE(reset_.running());
}

TEST_F(ResetOperations, OfTheFunctionOvertakesThatOfAQueueAndTellsHowLongItStopped) {
  reset_.begin_queue(1, wire::make_message(0, 1, 7, wire::QueueIndex{1}));
  reset_.begin(1000, true);
  EXPECT_EQ(reset_.state(), ResetState::Stopping);
  reset_.release(1500);
  EXPECT_TRUE(reset_.of_function());
  EXPECT_EQ(reset_.stop_ticks(), 500u);
  reset_.end();
  EXPECT_EQ(reset_.state(), ResetState::None);
}

TEST_F(ResetOperations, OutOfOrderEndTheFirmware) {
  EXPECT_DEATH(reset_.release(1), "not next to it");
  EXPECT_DEATH(reset_.end(), "not next to it");
  reset_.begin(1, false);
  EXPECT_DEATH(reset_.end(), "not next to it") << "what the owner held is not released yet";
  EXPECT_DEATH(reset_.begin_queue(1, {}), "not next to it");
}

TEST_F(ResetOperations, AreFreeWithinCreditAndOfDriversThatDidNotWork) {
  const auto pay = [&](std::uint64_t now, bool charged, bool contended) {
    reset_.begin(now, charged);
    reset_.release(now);
    const bool paid = reset_.pay(now, contended);
    reset_.end();
    return paid;
  };
  std::uint64_t now = 10 * fw::kResetsInARow * fw::kResetTicks;
  for (std::uint64_t i = 0; i < fw::kResetsInARow; ++i) EXPECT_TRUE(pay(now, true, true)) << i;
  EXPECT_FALSE(pay(now, true, true));
  EXPECT_TRUE(pay(now, false, true)) << "no driver was at work";
  EXPECT_TRUE(pay(now, true, false)) << "nobody else is disturbed";
  EXPECT_TRUE(pay(now + fw::kResetTicks, true, true));
}

// ---- the real card --------------------------------------------------------------------------------------------------

class StatesOfTheCard : public fwtest::Launch {
 protected:
  StatesOfTheCard() : Launch(1, 1024 * wire::kMiB, 2, "selftest=1") {}

  using Pair = std::pair<unsigned, unsigned>;
  std::vector<Pair> changes(fw::Machine machine, std::optional<std::uint64_t> subject = std::nullopt) const {
    std::vector<Pair> found;
    for (const auto& change : card_.changes) {
      if (change.machine == machine && (!subject || change.subject == *subject))
        found.push_back({change.from, change.to});
    }
    return found;
  }
  template <typename State>
  static Pair from_to(State from, State to) {
    return {std::to_underlying(from), std::to_underlying(to)};
  }
  wire::AdminRequest about(const fwtest::StreamHandle& stream, wire::AdminCommand command) {
    auto request = driver_.admin_request(command);
    request.arguments.stream.stream = stream.id;
    request.arguments.stream.incarnation = stream.incarnation;
    return request;
  }
  static constexpr std::uint64_t kFunction = 2;
};

TEST_F(StatesOfTheCard, ABootGoesStepByStep) {
  const auto steps = changes(fw::Machine::Card);
  ASSERT_FALSE(steps.empty());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].first, i == 0 ? 0u : steps[i - 1].second);
    EXPECT_TRUE(
        fw::kCardStates.allows(static_cast<CardState>(steps[i].first), static_cast<CardState>(steps[i].second)));
  }
  EXPECT_EQ(steps.back().second, std::to_underlying(CardState::Ready));
  EXPECT_THAT(steps, testing::Contains(from_to(CardState::Functions, CardState::SelfTest)));
}

TEST_F(StatesOfTheCard, AStreamIsOpenedPoisonedResetAndClosed) {
  auto stream = driver_.open_stream().value();
  const std::uint64_t subject = kFunction | std::uint64_t{stream.id} << 32;
  card_.changes.clear();
  driver_.submit(block(stream, Program::Endless));
  card_.run_until_idle();
  driver_.send_admin(about(stream, wire::AdminCommand::StreamReset));
  card_.run_until_idle();
  driver_.send_admin(about({stream.id, stream.incarnation + 1}, wire::AdminCommand::StreamClose));
  card_.run_until_idle();
  for (int i = 0; i < 10; ++i) slice(), card_.run_until_idle();
  EXPECT_THAT(changes(fw::Machine::Stream, subject),
              testing::ElementsAre(from_to(StreamState::Open, StreamState::Resetting),
                                   from_to(StreamState::Resetting, StreamState::Closing),
                                   from_to(StreamState::Closing, StreamState::Closed)));
}

TEST_F(StatesOfTheCard, AnErrorPoisonsAndAResetEndsIt) {
  const std::uint64_t subject = kFunction | std::uint64_t{stream_.id} << 32;
  card_.changes.clear();
  auto bad = block(stream_, Program::Endless);
  bad.payload.compute.image_bytes = 0;
  driver_.submit(bad);
  card_.run_until_idle();
  ASSERT_EQ(driver_.collect().size(), 1u);
  ASSERT_EQ(driver_.admin(about(stream_, wire::AdminCommand::StreamReset)).outcome, wire::Outcome::Ok);
  EXPECT_THAT(changes(fw::Machine::Stream, subject),
              testing::ElementsAre(from_to(StreamState::Open, StreamState::Poisoned),
                                   from_to(StreamState::Poisoned, StreamState::Resetting),
                                   from_to(StreamState::Resetting, StreamState::Open)));
}

TEST_F(StatesOfTheCard, AFunctionsResetWaitsForItsKernelAndThenEnds) {
  driver_.submit(block(stream_, Program::Endless));
  card_.run_until_idle();
  card_.changes.clear();
  driver_.send(driver_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0}));
  card_.run_until_idle();
  const auto stopping = from_to(ResetState::None, ResetState::Stopping);
  EXPECT_THAT(changes(fw::Machine::FunctionReset, kFunction), testing::ElementsAre(stopping));
  slice();
  card_.run_until_idle();
  EXPECT_THAT(changes(fw::Machine::FunctionReset, kFunction),
              testing::ElementsAre(stopping, from_to(ResetState::Stopping, ResetState::Released),
                                   from_to(ResetState::Released, ResetState::None)));
  EXPECT_TRUE(driver_.receive().has_value());
}

TEST_F(StatesOfTheCard, LaunchesLogNothing) {
  card_.changes.clear();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run(Program::Slices).outcome, wire::Outcome::Ok);
  EXPECT_TRUE(card_.changes.empty());
}

}  // namespace
