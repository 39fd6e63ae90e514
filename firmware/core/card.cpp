// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/card.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>

#include "firmware/core/admin.hpp"
#include "firmware/core/binding.hpp"
#include "firmware/core/control_server.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/log_line.hpp"
#include "firmware/core/loop_watch.hpp"
#include "firmware/core/reset.hpp"
#include "firmware/core/self_test.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"
#include "shared/timeouts.hpp"

namespace fw {

using wire::FaultPoint;
using wire::PostCode;

namespace {

// What a turn may spend on one function before the others get theirs.
constexpr unsigned kControlBudget = 4;
constexpr unsigned kAdminBudget = 4;
constexpr unsigned kFetchBudget = 64;
constexpr unsigned kStepBudget = 64;
// Blocks that cost the card three quarters of a microsecond each (empty or refused ones) must not get more of a turn than
// the bytes of others, which get kTurnTicks.
constexpr unsigned kContendedBudget = 32;
// Reading the clock costs as much as a whole empty turn: the heartbeat looks at it rarely.
constexpr unsigned kTurnsPerLook = 32;
constexpr unsigned kStepsOfATurn = 4;      // that cost as much as an empty turn and a look at the clock
constexpr unsigned kStepsOfCommands = 32;  // commands or messages of one function, at most that many in a turn

// Restarts before a life that was as long as this (1 s) do not count against the next one.
constexpr std::uint64_t kBeatsOfAGoodBoot = wire::kTicksPerSecond / wire::kHeartbeatTicks;

// ---- boot ---------------------------------------------------------------------------------------------------------------

// Survives a warm reset: how often the card booted, whose slots are whose, and behind it the pool's bitmaps. All zero:
// the card has been off. Anything else that is not whole fails the boot, because memory of dead owners would be granted
// as clean; a power cycle makes it so.
struct Persistent {
  static constexpr std::uint64_t kMagic = 0x3353524550595353;
  static constexpr std::uint32_t kVersion = 4;
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t crc32c;  // over boot_epoch
  std::uint64_t boot_epoch;
  std::uint8_t reserved[104];
  SlotTable::Stored slots;
};
static_assert(sizeof(Persistent) == 16 * wire::kStickBytes);

// The console line is what a person sees of a boot, and `spyre boot` draws its time line from: "post 0x7 at 812 us: …".
void set_post(Card& card, PostCode code) {
  card.post = code;
  hal::note(wire::RecordedEventKind::Post, static_cast<std::uint32_t>(code), 0);
  LogLine line;
  line.text("post 0x").number(static_cast<std::uint32_t>(code), 16).text(" at ");
  line.number(hal::now() / wire::kTicksPerMicrosecond).text(" us: ").text(wire::name(code));
  if (shown_post(card) == static_cast<std::uint32_t>(code)) hal::log(line.c_str());
  for (std::uint32_t f = 0; f < card.function_count; ++f) {
    Function& function = card.functions[f];
    if (function.bound()) wire::store_release(function.header().post_code, shown_post(card));
  }
}

std::uint32_t checksum(const Persistent& persistent) {
  return wire::crc32c(0, &persistent.boot_epoch, sizeof persistent.boot_epoch);
}

// Marks a step of the boot; fault injection may want it to be the last one.
void reach(Card& card, PostCode code) {
  if (card.post != code) set_post(card, code);
  while (code == card.options.stop_at) hal::sleep_until(hal::now() + wire::kTicksPerSecond);
}

// True: the memory of an earlier life is there and can be believed. False: there was none.
std::expected<bool, std::string_view> judge_persistent(const Persistent& persistent) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&persistent, 1));
  if (std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; })) return false;
  if (persistent.magic != Persistent::kMagic && !mutated(Mutant::Persistent, wire::Status::BadMagic)) {
    return std::unexpected("persistent memory has a wrong magic word: power-cycle the card");
  }
  if (persistent.version != Persistent::kVersion && !mutated(Mutant::Persistent, wire::Status::Unsupported)) {
    return std::unexpected("persistent memory is of another version: power-cycle the card");
  }
  if (persistent.crc32c != checksum(persistent) && !mutated(Mutant::Persistent, wire::Status::BadCrc)) {
    return std::unexpected("persistent memory has a wrong checksum: power-cycle the card");
  }
  return true;
}

