// SPDX-License-Identifier: Apache-2.0
// Waits for streams of other functions: what a grant allows, what ends it, what happens to the waits then, and that
// nothing else gets through.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawDriver;
using fwtest::StreamHandle;
using raw::GrantHandle;
using wire::AdminCommand;
using wire::AdminReply;
using wire::Completion;
using wire::Field;
using wire::Outcome;
using wire::Status;
using wire::Target;

constexpr Target kPf = wire::kTargetPhysical;
constexpr Target kVf1 = wire::target_of_virtual(1);
constexpr Target kVf2 = wire::target_of_virtual(2);
constexpr unsigned kFunctions = 4;  // with M

class EventGrants : public testing::Test {
 protected:
  EventGrants() {
    for (unsigned f = 0; f < kFunctions; ++f) EXPECT_TRUE(card_.driver(f).bring_up());
  }

  RawDriver& driver(Target function) { return card_.driver(function); }
  RawDriver& manager() { return card_.driver(0); }
  StreamHandle open(Target function, bool high = false) { return driver(function).open_stream(high).value(); }

  AdminReply ask_for_grant(Target owner, const StreamHandle& stream, Target grantee) {
    return manager().admin(manager().grant_request(owner, driver(owner), stream, grantee, driver(grantee)));
  }
  GrantHandle grant(Target owner, const StreamHandle& stream, Target grantee) {
    const auto reply = ask_for_grant(owner, stream, grantee);
    EXPECT_EQ(reply.outcome, Outcome::Ok) << wire::name(reply.status) << ' ' << wire::name(reply.field);
    return {reply.values.event_grant.grant, reply.values.event_grant.epoch};
  }
  // Not the first one that the grantee holds: index 0 is also what a record says that names none.
  GrantHandle second_grant(Target owner, const StreamHandle& stream, Target grantee) {
    (void)grant(owner, open(owner), grantee);
    const auto second = grant(owner, stream, grantee);
    EXPECT_NE(second.index, 0u);
    return second;
  }
  AdminReply revoke(Target grantee, const GrantHandle& grant) {
    return manager().admin(manager().revoke_request(grantee, grant));
  }
  std::uint64_t violations(Target function) { return card_.function(function).violations.count(); }

  std::uint64_t submit(Target function, const wire::ControlBlock& block) {
    driver(function).submit(block);
    return block.header.cookie;
  }
  void let_end() {
    card_.run_until_idle();
    for (Target f = kPf; f < kFunctions; ++f) {
      for (const auto& one : driver(f).collect()) {
        EXPECT_TRUE(endings_[f].emplace(one.completion.cookie, one.completion).second) << "ended twice";
      }
    }
  }
  std::optional<Completion> ended(Target function, std::uint64_t cookie) {
    let_end();
    const auto found = endings_[function].find(cookie);
    return found == endings_[function].end() ? std::nullopt : std::optional(found->second);
  }
  bool waits(Target function, std::uint64_t cookie) { return !ended(function, cookie); }
  void expect_end(Target function, std::uint64_t cookie, Outcome outcome, Status status = Status::None,
                  Field field = Field::None) {
    const auto end = ended(function, cookie);
    ASSERT_TRUE(end.has_value());
    expect_end(*end, outcome, status, field);
  }
  static void expect_end(const Completion& end, Outcome outcome, Status status, Field field) {
    EXPECT_EQ(end.outcome, outcome) << wire::name(end.status);
    EXPECT_EQ(end.status, status) << wire::name(end.status);
    EXPECT_EQ(end.field, field) << wire::name(end.field);
  }
  static void expect_refused(const AdminReply& reply, Status status, Field field) {
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, status) << wire::name(reply.status);
    EXPECT_EQ(reply.field, field) << wire::name(reply.field);
  }

  fwtest::TestCard card_{{.virtual_functions = 2, .spare_slots = 2}};
  std::array<std::map<std::uint64_t, Completion>, kFunctions> endings_;
};

// ---- what a grant allows

TEST_F(EventGrants, AGrantedWaitHoldsItsStreamUntilTheOtherFunctionSignals) {
  auto a = open(kVf1), b = open(kVf2), c = open(kVf2);
  const auto granted = grant(kVf1, a, kVf2);
  const auto wait = submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 2));
  const auto behind = submit(kVf2, driver(kVf2).nop(b));
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).nop(c)).outcome, Outcome::Ok);
  submit(kVf1, driver(kVf1).event_signal(a, 1));
  EXPECT_TRUE(waits(kVf2, wait)) << "1 is less than 2";
  submit(kVf1, driver(kVf1).event_signal(a, 2));
  expect_end(kVf2, wait, Outcome::Ok);
  expect_end(kVf2, behind, Outcome::Ok);
  EXPECT_EQ(violations(kVf2), 0u);
  // What was signalled ends a wait at once.
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(c, granted, a, 1)).outcome, Outcome::Ok);
}

