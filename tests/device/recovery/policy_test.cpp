// SPDX-License-Identifier: Apache-2.0
// What a context does by itself: nothing, recover and retry what never started, or stop at the first failure.

#include <csignal>

#include "tests/device/recovery/recovery_support.hpp"

namespace svp {
namespace {

using test::LaunchEndings;
using test::Owner;
using testing::ElementsAre;
using testing::HasSubstr;
using wire::Outcome;

std::shared_ptr<Card> boot_shared() {
  auto options = test::small_card();
  options.timeouts.wedge_deaths = 100;
  return svp::value_or_throw(Card::boot(std::move(options)));
}

TEST(Policy, ManualTellsTheErrorAgainAndAgainUntilSomebodyRecovers) {
  const auto card = boot_shared();
  Owner owner(card, 1);
  const Job spin = owner.kernel("spin");
  const Job empty = owner.kernel("empty");
  LaunchEndings endings;
  owner.stream().Launch(spin, {}, {.budget_slices = 5, .observer = &endings});
  owner.stream().Launch(empty, {}, {.observer = &endings});
  for (int i = 0; i < 2; ++i) EXPECT_THROW(owner.stream().Synchronize(test::in_time()), StreamError);
  EXPECT_THROW(owner.stream().Launch(empty, {}), StreamError);
  EXPECT_THAT(endings.outcomes(), ElementsAre(Outcome::Timeout, Outcome::Aborted));
  owner.context().recover();
  EXPECT_NO_THROW(owner.stream().Synchronize(test::in_time()));
}

TEST(Policy, RecoverRetriesWhatWasAbortedAndNeverWhatWasStarted) {
  const auto card = boot_shared();
  Owner owner(card, 1, {.policy = RecoveryPolicy::Recover});
  const Job spin = owner.kernel("spin");
  const Job empty = owner.kernel("empty");
  LaunchEndings source, behind;
  std::vector<std::byte> pageable(20 * wire::kMiB, std::byte{0x5a}), back(pageable.size());
  const auto memory = owner.runtime().allocator().allocate(pageable.size());
  owner.stream().Launch(spin, {}, {.budget_slices = 5, .observer = &source});
  owner.stream().Launch(empty, {}, {.observer = &behind});
  owner.stream().Launch(Job::to_device(pageable.data(), memory, pageable.size()), {}, {.observer = &behind});
  owner.stream().Launch(Job::from_device(back.data(), memory, back.size()), {}, {.observer = &behind});
  try {
    owner.stream().Synchronize(test::in_time());
    ADD_FAILURE() << "the source's error was swallowed";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.info().outcome, Outcome::Timeout);
  }
  EXPECT_THAT(source.outcomes(), ElementsAre(Outcome::Timeout));
  EXPECT_THAT(behind.outcomes(), ElementsAre(Outcome::Ok, Outcome::Ok, Outcome::Ok));
  EXPECT_TRUE(back == pageable);
  EXPECT_NO_THROW(owner.stream().Synchronize(test::in_time())) << "told twice";
}

TEST(Policy, RecoverGoesOnThroughSeveralSourcesInOrder) {
  const auto card = boot_shared();
  Owner owner(card, 1, {.policy = RecoveryPolicy::Recover});
  const Job spin = owner.kernel("spin");
  const Job empty = owner.kernel("empty");
  LaunchEndings endings;
  for (int i = 0; i < 3; ++i) {
    owner.stream().Launch(spin, {}, {.budget_slices = 5, .observer = &endings});
    owner.stream().Launch(empty, {}, {.observer = &endings});
  }
  EXPECT_THROW(owner.stream().Synchronize(test::in_time()), StreamError);
  EXPECT_THAT(endings.outcomes(),
              ElementsAre(Outcome::Timeout, Outcome::Ok, Outcome::Timeout, Outcome::Ok, Outcome::Timeout, Outcome::Ok));
}

TEST(Policy, RecoverBringsTheContextBackAtTheNextCallAfterTheCardDied) {
  const auto card = boot_shared();
  Owner owner(card, 0, {.policy = RecoveryPolicy::Recover});
  owner.leave_patterns();
  owner.start_endless_work();
  ASSERT_EQ(::kill(card->machine().pid(), SIGKILL), 0);
  EXPECT_THROW(owner.stream().Synchronize(test::in_time()), StreamError);
  EXPECT_EQ(card->boots(), 2u);
  owner.expect_handles_refused();
  owner.expect_works();
}

TEST(Policy, FailFastStopsEveryStreamAtTheFirstFailureUntilRecover) {
  const auto card = boot_shared();
  Owner owner(card, 1, {.policy = RecoveryPolicy::FailFast});
  const Job spin = owner.kernel("spin");
  const Job empty = owner.kernel("empty");
  FlexStream& bystander = owner.runtime().next_stream(StreamPriority::Low);
  bystander.Launch(empty, {});
  bystander.Synchronize(test::in_time());
  owner.stream().Launch(spin, {}, {.budget_slices = 5});
  EXPECT_THROW(owner.stream().Synchronize(test::in_time()), StreamError);
  try {
    bystander.Launch(empty, {});
    ADD_FAILURE() << "a stream went on";
  } catch (const StreamError& error) {
    EXPECT_THAT(error.info().message, HasSubstr("fail fast"));
    EXPECT_EQ(error.info().outcome, Outcome::Timeout);
  }
  owner.stream().Reset();
  EXPECT_THROW(bystander.Launch(empty, {}), StreamError) << "one stream's reset is not a recovery";
  owner.context().recover();
  bystander.Launch(empty, {});
  EXPECT_NO_THROW(bystander.Synchronize(test::in_time()));
}

}  // namespace
}  // namespace svp