std::expected<void, std::string_view> init_persistent(Card& card) {
  if (hal::persistent_bytes() < sizeof(Persistent) + RegionPool::bitmap_bytes()) {
    return std::unexpected("persistent memory too small");
  }
  auto& persistent = *reinterpret_cast<Persistent*>(hal::persistent());
  const auto judged = judge_persistent(persistent);
  if (!judged) return std::unexpected(judged.error());
  const bool warm = *judged;
  card.boot_epoch = warm ? persistent.boot_epoch + (mutated(Mutant::BootEpoch) ? 0 : 1) : 1;
  persistent.magic = Persistent::kMagic;
  persistent.version = Persistent::kVersion;
  persistent.boot_epoch = card.boot_epoch;
  persistent.crc32c = checksum(persistent);
  card.slots.init(persistent.slots, warm, card.options.virtual_functions + 2);
  card.pool.init(hal::region_memory(), hal::persistent() + sizeof(Persistent), warm, card.options);
  return {};
}

// The slot that the function had when the card was reset, or its first one. A function whose slot was retired has none.
bool start_function(Card& card, unsigned id, wire::FunctionKind kind, std::uint32_t index) {
  create_function(card, id, kind, index);
  card.function_count = id + 1;
  const auto place = card.slots.place_of(id);
  return !place || bind_slot(card, card.functions[id], *place);
}

// Of mutants: whole, but for one thing.
void lose_a_part(wire::FatalRecord& record) {
  for (auto& hart : record.harts) {
    if (mutated(Mutant::RecordedPc)) hart.pc = 0;
    if (mutated(Mutant::RecordedWaypoint)) hart.waypoint = wire::Waypoint::None;
  }
  for (auto& event : record.events) {
    if (mutated(Mutant::RecordedEvents)) event = {};
  }
  if (mutated(Mutant::RecordedWaiting)) record.waiting_for = 0;
  record.crc32c = 0;
  record.crc32c = wire::crc32c(0, &record, sizeof record);
}

// M shows what an earlier life left behind; nobody else sees it (it holds addresses and registers).
void publish_record(Function& management) {
  static_assert(sizeof(wire::FatalRecord) <= wire::kFatalRecord.bytes && sizeof(wire::FatalRecord) % 8 == 0);
  const wire::FatalRecord* record = hal::previous_record();
  if (record != nullptr) {
    wire::store_shared_words(management.at<std::uint64_t>(wire::kFatalRecord.offset),
                             reinterpret_cast<const std::uint64_t*>(record), sizeof *record / 8);
    const bool part = mutated(Mutant::RecordedPc) || mutated(Mutant::RecordedWaypoint) ||
                      mutated(Mutant::RecordedEvents) || mutated(Mutant::RecordedWaiting);
    if (part) lose_a_part(*management.at<wire::FatalRecord>(wire::kFatalRecord.offset));
  }
  wire::store_release(management.header().record_bytes, std::uint64_t{record == nullptr ? 0 : sizeof *record});
}

// A card that broke shows first that it works.
bool wants_self_test(const Card& card) {
  const wire::FatalRecord* record = hal::previous_record();
  return card.options.self_test || (record != nullptr && record->boot_epoch + 1 == card.boot_epoch);
}

bool map_unbound_slots(const Card& card) {
  for (unsigned slot = 0; slot < hal::slot_count(); ++slot) {
    if (card.slots.use(slot) != SlotTable::Use::Fresh || hal::slot_renewable(slot)) continue;
    if (!hal::map_slot(slot)) return false;
    publish_header(hal::window(slot), {wire::FunctionKind::Unbound, 0, slot, 0}, card.boot_epoch);
  }
  return true;
}

}  // namespace