TEST_F(EventGrants, NoHartIsHeldAndNobodyIsLookedAtMeanwhile) {
  auto a = open(kVf1), b = open(kVf2);
  submit(kVf2, driver(kVf2).granted_wait(b, grant(kVf1, a, kVf2), a, 1));
  card_.run_until_idle();
  EXPECT_FALSE(card_.function(kVf2).streams.any_runnable());
  EXPECT_FALSE(fw::anything_ready(card_.card()));
}

TEST_F(EventGrants, OneSignalReleasesWaitersOfAllFunctionsThatItFulfils) {
  auto a = open(kVf1);
  struct Wait {
    Target function;
    std::uint64_t cookie, value;
  };
  std::vector<Wait> waits_of;
  for (const Target function : {kPf, kVf2}) {
    const auto granted = grant(kVf1, a, function);
    for (std::uint64_t value = 1; value <= 50; ++value) {
      auto stream = open(function);
      waits_of.push_back({function, submit(function, driver(function).granted_wait(stream, granted, a, value)), value});
    }
  }
  auto own = open(kVf1);
  const auto of_itself = submit(kVf1, driver(kVf1).event_wait(own, a, 20));
  for (const std::uint64_t value : {1, 7, 8, 30, 50}) {
    submit(kVf1, driver(kVf1).event_signal(a, value));
    for (const Wait& wait : waits_of) EXPECT_EQ(waits(wait.function, wait.cookie), wait.value > value) << wait.value;
  }
  expect_end(kVf1, of_itself, Outcome::Ok);
}

TEST_F(EventGrants, TheSameGrantAgainIsTheSameOne) {
  auto a = open(kVf1), b = open(kVf1);
  const auto first = grant(kVf1, a, kVf2);
  EXPECT_EQ(grant(kVf1, a, kVf2), first);
  EXPECT_NE(grant(kVf1, b, kVf2), first);
  ASSERT_EQ(driver(kVf1).reset_stream(a).outcome, Outcome::Ok);
  EXPECT_EQ(grant(kVf1, a, kVf2), first) << "the timeline goes on over a reset of its stream";
}

TEST_F(EventGrants, AFunctionHoldsSoManyGrantsAndFillsNobodysTableButItsOwn) {
  std::vector<StreamHandle> streams;
  for (unsigned i = 0; i < wire::kGrantsPerFunction; ++i) {
    streams.push_back(open(kVf1));
    grant(kVf1, streams.back(), kVf2);
  }
  auto one_more = open(kVf1);
  expect_refused(ask_for_grant(kVf1, one_more, kVf2), Status::OutOfGrants, Field::AdminGrantee);
  grant(kVf1, one_more, kPf);
  const auto last = grant(kVf1, streams.back(), kVf2);
  EXPECT_EQ(revoke(kVf2, last).outcome, Outcome::Ok);
  const auto next = grant(kVf1, one_more, kVf2);
  EXPECT_EQ(next.index, last.index);
  EXPECT_GT(next.epoch, last.epoch) << "an epoch never comes back";
}

// ---- errors of the owner

TEST_F(EventGrants, AnErrorOfTheOwnersStreamEndsTheWaitAndNamesTheGrantOnly) {
  auto a = open(kVf1), b = open(kVf2), c = open(kVf2);
  const auto granted = second_grant(kVf1, a, kVf2);
  const auto wait = submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 2));
  const auto behind = submit(kVf2, driver(kVf2).nop(b));
  submit(kVf1, driver(kVf1).event_signal(a, 1));
  submit(kVf1, driver(kVf1).event_signal(a, 1));  // refused
  expect_end(kVf2, wait, Outcome::Aborted, Status::EventFailed, Field::EventGrant);
  EXPECT_EQ(endings_[kVf2][wait].fault.argument, granted.index);
  expect_end(kVf2, behind, Outcome::Aborted, Status::StreamPoisoned);
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(c, granted, a, 1)).outcome, Outcome::Ok);
  EXPECT_EQ(violations(kVf2), 0u) << "it is no error of the waiter";
}

