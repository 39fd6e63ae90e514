// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/function_commands.hpp"

#include <algorithm>
#include <optional>

#include "firmware/core/admin.hpp"
#include "firmware/core/binding.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/reset.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::AdminCommand;
using wire::AdminReply;
using wire::AdminRequest;
using wire::Field;
using wire::FunctionKind;
using wire::FunctionState;
using wire::Status;

namespace {

// | command                  | oneself | PF, of a VF | M, of PF or VF |
// | STATS, FUNCTION_QUERY    | yes     | yes         | yes            |
// | FUNCTION_RESET, QUOTA_SET| no      | yes         | yes            |
// | SLOT_BIND, SLOT_RETIRE   | no      | no          | yes            |
// | EVENT_GRANT, EVENT_REVOKE| no      | no          | yes            |
bool permitted(const Function& caller, AdminCommand command, const Function& target) {
  const bool reads = command == AdminCommand::Stats || command == AdminCommand::FunctionQuery;
  if (&caller == &target) return reads;
  if (caller.kind() == FunctionKind::Management) return true;
  const bool of_management = command == AdminCommand::SlotBind || command == AdminCommand::SlotRetire ||
                             command == AdminCommand::EventGrant || command == AdminCommand::EventRevoke;
  return caller.kind() == FunctionKind::Physical && target.kind() == FunctionKind::Virtual && !of_management;
}

FunctionState state_of(const Function& function) {
  if (function.reset.running()) return FunctionState::Resetting;
  if (!function.bound()) return FunctionState::Unbound;
  return function.running() ? FunctionState::Running : FunctionState::Idle;
}

void describe(const Card& card, const Function& function, AdminReply& reply) {
  auto& values = reply.values.function;
  values.state = state_of(function);
  values.slot = function.place().slot;
  values.serial = function.place().serial;
  values.generation = function.generation();
  values.quota_bytes = function.quota_bytes();
  values.granted_bytes = function.regions.granted_bytes();
  values.violations = function.violations.count();
  values.resets = function.reset.count();
  values.stop_ticks = function.reset.stop_ticks();
  values.scrub_bytes = card.pool.unclean_bytes();
  values.weight = function.weight();
  values.corrected_errors = card.memory_corrected();
  values.retired_granules = card.pool.retired_granules();
  values.waited_quanta = function.waiting.most().quanta;
  values.waited_bytes = function.waiting.most().bytes;
  values.waited_slices = card.run_queues.most_waited_slices(function.id());
}

// A function reset joins one that runs: both are answered by the same end, whatever is begun after it.
void mark_end(PendingAdmin& pending, const Function& target) {
  const bool runs = target.reset.of_function();
  pending.mark = target.reset.count() + (runs && !mutated(Mutant::AnswerLate) ? 1 : 0);
}
Progress wait_for_end(const Card& card, const PendingAdmin& pending, const Function& target, AdminReply& reply) {
  if (target.reset.count() < pending.mark) return Progress::Waits;
  if (mutated(Mutant::AnswerReset)) {
    reply = refusal(Status::Busy, Field::AdminTarget);
    return Progress::Answered;
  }
  describe(card, target, reply);
  return Progress::Answered;
}

}  // namespace

std::uint64_t share_bytes(const Card& card, const Function& function) {
  if (function.manages()) return 0;
  const std::uint64_t share = card.pool.share_bytes(function.id());
  return function.quota_bytes() == 0 ? share : std::min(share, function.quota_bytes());
}

std::expected<Function*, AdminReply> resolve_target(Card& card, Function& caller, const AdminRequest& request) {
  const wire::Target target = request.arguments.function.target;
  if (target >= card.functions.count()) {
    if (mutated(Mutant::AdminTarget)) return std::unexpected(AdminReply{});  // OK, and nothing was done
    return std::unexpected(refusal(Status::UnknownFunction, Field::AdminTarget));
  }
  // A target is the function's place in the card's table; 0, M's place, means the caller.
  Function& function = target == wire::kTargetSelf ? caller : card.functions[target];
  if (!permitted(caller, request.command, function) && !mutated(Mutant::AdminRights)) {
    return std::unexpected(refusal(Status::NotPermitted, Field::AdminTarget));
  }
  return &function;
}