std::expected<void, std::string_view> boot(Card& card) {
  hal::mark(wire::Waypoint::Boot);
  set_post(card, PostCode::Memory);
  const auto options = parse_boot_options(hal::boot_arguments());
  if (!options) return std::unexpected("boot argument not understood");
  card.options = *options;
  if (!choose_mutant(options->mutant, options->mutant_status)) return std::unexpected("boot argument not understood");
  if (hal::slot_count() < card.options.virtual_functions + 2) return std::unexpected("fewer slots than functions");
  if (card.options.sole_function > card.options.virtual_functions + 1) {
    return std::unexpected("the sole function does not exist");
  }
  reach(card, PostCode::Memory);
  reach(card, PostCode::RegionPool);
  if (const auto kept = init_persistent(card); !kept) return kept;
  finish_retirements(card);
  // M first: from here on POST codes can be read from outside.
  set_post(card, PostCode::Slots);
  if (!start_function(card, kManagement, wire::FunctionKind::Management, 0)) {
    return std::unexpected("slot 0 not usable");
  }
  publish_record(card.functions[kManagement]);
  reach(card, PostCode::Slots);
  reach(card, PostCode::Cores);
  card.core_count = std::min(hal::hart_count(), kMaxCores);
  card.spaces.init(card.core_count, card.options.virtual_functions + 1, card.pool);
  card.run_queues.init();
  card.launches.init(card.options.watchdog_slices, card.spaces, card.run_queues, card.pool, card.faults);
  reach(card, PostCode::Functions);
  if (!start_function(card, kPhysical, wire::FunctionKind::Physical, 0)) {
    return std::unexpected("slot of the physical function not usable");
  }
  for (std::uint32_t vf = 1; vf <= card.options.virtual_functions; ++vf) {
    if (!start_function(card, kPhysical + vf, wire::FunctionKind::Virtual, vf)) {
      return std::unexpected("slot of a virtual function not usable");
    }
  }
  if (card.options.map_all && !map_unbound_slots(card)) return std::unexpected("no room to map all slots");
  for (std::uint32_t f = 0; f < card.function_count; ++f) {
    if (card.functions[f].bound()) publish_header(card.functions[f], card.boot_epoch);
  }
  if (wants_self_test(card)) {
    reach(card, PostCode::SelfTest);
    if (const auto passed = run_boot_self_test(); !passed) return passed;
  }
  card.next_heartbeat = hal::now();
  hal::set_after_record(card.options.restart_on_panic ? hal::AfterRecord::Restart : hal::AfterRecord::Exit,
                        card.boot_epoch);
  reach(card, PostCode::Ready);
  return {};
}

// ---- the loop -----------------------------------------------------------------------------------------------------------

namespace {

// M hears of each function's violations at once, whatever their number: a flood of them costs an event per heartbeat.
void tell_violations(Card& card) {
  Function& management = card.functions[kManagement];
  for (std::uint32_t f = kPhysical; f < card.function_count; ++f) {
    Function& function = card.functions[f];
    if (function.violations == function.violations_told) continue;
    function.violations_told = function.violations;
    hal::note(wire::RecordedEventKind::Violation, f, static_cast<std::uint64_t>(function.last_violation));
    wire::DeviceEvent event{};
    event.kind = wire::EventKind::FunctionViolation;
    event.target = f;
    event.status = function.last_violation;
    event.argument = function.violations;
    event.time = hal::now();
    post_event(management, event);
    notify(management);
  }
}

// What a function hears of at each heartbeat, whatever the number of times it happened.
void tell_of_functions(Card& card) {
  for (std::uint32_t f = kPhysical; f < card.function_count; ++f) {
    Function& function = card.functions[f];
    if (function.stats.stats.ring_violations == function.ring_violations_told) continue;
    tell_ring_violations(function);
    notify(function);
  }
  card.launches.take_warnings([&](std::uint32_t f, std::uint32_t stream, std::uint64_t slices) {
    post_stream_event(card.functions[f], wire::EventKind::WatchdogWarning, stream, wire::Status::None, slices);
    notify(card.functions[f]);
  });
}

}  // namespace

void beat(Card& card) {
  if (++card.turns_since_look < kTurnsPerLook && card.stepped_at < card.next_heartbeat) return;
  card.turns_since_look = 0;
  hal::stop_if_recording();
  const std::uint64_t now = hal::now();
  if (now < card.next_heartbeat) return;
  hal::mark(wire::Waypoint::Beat);
  card.next_heartbeat = now + wire::kHeartbeatTicks;
  if (++card.heartbeat == kBeatsOfAGoodBoot) hal::mark_boot_good();
  for (std::uint32_t f = 0; f < card.function_count; ++f) {
    Function& function = card.functions[f];
    if (!function.bound()) continue;
    if (card.faults.armed(FaultPoint::Heartbeat)) [[unlikely]]
      if (card.faults.occur(FaultPoint::Heartbeat, {.function = f})) continue;
    if (!mutated(Mutant::Heartbeat)) wire::store_relaxed(function.header().heartbeat, card.heartbeat);
  }
  tell_violations(card);
  tell_of_functions(card);
}

