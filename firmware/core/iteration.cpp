// SPDX-License-Identifier: Apache-2.0
// One iteration of hart 0's loop: everything that is ready, within budgets.
#include "firmware/core/admin.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/control_server.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/main_loop.hpp"
#include "firmware/core/reset.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

namespace {

// What an iteration may spend on one function before the others get theirs, with nobody else busy: see
// Card::kContendedBudget.
constexpr unsigned kControlBudget = 4;
constexpr unsigned kAdminBudget = 4;
constexpr unsigned kFetchBudget = 64;
constexpr unsigned kStepBudget = 64;
constexpr unsigned kStepsOfCommands = 32;  // commands or messages of one function, at most that many in an iteration

// Ends what the cores have finished. Bit f of the result: function f has completions that its driver may wait for.
std::uint64_t collect_launches(Card& card) {
  std::uint64_t ended = 0;
  card.launches.collect([&](const LaunchResult& result) {
    hal::mark(wire::Waypoint::Collect);
    Function& function = card.functions[result.function];
    if (result.failed_memory != 0) [[unlikely]] {
      launch_ended(function, locate_failed_memory(card, function, result));
    } else {
      launch_ended(function, result);
    }
    ended |= std::uint64_t{1} << result.function;
    card.plan.look_at(card.functions[result.function]);
    retry_waiting_launch(card.functions[result.function]);
  });
  return ended;
}

bool ready(Function& function) {
  if (!function.bound()) return false;
  if (control_pending(function)) return true;
  if (!function.running() || function.reset.running()) return false;
  // What has to wait for a block or a command to end is no reason to stay awake; worse, it would keep hart 0 from the
  // very kernel that it waits for.
  if (!function.commands.full() && function.queues[wire::kAdminQueue].ready()) {
    return true;
  }
  return function.streams.room() && function.queues[wire::kControlBlockQueue].ready();
}

// Whether something of the function is under way that no ring tells of: then it is not quiet.
bool under_way(const Function& function) {
  return function.reset.running() || function.commands.any() || function.streams.any_runnable() ||
         function.streams.stalls_end() != kNever;
}

// Whether the function has something for hart 0; it waits for its quantum then.
bool notice(Card& card, Function& function) {
  const bool waits = ready(function);
  if (waits) {
    card.plan.look_at(function);
  } else if (!card.plan.busy(function)) {
    function.waiting.seen(card.plan.served());
  }
  return waits;
}

}  // namespace

bool anything_ready(Card& card) {
  bool any = card.launches.ended_pending();
  for (Function& function : card.functions) any |= notice(card, function);
  return any;
}

namespace {

// While others are busy: one message of the control FIFO, and nothing else of the function, because it may be a reset,
// which takes as long as a quantum and is charged with nothing.
[[gnu::cold, gnu::noinline]] bool serve_message(Card& card, Function& function) {
  serve_control(card, function, 1);
  card.plan.note_control();
  card.note_work(kStepsOfCommands);
  if (function.reset.running()) progress_resets(card, function);
  notify(function);
  return true;
}

// `any`: something of the function has ended already in this iteration, and shares its doorbell.
bool serve(Card& card, Function& function, bool any) {
  const bool contended = card.contended();
  if (contended && function.bound() && control_pending(function)) [[unlikely]]
    return serve_message(card, function);
  const std::uint64_t charged = charged_so_far(card, function);
  any |= fetch_blocks(card, function, (contended ? Card::kContendedBudget : kFetchBudget) * function.weight());
  any |= run_streams(card, function, (contended ? Card::kContendedBudget : kStepBudget) * function.weight(), charged);
  bool told = serve_admin(card, function, kAdminBudget);
  // While others are busy, one that has come since the look above is the next visit's.
  if (!contended && function.bound() && serve_control(card, function, kControlBudget)) {
    card.plan.note_control();
    told = true;
  }
  if (told) card.note_work(kStepsOfCommands);
  any |= told;
  any |= progress_admin(card, function);
  if (function.buffers.any_unused()) [[unlikely]]
    function.buffers.free_unused(card.spaces, function.id());
  if (function.reset.running()) any |= progress_resets(card, function);
  if (any) notify(function);
  return any;
}

void look_for_quiet_ones(Card& card) {
  for (Function& function : card.functions) {
    if (!card.plan.busy(function)) notice(card, function);
  }
}

bool look(Card& card, unsigned f, bool ended) {
  Function& function = card.functions[f];
  PollPlan& plan = card.plan;
  if (!plan.busy(function)) function.waiting.begins(plan.served());
  const Served before = plan.served();
  plan.begin_serving(function);
  const bool any = serve(card, function, ended);
  plan.end_serving();
  if (any) {
    function.waiting.ends(before);
    plan.note_quantum();
  }
  function.waiting.seen(plan.served());
  if (any || under_way(function)) {
    function.not_quiet();
    plan.look_at(function);
  } else if (function.quiet_again(kQuietLooks)) {
    plan.rest(function);
  }
  return any;
}

}  // namespace

bool somebody_waits(Card& card, const Function& function) {
  if (card.launches.ended_pending() || card.run_queues.has_work(0)) return true;
  for (Function& other : card.functions) {
    if (&other == &function ? control_pending(other) : ready(other) || under_way(other)) return true;
  }
  return false;
}

bool run_iteration(Card& card) {
  const std::uint64_t ended = collect_launches(card);
  PollPlan& plan = card.plan;
  plan.begin_iteration();
  bool any = false;
  // Each function once. Who was quiet and is found behind a long quantum is served in this same round, so
  // that nobody is served twice while somebody waits.
  for (;;) {
    if (plan.take_look_at_all()) look_for_quiet_ones(card);
    unsigned f = plan.next();
    const bool last = f == PollPlan::kNobodyLeft;
    if (last) f = plan.end_iteration(card.functions.count());
    if (f == PollPlan::kNobodyLeft) return any;
    any |= look(card, f, (ended >> f & 1) != 0);
    for (int more = 0; more < 7 && mutated(Mutant::OneQuantum) && !last; ++more) any |= look(card, f, false);
    if (last) return any;
  }
}

}  // namespace fw