TEST_F(EventGrants, AResetOfTheOwnersStreamEndsTheWait) {
  auto a = open(kVf1), b = open(kVf2);
  const auto granted = grant(kVf1, a, kVf2);
  const StreamHandle before = a;
  const auto wait = submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 1));
  ASSERT_TRUE(waits(kVf2, wait));
  ASSERT_EQ(driver(kVf1).reset_stream(a).outcome, Outcome::Ok);
  expect_end(kVf2, wait, Outcome::Aborted, Status::EventFailed, Field::EventGrant);
  auto c = open(kVf2);
  submit(kVf1, driver(kVf1).event_signal(a, 1));
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(c, granted, a, 1)).outcome, Outcome::Ok);
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(c, granted, before, 1)).status, Status::EventFailed);
}

TEST_F(EventGrants, AQueueResetOfTheOwnerFailsItsWaitsAndKeepsItsGrants) {
  auto a = open(kVf1), b = open(kVf2);
  const auto granted = grant(kVf1, a, kVf2);
  const auto wait = submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 1));
  ASSERT_TRUE(waits(kVf2, wait));
  ASSERT_TRUE(driver(kVf1).reset_queue(wire::kControlBlockQueue));
  expect_end(kVf2, wait, Outcome::Aborted, Status::EventFailed, Field::EventGrant);
  ++a.incarnation;
  auto c = open(kVf2);
  const auto later = submit(kVf2, driver(kVf2).granted_wait(c, granted, a, 1));
  EXPECT_TRUE(waits(kVf2, later));
}

// ---- what ends a grant

class RevokedGrants : public EventGrants {
 protected:
  // A wait that is held, one that stands behind it, and what they become when the grant is revoked.
  void expect_revoked_by(const std::function<void(const StreamHandle&, const GrantHandle&)>& end_it) {
    auto a = open(kVf1), b = open(kVf2), c = open(kVf2);
    const auto granted = second_grant(kVf1, a, kVf2);
    ASSERT_EQ(driver(kVf1).run(driver(kVf1).event_signal(a, 1)).outcome, Outcome::Ok);
    const auto wait = submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 2, ~std::uint64_t{0}));
    const auto behind = submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 1));
    ASSERT_TRUE(waits(kVf2, wait));
    end_it(a, granted);
    expect_end(kVf2, wait, Outcome::Aborted, Status::GrantRevoked, Field::EventGrant);
    EXPECT_EQ(endings_[kVf2][wait].fault.argument, granted.index);
    EXPECT_EQ(endings_[kVf2][wait].start_time, 0u) << "it has not started";
    expect_end(kVf2, behind, Outcome::Aborted, Status::StreamPoisoned);
    const auto late = driver(kVf2).run(driver(kVf2).granted_wait(c, granted, a, 1));
    EXPECT_EQ(late.outcome, Outcome::Aborted) << "also for what was signalled before";
    EXPECT_EQ(late.status, Status::GrantRevoked);
    EXPECT_EQ(violations(kVf2), 0u) << "a revocation may overtake a block";
  }
};

TEST_F(RevokedGrants, ByM) {
  expect_revoked_by([&](const StreamHandle&, const GrantHandle& granted) {
    EXPECT_EQ(revoke(kVf2, granted).outcome, Outcome::Ok);
    expect_refused(revoke(kVf2, granted), Status::GrantRevoked, Field::AdminGrant);
  });
}

TEST_F(RevokedGrants, ByAResetOfTheOwnerByItsDriver) {
  expect_revoked_by([&](const StreamHandle&, const GrantHandle&) { ASSERT_TRUE(driver(kVf1).bring_up()); });
}

TEST_F(RevokedGrants, ByAResetOfTheOwnerByM) {
  expect_revoked_by([&](const StreamHandle&, const GrantHandle&) {
    auto reset = manager().admin_request(AdminCommand::FunctionReset);
    reset.arguments.function = {kVf1, 0};
    ASSERT_EQ(manager().admin(reset).outcome, Outcome::Ok);
  });
}

TEST_F(RevokedGrants, ByTheRetirementOfTheOwnersSlot) {
  expect_revoked_by([&](const StreamHandle&, const GrantHandle&) {
    auto retire = manager().admin_request(AdminCommand::SlotRetire);
    retire.arguments.function = {kVf1, 0};
    ASSERT_EQ(manager().admin(retire).outcome, Outcome::Ok);
  });
}