Progress reset_function(Card& card, Function& caller, PendingAdmin& pending, bool resumed, AdminReply& reply) {
  const auto target = resolve_target(card, caller, pending.request);
  if (!target) {
    reply = target.error();
    return Progress::Answered;
  }
  Function& function = **target;
  if (!resumed) {
    if (!function.bound()) {
      reply = refusal(Status::FunctionUnbound, Field::AdminTarget);
      return Progress::Answered;
    }
    begin_function_reset(card, function);
    mark_end(pending, function);
  }
  return wait_for_end(card, pending, function, reply);
}

Progress retire_function(Card& card, Function& caller, PendingAdmin& pending, bool resumed, AdminReply& reply) {
  const auto target = resolve_target(card, caller, pending.request);
  if (!target) {
    reply = target.error();
    return Progress::Answered;
  }
  if (!resumed) {
    retire_slot(card, **target);
    mark_end(pending, **target);
  }
  return wait_for_end(card, pending, **target, reply);
}

namespace {

// Why a function may not be bound to this place; nothing when it may.
std::optional<AdminReply> refuse_place(const Card& card, const Place& place) {
  if (place.slot >= hal::slot_count()) return refusal(Status::UnknownSlot, Field::AdminSlot);
  const bool renewable = hal::slot_renewable(place.slot);
  if (!card.slots.never_bound(place.slot, place.serial, renewable)) {
    return refusal(Status::SlotUsed, renewable ? Field::AdminSerial : Field::AdminSlot);
  }
  // M's own is no function's, and whoever is signalled as the card's own id would be the card.
  const bool fixed = place.doorbell != kManagement && place.doorbell < hal::slot_count();
  if (!fixed || hal::slot_renewable(place.doorbell)) return refusal(Status::UnknownSlot, Field::AdminDoorbell);
  if (card.slots.doorbell_in_use(place.doorbell)) return refusal(Status::Busy, Field::AdminDoorbell);
  if (place.peer == wire::kCardPeer || place.peer > wire::kLastPeer) {
    return refusal(Status::UnknownSlot, Field::AdminPeer);
  }
  return std::nullopt;
}

// A fixed slot brings its own doorbell device; whatever else is said of one is not understood.
std::expected<Place, AdminReply> place_asked_for(const AdminRequest& request) {
  const auto& asked = request.arguments.bind;
  if (asked.slot >= hal::slot_count() || hal::slot_renewable(asked.slot)) {
    return Place{asked.slot, asked.serial, asked.doorbell, asked.peer};
  }
  if (asked.serial != 0) return std::unexpected(refusal(Status::ReservedBits, Field::AdminSerial));
  if (asked.doorbell != 0) return std::unexpected(refusal(Status::ReservedBits, Field::AdminDoorbell));
  if (asked.peer != 0) return std::unexpected(refusal(Status::ReservedBits, Field::AdminPeer));
  return Place{.slot = asked.slot, .doorbell = asked.slot};
}

Progress bind_to(Card& card, Function& function, const Place& place, AdminReply& reply) {
  if (function.bound()) {
    // The same again is no error: a broker repeats its bindings after a restart of the card.
    if (function.place() == place) {
      describe(card, function, reply);
    } else {
      reply = refusal(Status::Busy, Field::AdminTarget);
    }
    return Progress::Answered;
  }
  if (const auto refused = refuse_place(card, place)) {
    reply = *refused;
    return Progress::Answered;
  }
  // The last owner's kernels may still be on their way out.
  if (function.reset.running()) return Progress::Waits;
  if (!bind_slot(card, function, place)) {
    reply = refusal(Status::OutOfSlots, Field::AdminSlot);
    return Progress::Answered;
  }
  card.slots.bind(function.id(), place);
  // The broker hands the function out when it has been told: the emulator knows the new peer.
  // Not through a fault point: nothing that hands functions out may depend on one.
  hal::signal(place.doorbell, place.peer);
  describe(card, function, reply);
  return Progress::Answered;
}

}  // namespace