namespace {

// Ends what the cores have finished. Bit f of the result: function f has completions that its driver may wait for.
std::uint64_t collect_launches(Card& card) {
  std::uint64_t ended = 0;
  card.launches.collect([&](const LaunchResult& result) {
    hal::mark(wire::Waypoint::Collect);
    launch_ended(card.functions[result.function], result);
    ended |= std::uint64_t{1} << result.function;
    card.look_at(card.functions[result.function]);
    retry_waiting_launch(card.functions[result.function]);
  });
  return ended;
}

bool ready(Function& function) {
  if (!function.bound()) return false;
  if (control_pending(function)) return true;
  if (!function.running() || function.reset_running) return false;
  // What has to wait for a block or a command to end is no reason to stay awake; worse, it would keep hart 0 from the
  // very kernel that it waits for.
  if (function.pending_admin_count < function.pending_admin.size() && function.queues[wire::kAdminQueue].ready()) {
    return true;
  }
  return !function.blocks.empty() && function.queues[wire::kControlBlockQueue].ready();
}

// Whether the function has something for hart 0; it waits for its turn then.
bool notice(Card& card, Function& function) {
  const bool waits = ready(function);
  if (waits) {
    card.look_at(function);
  } else if (!card.busy(function)) {
    function.seen = card.served;
  }
  return waits;
}

bool anything_ready(Card& card) {
  bool any = card.launches.ended_pending();
  for (std::uint32_t f = 0; f < card.function_count; ++f) {
    any |= notice(card, card.functions[f]);
  }
  return any;
}

void arm(Card& card) {
  for (std::uint32_t f = 0; f < card.function_count; ++f) {
    card.functions[f].queues[wire::kAdminQueue].arm();
    card.functions[f].queues[wire::kControlBlockQueue].arm();
  }
}
void disarm(Card& card) {
  for (std::uint32_t f = 0; f < card.function_count; ++f) {
    card.functions[f].queues[wire::kAdminQueue].disarm();
    card.functions[f].queues[wire::kControlBlockQueue].disarm();
  }
}

// Arms every ring, then looks again: what came between the last look and the arming has signalled no doorbell (protocol §8).
bool armed_and_quiet(Card& card) {
  arm(card);
  wire::full_fence();
  if (!anything_ready(card)) return true;
  disarm(card);
  return false;
}

// `any`: something of the function has ended already in this turn, and shares its doorbell.
bool serve(Card& card, Function& function, bool any) {
  const bool contended = card.contended();
  any |= fetch_blocks(card, function, (contended ? kContendedBudget : kFetchBudget) * function.weight);
  any |= run_streams(card, function, (contended ? kContendedBudget : kStepBudget) * function.weight);
  bool told = serve_admin(card, function, kAdminBudget);
  if (function.bound() && serve_control(card, function, kControlBudget)) told = card.served_control = true;
  if (told) card.note_work(kStepsOfCommands);
  any |= told;
  any |= progress_admin(card, function);
  if (function.reset_running) any |= progress_resets(card, function);
  if (any) notify(function);
  return any;
}

// Whether something of the function is under way that no ring tells of: then it is not quiet.
bool under_way(const Function& function) {
  return function.reset_running || function.pending_admin_count != 0 || function.runnable.any() ||
         function.stalls_end != kNever;
}

void look_for_quiet_ones(Card& card) {
  card.look_at_all = false;
  card.unseen_work = 0;
  for (std::uint32_t f = 0; f < card.function_count; ++f) {
    if (!card.busy(card.functions[f])) notice(card, card.functions[f]);
  }
}

bool look(Card& card, unsigned f, bool ended) {
  Function& function = card.functions[f];
  if (!card.busy(function)) function.seen.quanta = card.served.quanta;
  const Served before = card.served;
  const bool any = serve(card, function, ended);
  if (any) {
    function.most_waited.quanta = std::max(function.most_waited.quanta, before.quanta - function.seen.quanta);
    function.most_waited.bytes = std::max(function.most_waited.bytes, before.bytes - function.seen.bytes);
    ++card.served.quanta;
  }
  function.seen = card.served;
  card.served_functions += any ? 1 : 0;
  if (any || under_way(function)) {
    function.quiet_looks = 0;
    card.look_at(function);
  } else if (++function.quiet_looks >= kQuietLooks) {
    card.busy_functions &= ~(std::uint32_t{1} << f);
  }
  return any;
}

}  // namespace

void Card::note_work(std::uint64_t steps) {
  turns_since_look += static_cast<unsigned>(steps / kStepsOfATurn);
  unseen_work += steps;
  look_at_all |= unseen_work >= kContendedBudget;
}