TEST_F(RevokedGrants, WhenAnotherStreamTakesThePlaceOfTheOwners) {
  auto a = open(kVf1), b = open(kVf2), c = open(kVf2);
  const auto granted = grant(kVf1, a, kVf2);
  ASSERT_EQ(driver(kVf1).run(driver(kVf1).event_signal(a, 5)).outcome, Outcome::Ok);
  ASSERT_EQ(driver(kVf1).admin(driver(kVf1).stream_request(AdminCommand::StreamClose, a)).outcome, Outcome::Ok);
  expect_refused(ask_for_grant(kVf1, a, kVf2), Status::UnknownStream, Field::AdminStream);
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(b, granted, a, 5)).outcome, Outcome::Ok)
      << "what was signalled is known until then, as within a function";
  auto again = open(kVf1);
  ASSERT_EQ(again.id, a.id);
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(b, granted, again, 1)).status, Status::GrantRevoked);
  expect_refused(ask_for_grant(kVf1, a, kVf2), Status::StaleIncarnation, Field::AdminStream);
  const auto next = grant(kVf1, again, kVf2);
  const auto wait = submit(kVf2, driver(kVf2).granted_wait(c, next, again, 1));
  submit(kVf1, driver(kVf1).event_signal(again, 1));
  expect_end(kVf2, wait, Outcome::Ok);
}

TEST_F(RevokedGrants, AResetOfTheGranteeTakesItsWaitsAndItsGrants) {
  auto a = open(kVf1), b = open(kVf2);
  const auto granted = grant(kVf1, a, kVf2);
  submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 1));
  card_.run_until_idle();
  ASSERT_TRUE(driver(kVf2).bring_up());
  endings_[kVf2].clear();
  EXPECT_EQ(driver(kVf1).run(driver(kVf1).event_signal(a, 1)).outcome, Outcome::Ok) << "nobody waits for it any more";
  auto again = open(kVf2);
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(again, granted, a, 1)).status, Status::GrantRevoked);
  const auto next = grant(kVf1, a, kVf2);
  auto other = open(kVf2);
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(other, next, a, 1)).outcome, Outcome::Ok);
}

TEST_F(RevokedGrants, WhatTheGranteeEndsItselfLeavesTheGrant) {
  auto a = open(kVf1), b = open(kVf2), c = open(kVf2), d = open(kVf2);
  const auto granted = second_grant(kVf1, a, kVf2);
  const auto reset = submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 1));
  const auto cancelled = submit(kVf2, driver(kVf2).granted_wait(c, granted, a, 1));
  const auto behind = submit(kVf2, driver(kVf2).nop(c));
  const auto stays = submit(kVf2, driver(kVf2).granted_wait(d, granted, a, 1));
  ASSERT_TRUE(waits(kVf2, reset));
  ASSERT_EQ(driver(kVf2).reset_stream(b).outcome, Outcome::Ok);
  auto cancel = driver(kVf2).admin_request(AdminCommand::Cancel);
  cancel.arguments.cancel = {c.id, c.incarnation, 1};
  ASSERT_EQ(driver(kVf2).admin(cancel).outcome, Outcome::Ok);
  expect_end(kVf2, reset, Outcome::Aborted, Status::Stopped);
  expect_end(kVf2, cancelled, Outcome::Aborted, Status::Stopped);
  expect_end(kVf2, behind, Outcome::Ok);
  auto e = open(kVf2);
  const auto late = driver(kVf2).run(driver(kVf2).granted_wait(e, granted, a, 1, 1));
  expect_end(late, Outcome::Timeout, Status::BudgetExpired, Field::EventGrant);
  EXPECT_EQ(late.fault.argument, granted.index);
  EXPECT_EQ(card_.function(kVf2).streams[e.id].timeouts, 0u) << "a wait costs nobody anything";
  EXPECT_TRUE(waits(kVf2, stays));
  submit(kVf1, driver(kVf1).event_signal(a, 1));
  expect_end(kVf2, stays, Outcome::Ok);
}

TEST_F(RevokedGrants, AFirmwareRestartLeavesNone) {
  auto a = open(kVf1), b = open(kVf2);
  const auto granted = grant(kVf1, a, kVf2);
  submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 1));
  card_.run_until_idle();
  card_.warm_reset();
  for (unsigned f = 0; f < kFunctions; ++f) ASSERT_TRUE(card_.driver(f).bring_up());
  auto c = open(kVf1), d = open(kVf2), e = open(kVf2);
  ASSERT_EQ(driver(kVf1).run(driver(kVf1).event_signal(c, 1)).outcome, Outcome::Ok);
  expect_end(driver(kVf2).run(driver(kVf2).granted_wait(d, granted, c, 1)), Outcome::Rejected, Status::UnknownGrant,
             Field::EventGrant);
  const auto next = grant(kVf1, c, kVf2);
  EXPECT_NE(next.epoch, granted.epoch);
  EXPECT_EQ(driver(kVf2).run(driver(kVf2).granted_wait(e, next, c, 1)).outcome, Outcome::Ok);
}

// ---- lists that are broken

