// SPDX-License-Identifier: Apache-2.0
// The harts' loops: iterations, slices of kernels, sleeps.
#include "firmware/core/main_loop.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>

#include "firmware/core/boot.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/fault_actions.hpp"
#include "firmware/core/loop_watch.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "shared/memory_order.hpp"
#include "shared/timeouts.hpp"

namespace fw {

namespace {

void arm(Card& card) {
  for (Function& function : card.functions) {
    function.queues[wire::kAdminQueue].arm();
    function.queues[wire::kControlBlockQueue].arm();
  }
}
void disarm(Card& card) {
  for (Function& function : card.functions) {
    function.queues[wire::kAdminQueue].disarm();
    function.queues[wire::kControlBlockQueue].disarm();
  }
}

// Arms every ring, then looks again: what came between the last look and the arming has signalled no doorbell (protocol
// §8).
bool armed_and_quiet(Card& card) {
  arm(card);
  wire::full_fence();
  if (!anything_ready(card)) return true;
  disarm(card);
  return false;
}

void scrub_beside_work(Card& card) {
  if (!card.pool.scrubbing()) return;
  const std::uint64_t now = hal::now();
  if (!card.scrubs.due(now)) return;
  card.pool.scrub_step(kScrubBesideWorkBytes);
  card.scrubs.stepped(now, hal::now());
}

// When the first thing that a fault holds back goes on.
std::uint64_t stalls_end(const Card& card) {
  std::uint64_t end = kNever;
  for (const Function& function : card.functions.tenants()) {
    end = std::min({end, function.streams.stalls_end(), function.reset.stall_end()});
  }
  return end;
}

// Kernels on core 0, which is hart 0 itself. True when one ran.
bool run_slice(Card& card, std::uint64_t slice_ticks) {
  const bool masked = card.doorbells.masked();
  if (masked) hal::hold_doorbells();
  const bool ran = card.launches.run_slice(0, card.doorbells.slice(slice_ticks));
  if (masked) hal::accept_doorbells();
  if (card.doorbells.slice_ended(ran && card.launches.signalled())) card.plan.look_at_all();
  return ran;
}

}  // namespace

void idle(Card& card, unsigned& quiet_iterations) {
  [[clang::always_inline]] beat(card);
  if (card.run_queues.has_work(0)) {
    quiet_iterations = 0;
    // The first slice is short and runs unarmed: most kernels that tests use end in it, and arming costs the host
    // doorbells.
    if (card.run_queues.front_is_fresh(0)) {
      run_slice(card, card.contended() ? kLongestSharedTicks : kFirstSliceTicks);
      return;
    }
    scrub_beside_work(card);
    if (!armed_and_quiet(card)) return;
    run_slice(card, kSliceTicks);
    disarm(card);
    card.heart.look_next();
    return;
  }
  const std::uint64_t step = hal::array_version() != 0 ? kScrubStepByArrayBytes : kScrubStepBytes;
  if (card.pool.scrub_step(step) || ++quiet_iterations < kIdleIterations) return;
  quiet_iterations = 0;
  if (!armed_and_quiet(card)) return;
  card.count_sleep();
  card.heart.look_next();  // whatever ends the sleep, the heartbeat is looked at next
  const std::uint64_t deadline = card.options.timers ? hal::now() + wire::kHeartbeatTicks : kNever;
  // Without timers (tests, boot word) doorbells alone must suffice.
  hal::sleep_until(std::min(deadline, stalls_end(card)));
  disarm(card);
}

namespace {

// An iteration, and before it what a fault makes of the loop: whoever arms one waits for the next iteration.
bool iteration_with_faults(Card& card) {
  if (card.faults.armed_any(kLoopPoints)) [[unlikely]]
    break_loop(card);
  bool any;
  [[clang::always_inline]] any = run_iteration(card);
  return any;
}

// Goes on with a conversation before kernels run again.
void spin(Card& card) {
  for (unsigned messages = 0; card.plan.served_control() && messages < kMostSpins; ++messages) {
    unsigned quiet = 0;
    while (quiet < kSpinIterations && !iteration_with_faults(card)) ++quiet;
    beat(card);
    if (quiet == kSpinIterations) return;
  }
}

// Kernels on core 0 after an iteration that served rings. With one function there is nobody to be fair to. With
// several, a slice is as long as what the iteration gave to each that has work in its rings.
void run_beside_rings(Card& card, std::uint64_t iteration_began) {
  if (iteration_began == 0) {
    run_slice(card, kFirstSliceTicks);
    return;
  }
  const std::uint64_t took = (hal::now() - iteration_began) / std::max(card.plan.served_functions(), 1u);
  // A little less: a slice also costs the rings the translations that they had (the next copy takes up to twice as
  // long).
  const std::uint64_t slice = std::clamp(took * 3 / 4, kShortestSharedTicks, kLongestSharedTicks);
  // Not one for each of them: a transfer is many iterations, and each would wait for all. A third keeps everybody
  // within twice its fair share.
  const int functions = std::popcount(card.run_queues.functions_on(0));
  for (int slices = (functions + 2) / 3; slices > 0; --slices) {
    if (!run_slice(card, slice)) return;
  }
}

}  // namespace

namespace {

// The host learns of the next boot by its epoch. No record is written: nothing has failed.
[[noreturn, gnu::cold, gnu::noinline]] void restart_firmware() {
  hal::log("restart: requested by M");
  hal::restart_board();
}

}  // namespace

// At a fixed place of a page: where its parts cross pages, which costs a lookup of the emulator, changes only with
// itself. What an empty block runs through is 3.9 KB from 0xe5c of the function on; kNopsBefore (two bytes each) in
// front of it make that begin with a page (`scripts/count-instructions` tells when it does not any more).
constexpr unsigned kNopsBefore = 212;
[[gnu::aligned(4096), gnu::patchable_function_entry(kNopsBefore, kNopsBefore)]] void loop_step(
    Card& card, unsigned& quiet_iterations) {
  const std::uint64_t began = card.run_queues.has_work(0) && card.contended() ? hal::now() : 0;
  const bool any = iteration_with_faults(card);
  card.doorbells.iteration_ended(any);
  if (card.restart_requested()) [[unlikely]]
    restart_firmware();
  if (!any) return idle(card, quiet_iterations);
  quiet_iterations = 0;
  if (card.plan.served_control() && card.run_queues.has_work(0)) spin(card);
  // A busy ring must not starve a kernel that runs on hart 0, nor the heartbeat.
  [[clang::always_inline]] beat(card);
  scrub_beside_work(card);
  if (!card.run_queues.has_work(0)) return;
  run_beside_rings(card, began);
  // With one function, whose kernels may be short, now and then is often enough.
  if (began != 0 || card.plan.iterations() % kIterationsPerQuietLook == 0) card.plan.look_at_all();
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
    card.set_state(CardState::Failed);
    hal::panic(booted.error());
  }
  card.first_slices.allow(true);
  the_card.store(&card, std::memory_order_release);
  for (unsigned core = 1; core < card.core_count(); ++core) hal::wake(core);
  // bounded: the lifetime of the card; a step is bounded, and another hart watches
  for (unsigned quiet_iterations = 0;;) loop_step(card, quiet_iterations);
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
