// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/event_grants.hpp"

#include <algorithm>
#include <utility>

#include "firmware/core/function_table.hpp"
#include "firmware/core/poll_plan.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::kGrantsPerFunction;
using wire::Status;

std::optional<EventGrants::Name> EventGrants::make(const StreamPlace& timeline, std::uint32_t grantee) {
  std::optional<std::uint32_t> free;
  for (std::uint32_t i = kGrantsPerFunction; i-- != 0;) {
    const Grant& grant = at(grantee, i);
    if (grant.epoch == 0) {
      free = i;
    } else if (grant.timeline == timeline) {
      return Name{i, grant.epoch};
    }
  }
  // An epoch is never used twice: with the last one the table is full until the next boot.
  if (!free || made_[grantee] == ~std::uint32_t{0}) return std::nullopt;
  std::uint16_t& first = functions_[timeline.function].streams.grants_of(timeline.stream);
  const std::uint16_t place = place_of(grantee, *free);
  grants_[place] = {
      .timeline = timeline, .epoch = boot_epoch_ << 32 | ++made_[grantee], .next = std::exchange(first, place)};
  return Name{*free, grants_[place].epoch};
}

std::expected<StreamPlace, Status> EventGrants::find(std::uint32_t grantee, const Name& name) const {
  if (name.index >= kGrantsPerFunction) return std::unexpected(Status::UnknownGrant);
  if (!was_made(grantee, name.epoch)) {
    if (mutated(Mutant::GrantName)) {
      const auto any = std::ranges::find_if(grants_, [](const Grant& grant) { return grant.epoch != 0; });
      if (any != grants_.end()) return any->timeline;
    }
    return std::unexpected(Status::UnknownGrant);
  }
  const Grant& grant = at(grantee, name.index);
  if (grant.epoch != name.epoch) return std::unexpected(Status::GrantRevoked);
  return grant.timeline;
}

void EventGrants::note_wait(std::uint32_t grantee, std::uint32_t index, std::uint64_t value) {
  at(grantee, index).lowest = std::min(at(grantee, index).lowest, value);
}

std::uint32_t EventGrants::call_waiters(std::uint16_t place, std::uint64_t value) {
  std::uint32_t looks = 0;
  BoundedWalk grants(kFunctions);
  for (; place != kNoEventGrant; place = grants_[place].next, ++looks) {
    grants.step();
    Grant& grant = grants_[place];
    if (value < grant.lowest) continue;
    grant.lowest = kNever;
    Function& grantee = functions_[place / kGrantsPerFunction];
    BoundedWalk waiters(wire::kStreamsPerFunction);
    for (unsigned s = grant.first_waiter; s != kNoWaiter; s = grantee.streams.waiter_behind(s), ++looks) {
      waiters.step();
      const std::uint64_t awaited = grantee.streams.awaited_value(s);
      if (awaited <= value) {
        grantee.streams.resume(s);
      } else {
        grant.lowest = std::min(grant.lowest, awaited);
      }
    }
    plan_.look_at(grantee);
  }
  return looks;
}

// Its waiters are in no list any more: they find out when they are stepped.
void EventGrants::revoke_place(std::uint16_t place) {
  Grant& grant = grants_[place];
  std::uint16_t* in_list = &functions_[grant.timeline.function].streams.grants_of(grant.timeline.stream);
  BoundedWalk grants(kFunctions);
  while (*in_list != place) {
    if (*in_list == kNoEventGrant) hal::panic("a grant is in no list of its timeline");
    grants.step();
    in_list = &grants_[*in_list].next;
  }
  *in_list = grant.next;
  Function& grantee = functions_[place / kGrantsPerFunction];
  BoundedWalk waiters(wire::kStreamsPerFunction);
  while (grant.first_waiter != kNoWaiter) {
    waiters.step();
    const unsigned waiter = grant.first_waiter;
    grantee.streams.withdraw_wait(waiter);
    grantee.streams.resume(waiter);
    plan_.look_at(grantee);
  }
  grant = {};
}

void EventGrants::revoke(std::uint32_t grantee, std::uint32_t index) { revoke_place(place_of(grantee, index)); }

void EventGrants::revoke_timeline(std::uint32_t owner, unsigned stream) {
  const std::uint16_t& first = functions_[owner].streams.grants_of(stream);
  while (first != kNoEventGrant) revoke_place(first);
}

void EventGrants::revoke_function(std::uint32_t function) {
  if (mutated(Mutant::RevokeGrants)) return;
  for (std::uint32_t grantee = kPhysical; grantee < functions_.count(); ++grantee) {
    for (std::uint32_t i = 0; i < kGrantsPerFunction; ++i) {
      const Grant& grant = at(grantee, i);
      if (grant.epoch == 0) continue;
      if (grantee == function || grant.timeline.function == function) revoke_place(place_of(grantee, i));
    }
  }
}

}  // namespace fw