// What was done by mistake has to end in a panic of hart 0, not in a walk without end.
TEST_F(EventGrants, AListOfAGrantsWaitersThatLeadsBackIntoItselfIsFound) {
  auto a = open(kVf1), b = open(kVf2), c = open(kVf2);
  const auto granted = grant(kVf1, a, kVf2);
  for (auto* stream : {&b, &c}) submit(kVf2, driver(kVf2).granted_wait(*stream, granted, a, 1));
  card_.run_until_idle();
  auto& grants = card_.card().event_grants;
  auto& streams = card_.function(kVf2).streams;
  ASSERT_EQ(grants.first_waiter(kVf2, granted.index), c.id);
  const_cast<fw::Timeline&>(streams.timeline(b.id)).next_waiter = static_cast<std::uint8_t>(c.id);
  const std::uint16_t first = card_.function(kVf1).streams.grants_of(a.id);
  EXPECT_DEATH(grants.call_waiters(first, 1), "leads back") << "who is called";
  EXPECT_DEATH(grants.revoke(kVf2, granted.index), "leads back") << "all that are withdrawn";
}

TEST_F(EventGrants, AListOfGrantsThatLeadsBackIntoItselfIsFound) {
  auto a = open(kVf1);
  const auto unlisted = grant(kVf1, a, kPf);
  std::uint16_t& first = card_.function(kVf1).streams.grants_of(a.id);
  first = kVf2 * wire::kGrantsPerFunction;  // the place of the next grant, which comes in front of itself
  ASSERT_EQ(grant(kVf1, a, kVf2).index, 0u);
  ASSERT_EQ(first, kVf2 * wire::kGrantsPerFunction);
  auto& grants = card_.card().event_grants;
  EXPECT_DEATH(grants.call_waiters(first, 1), "leads back") << "whose waiters are called";
  EXPECT_DEATH(grants.revoke(kPf, unlisted.index), "leads back") << "a grant that is looked for";
}

// ---- attacks

class ForgedGrants : public EventGrants {
 protected:
  // Refused, counted, and no other stream is touched.
  void expect_forged(Target function, const GrantHandle& grant, const StreamHandle& awaited) {
    auto stream = open(function);
    const std::uint64_t before = violations(function);
    expect_end(driver(function).run(driver(function).granted_wait(stream, grant, awaited, 1)), Outcome::Rejected,
               Status::UnknownGrant, Field::EventGrant);
    EXPECT_EQ(violations(function), before + 1);
  }
};

TEST_F(ForgedGrants, OneOfAnotherFunctionIsUnknownLikeOneThatNeverWas) {
  auto a = open(kVf1);
  ASSERT_EQ(driver(kVf1).run(driver(kVf1).event_signal(a, 1)).outcome, Outcome::Ok);
  const auto granted = grant(kVf1, a, kVf2);
  expect_forged(kPf, granted, a);
  expect_forged(kVf1, granted, a);  // not even of its own timeline
  expect_forged(kPf, {0, 0}, a);
  expect_forged(kPf, {wire::kGrantsPerFunction - 1, granted.epoch}, a);
}

TEST_F(ForgedGrants, NoGuessGetsThrough) {
  auto a = open(kVf1);
  const auto granted = grant(kVf1, a, kVf2);
  for (const std::uint32_t index : {0u, 1u, wire::kGrantsPerFunction - 1, wire::kGrantsPerFunction, 127u, ~0u}) {
    for (const std::uint64_t epoch : {std::uint64_t{0}, granted.epoch + 1, granted.epoch ^ (std::uint64_t{1} << 32),
                                      granted.epoch & ~std::uint64_t{0xffffffff}, ~std::uint64_t{0}}) {
      expect_forged(kVf2, {index, epoch}, a);
    }
  }
  auto b = open(kVf2);
  const auto wrong_place = driver(kVf2).run(driver(kVf2).granted_wait(b, {granted.index + 1, granted.epoch}, a, 1));
  EXPECT_EQ(wrong_place.status, Status::GrantRevoked) << "as one that it had";
}

TEST_F(ForgedGrants, OnlyMGrantsAndRevokes) {
  auto a = open(kVf1);
  const auto granted = grant(kVf1, a, kVf2);
  for (const Target caller : {kPf, kVf1, kVf2}) {
    for (const Target owner : {kPf, kVf1, kVf2, Target{0}}) {
      expect_refused(driver(caller).admin(driver(caller).grant_request(owner, driver(kVf1), a, kVf2, driver(kVf2))),
                     Status::NotPermitted, Field::AdminTarget);
      expect_refused(driver(caller).admin(driver(caller).revoke_request(owner, granted)), Status::NotPermitted,
                     Field::AdminTarget);
    }
  }
  auto b = open(kVf2);
  const auto wait = submit(kVf2, driver(kVf2).granted_wait(b, granted, a, 1));
  EXPECT_TRUE(waits(kVf2, wait)) << "it is granted still";
}