std::uint32_t shown_post(const Card& card) {
  const bool shown = card.post == PostCode::Ready || !mutated(Mutant::BootSteps);
  return static_cast<std::uint32_t>(shown ? card.post : PostCode::None);
}

bool somebody_waits(Card& card, const Function& function) {
  if (card.launches.ended_pending()) return true;
  for (std::uint32_t f = 0; f < card.function_count; ++f) {
    Function& other = card.functions[f];
    if (f == function.id ? control_pending(other) : ready(other)) return true;
  }
  return false;
}

bool turn(Card& card) {
  const std::uint64_t ended = collect_launches(card);
  card.served_functions = 0;
  card.served_control = false;
  bool any = false;
  std::uint32_t looked_at = 0;
  // Each function once. Who was quiet and is found behind a long quantum has its turn in this same round, so
  // that nobody is served twice while somebody waits.
  for (;;) {
    if (card.look_at_all) look_for_quiet_ones(card);
    const std::uint32_t left = card.busy_functions & ~looked_at;
    if (left == 0) break;
    const auto f = static_cast<unsigned>(std::countr_zero(left));
    looked_at |= std::uint32_t{1} << f;
    any |= look(card, f, (ended >> f & 1) != 0);
    for (int more = 0; more < 7 && mutated(Mutant::OneQuantum); ++more) any |= look(card, f, false);
  }
  const std::uint32_t turns = card.turns.load(std::memory_order_relaxed) + 1;
  card.turns.store(turns, std::memory_order_relaxed);
  if (turns % kTurnsPerQuietLook != 0) return any;
  if (++card.quiet_cursor >= card.function_count) card.quiet_cursor = 0;
  const std::uint32_t quiet = ~(card.busy_functions | looked_at);
  if ((quiet >> card.quiet_cursor & 1) != 0) any |= look(card, card.quiet_cursor, false);
  return any;
}

namespace {

// Its share is one of time: a page that the machine has to find first takes a hundred times as long as one it has.
void scrub_beside_work(Card& card) {
  if (!card.pool.scrubbing()) return;
  const std::uint64_t now = hal::now();
  if (now - card.scrubbed_at < card.scrub_took * (card.scrub_wanted ? 1 : kWorkPerScrub)) return;
  card.scrub_wanted = false;  // who waits says so again
  card.pool.scrub_step(kScrubBesideWorkBytes);
  card.scrubbed_at = hal::now();
  card.scrub_took = card.scrubbed_at - now;
}

}  // namespace

namespace {

// When the first thing that a fault holds back goes on.
std::uint64_t stalls_end(const Card& card) {
  std::uint64_t end = kNever;
  for (std::uint32_t f = kPhysical; f < card.function_count; ++f) {
    end = std::min({end, card.functions[f].stalls_end, card.functions[f].reset_stall_end});
  }
  return end;
}

}  // namespace

namespace {

// Kernels on core 0, which is hart 0 itself. True when one ran.
bool run_slice(Card& card, std::uint64_t slice_ticks) {
  const bool masked = card.doorbells.masked();
  if (masked) hal::hold_doorbells();
  const bool ran = card.launches.run_slice(0, card.doorbells.slice(slice_ticks));
  if (masked) hal::accept_doorbells();
  if (card.doorbells.slice_ended(ran && card.launches.signalled())) card.look_at_all = true;
  return ran;
}

}  // namespace

void idle(Card& card, unsigned& quiet_turns) {
  beat(card);
  if (card.run_queues.has_work(0)) {
    quiet_turns = 0;
    // The first slice is short and runs unarmed: most kernels that tests use end in it, and arming costs the host doorbells.
    if (card.run_queues.front_is_fresh(0)) {
      run_slice(card, card.contended() ? kLongestSharedTicks : kFirstSliceTicks);
      return;
    }
    scrub_beside_work(card);
    if (!armed_and_quiet(card)) return;
    run_slice(card, kSliceTicks);
    disarm(card);
    card.turns_since_look = kTurnsPerLook;
    return;
  }
  if (card.pool.scrub_step(kScrubStepBytes) || ++quiet_turns < kIdleTurns) return;
  quiet_turns = 0;
  if (!armed_and_quiet(card)) return;
  ++card.sleeps;
  card.turns_since_look = kTurnsPerLook;  // whatever ends the sleep, the heartbeat is looked at next
  const std::uint64_t deadline = card.options.timers ? hal::now() + wire::kHeartbeatTicks : kNever;
  // Without timers (tests, boot word) doorbells alone must suffice.
  hal::sleep_until(std::min(deadline, stalls_end(card)));
  disarm(card);
}

