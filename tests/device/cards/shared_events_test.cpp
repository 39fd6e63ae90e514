// SPDX-License-Identifier: Apache-2.0
// Events across processes: one shares the bytes of an event, this one waits for it on a function of its own, and the
// broker grants it. Who may ask the broker, and what the end of the owner does to the wait.
#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "host_driver/discovery/attached_source.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/device/cards/cards_support.hpp"
#include "tests/device/cards/event_text.hpp"

namespace svp {
namespace {

using test::Tenant;
using testing::HasSubstr;

FlexStream::Clock::time_point soon() { return FlexStream::Clock::now() + test_bounds::kCompute; }

// Of the line that the tenant says.
spyre::SharedEvent event_of(const std::string& line) {
  constexpr std::string_view kWord = "event ";
  const std::string_view text = std::string_view(line).substr(std::min(line.size(), kWord.size()));
  const spyre::SharedEvent event = test::event_of(text);
  EXPECT_EQ(text.size(), 2 * event.bytes.size()) << line;
  return event;
}

class SharedEvents : public testing::Test {
 protected:
  SharedEvents() {
    auto attached = value_or_throw(attach(card_.folder(), FunctionChoice::virtual_function(1)));
    auto source = source_of(attached, card_.folder(), {});
    runtime_.emplace(std::move(attached.device), RuntimeOptions{}, std::move(source));
  }
  FlexStream& stream() { return runtime_->default_stream(); }
  wire::Status status() {
    try {
      stream().Synchronize(soon());
    } catch (const StreamError& error) {
      EXPECT_FALSE(error.info().next_step.empty());
      return error.failure().status;
    }
    return wire::Status::None;
  }

  test::ServedCard card_;
  std::optional<Runtime> runtime_;
};

TEST_F(SharedEvents, OfAnotherProcessOrderThisOne) {
  Tenant owner(card_.folder(), "PF", "share-event");
  const spyre::SharedEvent event = event_of(owner.wait_for("event"));
  std::atomic<bool> ran{false};
  stream().Wait(event);
  stream().LaunchHost([&] { ran = true; });
  // Another stream of this function goes on meanwhile, on the card as well.
  FlexStream& other = runtime_->next_stream(StreamPriority::Low);
  other.Record()->Synchronize(soon());
  EXPECT_FALSE(stream().Query());
  EXPECT_FALSE(ran);
  owner.close_input();
  EXPECT_EQ(status(), wire::Status::None);
  EXPECT_TRUE(ran);
  EXPECT_EQ(owner.wait_for("signalled"), "signalled");
  // It stays signalled as long as its function is not reset.
  other.Wait(event);
  other.Synchronize(soon());
}

TEST_F(SharedEvents, EndWithTheProcessThatSharedThem) {
  Tenant owner(card_.folder(), "VF2", "share-event");
  const spyre::SharedEvent event = event_of(owner.wait_for("event"));
  stream().Wait(event);
  runtime_->next_stream(StreamPriority::Low).Record()->Synchronize(soon());
  EXPECT_FALSE(stream().Query());
  owner.kill();
  EXPECT_EQ(status(), wire::Status::GrantRevoked);
  stream().Reset();
  // A successor of the function is another owner: the bytes are of no use for its streams.
  Tenant next(card_.folder(), "VF2", "share-event");
  const spyre::SharedEvent its = event_of(next.wait_for("event"));
  try {
    stream().Wait(event);
    EXPECT_EQ(status(), wire::Status::GrantRevoked);
    stream().Reset();
  } catch (const Error& error) {
    EXPECT_FALSE(error.info().next_step.empty());
  }
  stream().Wait(its);
  next.close_input();
  EXPECT_EQ(status(), wire::Status::None);
}

TEST_F(SharedEvents, AreOfferedAndTakenByTheOwnersOfTheFunctionsOnly) {
  Tenant owner(card_.folder(), "VF2", "share-event");
  const spyre::SharedEvent event = event_of(owner.wait_for("event"));
  TimelineToken token;
  std::copy_n(event.bytes.begin() + 8, token.size(), token.begin());
  const wire::Target of_other = wire::target_of_virtual(2);
  const auto expect_refused = [](const auto& result, const char* text) {
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr(text));
    EXPECT_FALSE(result.error().next_step.empty());
  };
  const Timeline its{.function = of_other, .generation = 1, .stream = 1, .incarnation = 1};
  expect_refused(offer_timeline(card_.folder(), its), "not owned by the process that asks");
  expect_refused(redeem_timeline(card_.folder(), token, of_other, 1), "not owned by the process that asks");
  expect_refused(redeem_timeline(card_.folder(), token, wire::kTargetPhysical, 1), "not owned");
  const std::uint64_t generation = runtime_->device().config().generation;
  const wire::Target own = wire::target_of_virtual(1);
  expect_refused(redeem_timeline(card_.folder(), TimelineToken{}, own, generation),
                 "the event is of another card, or nobody");
  expect_refused(redeem_timeline(card_.folder(), token, own, generation + 1), "stale function generation");
  const auto granted = redeem_timeline(card_.folder(), token, own, generation);
  ASSERT_TRUE(granted) << describe(granted.error());
  EXPECT_EQ(*redeem_timeline(card_.folder(), token, own, generation), *granted);
  // What this process offers of its own that is not there, the card refuses when somebody takes it.
  const auto none =
      offer_timeline(card_.folder(), {.function = own, .generation = generation, .stream = 99, .incarnation = 1});
  ASSERT_TRUE(none);
  expect_refused(redeem_timeline(card_.folder(), *none, own, generation), "unknown function");
}

}  // namespace
}  // namespace svp