TEST_F(ForgedGrants, EveryWrongArgumentOfAGrantIsNamed) {
  auto a = open(kVf1);
  const auto good = manager().grant_request(kVf1, driver(kVf1), a, kVf2, driver(kVf2));
  const auto expect = [&](Status status, Field field, const std::function<void(wire::AdminRequest&)>& change) {
    auto request = good;
    change(request);
    expect_refused(manager().admin(request), status, field);
  };
  using R = wire::AdminRequest;
  expect(Status::UnknownFunction, Field::AdminTarget, [](R& r) { r.arguments.event_grant.owner = 99; });
  expect(Status::NotPermitted, Field::AdminTarget, [](R& r) { r.arguments.event_grant.owner = 0; });
  for (const Target grantee : {Target{0}, kVf1, Target{kFunctions}, ~Target{0}}) {
    expect(Status::UnknownFunction, Field::AdminGrantee, [&](R& r) { r.arguments.event_grant.grantee = grantee; });
  }
  expect(Status::StaleGeneration, Field::AdminTarget, [](R& r) { --r.arguments.event_grant.owner_generation; });
  expect(Status::StaleGeneration, Field::AdminGrantee, [](R& r) { ++r.arguments.event_grant.grantee_generation; });
  for (const std::uint32_t stream : {127u, 128u, ~0u}) {
    expect(Status::UnknownStream, Field::AdminStream, [&](R& r) { r.arguments.event_grant.stream = stream; });
  }
  expect(Status::StaleIncarnation, Field::AdminStream, [](R& r) { ++r.arguments.event_grant.incarnation; });
  expect(Status::StaleIncarnation, Field::AdminStream, [](R& r) { r.arguments.event_grant.incarnation = 0; });
  auto retire = manager().admin_request(AdminCommand::SlotRetire);
  retire.arguments.function = {kPf, 0};
  ASSERT_EQ(manager().admin(retire).outcome, Outcome::Ok);
  expect(Status::FunctionUnbound, Field::AdminGrantee, [](R& r) { r.arguments.event_grant.grantee = kPf; });
}

TEST_F(ForgedGrants, EveryWrongFieldOfAWaitIsNamed) {
  auto a = open(kVf1);
  const auto granted = grant(kVf1, a, kVf2);
  ASSERT_EQ(driver(kVf1).run(driver(kVf1).event_signal(a, 1)).outcome, Outcome::Ok);
  const auto expect = [&](Status status, Field field, const std::function<void(wire::EventPayload&)>& change) {
    auto stream = open(kVf2);
    auto block = driver(kVf2).granted_wait(stream, granted, a, 1);
    change(block.payload.event);
    expect_end(driver(kVf2).run(block), Outcome::Rejected, status, field);
  };
  using P = wire::EventPayload;
  expect(Status::BadFlags, Field::EventFlags, [](P& p) { p.flags |= 2; });
  expect(Status::BadFlags, Field::EventFlags, [](P& p) { p.flags |= 1u << 31; });
  expect(Status::ReservedBits, Field::EventGrant, [](P& p) { p.flags = 0; });
  expect(Status::ReservedBits, Field::EventStream, [](P& p) { p.stream = 1; });
  expect(Status::ReservedBits, Field::Reserved, [](P& p) { p.reserved[3] = 1; });
  expect(Status::EventRegressed, Field::EventValue, [](P& p) { p.value = 0; });
  expect(Status::UnknownStream, Field::EventGrant, [](P& p) { ++p.incarnation; });
  auto stream = open(kVf1);
  auto signal = driver(kVf1).event_signal(stream, 1);
  signal.payload.event.flags = wire::kEventGranted;
  expect_end(driver(kVf1).run(signal), Outcome::Rejected, Status::BadFlags, Field::EventFlags);
}

// ---- cycles