Progress bind_function(Card& card, Function& caller, const AdminRequest& request, AdminReply& reply) {
  const auto target = resolve_target(card, caller, request);
  if (!target) {
    reply = target.error();
    return Progress::Answered;
  }
  const auto place = place_asked_for(request);
  if (!place) {
    reply = place.error();
    return Progress::Answered;
  }
  return bind_to(card, **target, *place, reply);
}

void set_quota(Card& card, Function& caller, const AdminRequest& request, AdminReply& reply) {
  const auto target = resolve_target(card, caller, request);
  if (!target) {
    reply = target.error();
    return;
  }
  const auto& arguments = request.arguments.quota;
  if (!wire::is_aligned(arguments.bytes, wire::kGranuleBytes)) {
    reply = refusal(Status::BadAlignment, Field::AdminBytes);
    return;
  }
  if (arguments.weight > wire::kMaxWeight) {
    reply = refusal(Status::BadCount, Field::AdminWeight);
    return;
  }
  if (arguments.weight != 0) {
    (*target)->set_weight(arguments.weight);
    card.run_queues.set_weight((*target)->id(), arguments.weight);
  }
  // What is held already stays; new regions are measured against the new number.
  (*target)->set_quota(arguments.bytes);
  describe(card, **target, reply);
}

namespace {

// Why the function, as who asked M knew it, has no part in a grant now.
Verdict check_party(const Function& function, std::uint64_t generation, Field field) {
  if (function.reset.running()) return {Status::FunctionResetting, field};
  if (!function.bound()) return {Status::FunctionUnbound, field};
  if (generation != function.generation()) return {Status::StaleGeneration, field};
  return {};
}

// The stream is the one that was named: it has not been closed and opened again.
Verdict check_timeline(const Function& owner, std::uint32_t stream, std::uint32_t incarnation) {
  if (stream >= wire::kStreamsPerFunction || owner.streams[stream].state() == StreamState::Closed) {
    return {Status::UnknownStream, Field::AdminStream};
  }
  const bool same =
      incarnation >= owner.streams.timeline(stream).opened_in && incarnation <= owner.streams[stream].incarnation;
  return same ? Verdict{} : Verdict{Status::StaleIncarnation, Field::AdminStream};
}

}  // namespace

void grant_event(Card& card, Function& caller, const AdminRequest& request, AdminReply& reply) {
  const auto target = resolve_target(card, caller, request);
  if (!target) {
    reply = target.error();
    return;
  }
  const Function& owner = **target;
  const auto& asked = request.arguments.event_grant;
  // A stream waits for others of its own function without a grant.
  if (asked.grantee < kPhysical || asked.grantee >= card.functions.count() || asked.grantee == owner.id()) {
    reply = refusal(Status::UnknownFunction, Field::AdminGrantee);
    return;
  }
  Verdict verdict = check_party(owner, asked.owner_generation, Field::AdminTarget);
  if (verdict.ok()) {
    verdict = check_party(card.functions[asked.grantee], asked.grantee_generation, Field::AdminGrantee);
  }
  if (verdict.ok()) verdict = check_timeline(owner, asked.stream, asked.incarnation);
  if (!verdict.ok()) {
    reply = refusal(verdict.status, verdict.field);
    return;
  }
  const auto made = card.event_grants.make({owner.id(), asked.stream}, asked.grantee);
  if (!made) {
    reply = refusal(Status::OutOfGrants, Field::AdminGrantee);
    return;
  }
  reply.values.event_grant = {.grant = made->index, .reserved = 0, .epoch = made->epoch};
}

void revoke_event(Card& card, Function& caller, const AdminRequest& request, AdminReply& reply) {
  const auto target = resolve_target(card, caller, request);
  if (!target) {
    reply = target.error();
    return;
  }
  const auto& asked = request.arguments.event_revoke;
  const auto found = card.event_grants.find((*target)->id(), {asked.grant, asked.epoch});
  if (!found) {
    reply = refusal(found.error(), Field::AdminGrant);
    return;
  }
  card.event_grants.revoke((*target)->id(), asked.grant);
}

void query_function(Card& card, Function& caller, const AdminRequest& request, AdminReply& reply) {
  const auto target = resolve_target(card, caller, request);
  if (!target) {
    reply = target.error();
    return;
  }
  describe(card, **target, reply);
}

}  // namespace fw