namespace {

// A turn, and before it what a fault makes of the loop: whoever arms one waits for the next turn.
bool breakable_turn(Card& card) {
  if (card.faults.armed_any(kLoopPoints)) [[unlikely]]
    break_loop(card);
  return turn(card);
}

// Goes on with a conversation before kernels run again.
void spin(Card& card) {
  for (unsigned messages = 0; card.served_control && messages < kMostSpins; ++messages) {
    unsigned quiet = 0;
    while (quiet < kSpinTurns && !breakable_turn(card)) ++quiet;
    beat(card);
    if (quiet == kSpinTurns) return;
  }
}

// Kernels on core 0 after a turn that served rings. With one function there is nobody to be fair to. With several, a slice
// is as long as what the turn gave to each that has work in its rings.
void run_beside_rings(Card& card, std::uint64_t turn_began) {
  if (turn_began == 0) {
    run_slice(card, kFirstSliceTicks);
    return;
  }
  const std::uint64_t took = (hal::now() - turn_began) / std::max(card.served_functions, 1u);
  // A little less: a slice also costs the rings the translations that they had (the next copy takes up to twice as long).
  const std::uint64_t slice = std::clamp(took * 3 / 4, kShortestSharedTicks, kLongestSharedTicks);
  // Not one for each of them: a transfer is many turns, and each would wait for all. A third keeps everybody within twice
  // its fair share.
  const int functions = std::popcount(card.run_queues.functions_on(0));
  for (int slices = (functions + 2) / 3; slices > 0; --slices) {
    if (!run_slice(card, slice)) return;
  }
}

}  // namespace

namespace {

// The next boot tells everybody by its epoch. No record is written: nothing has failed.
[[noreturn, gnu::cold, gnu::noinline]] void restart_firmware() {
  hal::log("restart: ordered by M");
  hal::restart_board();
}

}  // namespace

void loop_step(Card& card, unsigned& quiet_turns) {
  const std::uint64_t began = card.run_queues.has_work(0) && card.contended() ? hal::now() : 0;
  const bool any = breakable_turn(card);
  card.doorbells.turn_ended(any);
  if (card.restart_requested) [[unlikely]]
    restart_firmware();
  if (!any) return idle(card, quiet_turns);
  quiet_turns = 0;
  if (card.served_control && card.run_queues.has_work(0)) spin(card);
  // A busy ring must not starve a kernel that runs on hart 0, nor the heartbeat.
  beat(card);
  scrub_beside_work(card);
  if (!card.run_queues.has_work(0)) return;
  run_beside_rings(card, began);
  // With one function, whose kernels may be short, now and then is often enough.
  card.look_at_all |= began != 0 || card.turns.load(std::memory_order_relaxed) % kTurnsPerQuietLook == 0;
}

namespace {

// Raw storage in .bss, constructed at boot: only members that do not start as zero are written (the block pools alone
// are megabytes that a boot should not touch).
alignas(Card) std::byte card_storage[sizeof(Card)];
std::atomic<Card*> the_card{nullptr};

}  // namespace

void boot_main(unsigned) {
  Card& card = *new (card_storage) Card;
  if (const auto booted = boot(card); !booted) {
    set_post(card, PostCode::Failed);
    hal::panic(booted.error().data());
  }
  the_card.store(&card, std::memory_order_release);
  for (unsigned core = 1; core < card.core_count; ++core) hal::wake(core);
  // bounded: the life of the card; a step is bounded, and another hart watches
  for (unsigned quiet_turns = 0;;) loop_step(card, quiet_turns);
}

void core_main(unsigned hart) {
  // Short kernels follow each other at less than what a look at the clock costs.
  constexpr unsigned kSlicesPerLook = 32;
  LoopWatch watch;
  for (unsigned slices = 0;;) {
    Card* card = the_card.load(std::memory_order_acquire);
    if (card != nullptr && card->launches.run_slice(hart, kSliceTicks) && ++slices % kSlicesPerLook != 0) continue;
    const std::uint64_t now = hal::now();
    if (card != nullptr && watch.stands_still(*card, now)) hal::stuck(0, "hart 0's loop stands still");
    if (card == nullptr || !card->run_queues.has_work(hart)) hal::sleep_until(now + kCoreNapTicks);
  }
}

}  // namespace fw