TEST_F(EventGrants, ACycleAcrossFunctionsIsFoundAndNamesOwnStreamsOnly) {
  auto a = open(kVf1), c = open(kVf1), b = open(kVf2);
  const auto of_a = submit(kVf1, driver(kVf1).granted_wait(a, grant(kVf2, b, kVf1), b, 1));
  submit(kVf1, driver(kVf1).event_signal(a, 1));
  const auto of_c = submit(kVf1, driver(kVf1).event_wait(c, a, 1));
  submit(kVf1, driver(kVf1).event_signal(c, 1));
  const auto of_b = submit(kVf2, driver(kVf2).granted_wait(b, grant(kVf1, c, kVf2), c, 1));
  for (const auto& [f, wait] : {std::pair{kVf1, of_a}, {kVf1, of_c}, {kVf2, of_b}}) EXPECT_TRUE(waits(f, wait));
  submit(kVf2, driver(kVf2).event_signal(b, 1));
  expect_end(kVf2, of_b, Outcome::Fault, Status::EventDeadlock, Field::EventGrant);
  const auto& record = endings_[kVf2][of_b].fault;
  EXPECT_EQ(record.argument, 1u) << "of its own streams there is one";
  EXPECT_EQ(record.offset, b.id);
  EXPECT_EQ(record.pc, 0u);
  expect_end(kVf1, of_a, Outcome::Aborted, Status::EventFailed, Field::EventGrant);
  expect_end(kVf1, of_c, Outcome::Aborted, Status::EventFailed, Field::EventStream);
}

// A walk along waits costs everybody time: it ends after as many as a function has streams.
TEST_F(EventGrants, ACycleThatIsTooLongToBeFoundIsEndedByABudget) {
  constexpr unsigned kHalf = 70;
  static_assert(2 * kHalf > wire::kStreamsPerFunction);
  std::array<std::vector<StreamHandle>, kFunctions> streams;
  for (const Target f : {kVf1, kVf2}) {
    for (unsigned i = 0; i < kHalf; ++i) streams[f].push_back(open(f));
  }
  const auto to_vf1 = grant(kVf2, streams[kVf2][0], kVf1), to_vf2 = grant(kVf1, streams[kVf1][0], kVf2);
  std::vector<std::pair<Target, std::uint64_t>> all;
  for (const Target f : {kVf1, kVf2}) {
    auto& own = streams[f];
    for (unsigned i = 0; i + 1 < kHalf; ++i)
      all.emplace_back(f, submit(f, driver(f).event_wait(own[i], own[i + 1], 1)));
  }
  all.emplace_back(kVf1, submit(kVf1, driver(kVf1).granted_wait(streams[kVf1].back(), to_vf1, streams[kVf2][0], 1)));
  let_end();
  for (const Target f : {kVf1, kVf2}) {
    for (unsigned i = 0; i < kHalf - (f == kVf2); ++i) submit(f, driver(f).event_signal(streams[f][i], 1));
  }
  for (const auto& [f, wait] : all) ASSERT_TRUE(waits(f, wait));
  auto& last = streams[kVf2].back();
  const auto closes = submit(kVf2, driver(kVf2).granted_wait(last, to_vf2, streams[kVf1][0], 1, 1));
  submit(kVf2, driver(kVf2).event_signal(last, 1));
  expect_end(kVf2, closes, Outcome::Timeout, Status::BudgetExpired, Field::EventGrant);
  for (const auto& [f, wait] : all) {
    const auto end = ended(f, wait);
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->status, Status::EventFailed);
  }
}

TEST_F(EventGrants, AFunctionThatOnlyWaitsForAnotherWaitsForNoQuantum) {
  auto a = open(kVf1), b = open(kVf2), c = open(kVf1);
  const auto wait = submit(kVf2, driver(kVf2).granted_wait(b, grant(kVf1, a, kVf2), a, 1));
  ASSERT_TRUE(waits(kVf2, wait));
  auto query = manager().admin_request(AdminCommand::FunctionQuery);
  query.arguments.function = {kVf2, 0};
  const auto before = manager().admin(query).values.function;
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(driver(kVf1).run(driver(kVf1).nop(c)).outcome, Outcome::Ok);
  const auto after = manager().admin(query).values.function;
  EXPECT_EQ(after.waited_quanta, before.waited_quanta);
  EXPECT_EQ(after.waited_bytes, before.waited_bytes);
  submit(kVf1, driver(kVf1).event_signal(a, 1));
  expect_end(kVf2, wait, Outcome::Ok);
}

TEST_F(EventGrants, ARevokedGrantIsInNoCycle) {
  auto a = open(kVf1), b = open(kVf2);
  const auto to_vf1 = grant(kVf2, b, kVf1);
  const auto of_a = submit(kVf1, driver(kVf1).granted_wait(a, to_vf1, b, 1));
  submit(kVf1, driver(kVf1).event_signal(a, 1));
  ASSERT_TRUE(waits(kVf1, of_a));
  ASSERT_EQ(revoke(kVf1, to_vf1).outcome, Outcome::Ok);
  const auto of_b = submit(kVf2, driver(kVf2).granted_wait(b, grant(kVf1, a, kVf2), a, 1));
  submit(kVf2, driver(kVf2).event_signal(b, 1));
  expect_end(kVf1, of_a, Outcome::Aborted, Status::GrantRevoked, Field::EventGrant);
  expect_end(kVf2, of_b, Outcome::Aborted, Status::EventFailed, Field::EventGrant);
}

// ---- anything in any order

// Signals, waits, resets of streams and functions, revocations: each block ends once, no wait stays that is fulfilled
// or whose grant is gone, and no list holds what is not in it.
TEST_F(EventGrants, EveryWaitEndsOrIsHeldForAReason) {
  std::mt19937 random(3);
  constexpr unsigned kStreams = 4;
  struct Owned {
    StreamHandle handle;
    std::uint64_t value = 0;
  };
  std::array<std::vector<Owned>, kFunctions> streams;
  const auto open_all = [&](Target f) {
    streams[f].clear();
    for (unsigned i = 0; i < kStreams; ++i) streams[f].push_back({open(f)});
  };
  for (Target f = kPf; f < kFunctions; ++f) open_all(f);
  struct Held {
    Target grantee, owner;
    unsigned stream;
    GrantHandle handle;
  };
  std::vector<Held> held;
  std::size_t submitted = 0;
  std::array<unsigned, 4> seen{};
  for (int i = 0; i < 6000; ++i) {
    const auto f = static_cast<Target>(kPf + random() % (kFunctions - 1));
    Owned& own = streams[f][random() % kStreams];
    const unsigned choice = random() % 64;
    if (choice == 0 && i % 2 == 0) {
      let_end();
      submitted -= driver(f).blocks_under_way();  // they are ended by nobody
      ASSERT_TRUE(driver(f).bring_up());
      open_all(f);
    } else if (choice == 1 && !held.empty()) {
      const Held& one = held[held.size() - 1 - random() % std::min<std::size_t>(held.size(), 4)];
      (void)revoke(one.grantee, one.handle);
    } else if (driver(f).blocks_under_way() > wire::kStreamCredits / 2 || choice < 12) {
      ASSERT_EQ(driver(f).reset_stream(own.handle).outcome, Outcome::Ok);
    } else if (choice < 32) {
      const auto owner = static_cast<Target>(kPf + random() % (kFunctions - 1));
      if (owner == f) continue;
      const unsigned s = random() % kStreams;
      const auto handle = grant(owner, streams[owner][s].handle, f);
      held.push_back({f, owner, s, handle});
      const std::uint64_t value = streams[owner][s].value + random() % 4 + (streams[owner][s].value == 0);
      submit(f, driver(f).granted_wait(own.handle, handle, streams[owner][s].handle, value));
      ++submitted;
    } else {
      own.value += 1 + random() % 2;
      submit(f, driver(f).event_signal(own.handle, own.value));
      ++submitted;
    }
    let_end();
    for (Target g = kPf; g < kFunctions; ++g) {
      fw::StreamTable& table = card_.function(g).streams;
      for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
        if (table[s].phase != fw::Stream::Phase::Waiting) continue;
        const auto& event = table.head(s).cb.payload.event;
        const auto place = card_.card().event_grants.find(g, {event.grant, event.epoch});
        ASSERT_TRUE(place.has_value()) << "step " << i << ": held by a grant that is gone";
        const fw::StreamTable& owner = card_.function(place->function).streams;
        ASSERT_LT(owner.timeline(place->stream).value(), event.value) << "step " << i;
        ASSERT_EQ(owner[place->stream].state(), fw::StreamState::Open) << "step " << i;
        ASSERT_EQ(owner[place->stream].incarnation, event.incarnation) << "step " << i;
      }
    }
  }
  for (Target f = kPf; f < kFunctions; ++f) {
    for (Owned& own : streams[f]) ASSERT_EQ(driver(f).reset_stream(own.handle).outcome, Outcome::Ok);
  }
  let_end();
  std::size_t ends = 0;
  for (Target f = kPf; f < kFunctions; ++f) {
    EXPECT_EQ(driver(f).blocks_under_way(), 0u);
    EXPECT_EQ(violations(f), 0u);
    ends += endings_[f].size();
    for (const auto& [cookie, end] : endings_[f]) {
      seen[0] += end.outcome == Outcome::Ok;
      seen[1] += end.status == Status::EventFailed;
      seen[2] += end.status == Status::GrantRevoked;
      seen[3] += end.status == Status::EventDeadlock;
    }
  }
  EXPECT_EQ(ends, submitted);
  for (unsigned kind = 0; kind < seen.size(); ++kind) {
    EXPECT_GT(seen[kind], kind == 3 ? 2u : 10u) << kind << ": the test has to meet what it is about";
  }
}

}  // namespace
