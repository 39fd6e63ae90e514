// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>

#include "host_driver/campaign/scenario.hpp"
#include "host_driver/campaign/scenarios.hpp"

namespace flex::campaign {

namespace {

using enum Section;

constexpr std::array<Scenario, 40> kCatalogue{{
    {"F1",
     Driver,
     "allocation failure at every driver allocation, during open and under load",
     "exhaustion of the host",
     {},
     allocation_fails_during_open},
    {"F2", Driver, "bring-up step k of n fails, for all k", "failed steps of bring-up", {}, bring_up_step_fails},
    {"F3", Driver, "creation of streams and regions fails", "refusal by the card's tables", {}, creation_fails},
    {"F4", Driver, "reply lost after success", "bounded wait for the reply", {}, reply_lost_after_success},
    {"F5", Driver, "malformed control messages", "form of control messages", {}, malformed_control_messages},
    {"F6", Commands, "bad opcodes", "form of control blocks", {}, bad_opcodes},
    {"F7", Commands, "bad lengths, truncated, reserved bits, bad CRC", "form of control blocks", {}, bad_forms},
    {"F8", Commands, "misaligned, zero and overflowing counts", "form of control blocks", {}, bad_counts},
    {"F9", Commands, "wrong direction or access", "the resolver", {}, wrong_direction},
    {"F10", Commands, "address outside of the region table", "the resolver", {}, address_outside_the_table},
    {"F11", Commands, "freed regions, other functions' regions", "the resolver", {}, freed_and_foreign_regions},
    {"F12", Commands, "storm of a thousand bad jobs", "incarnations of streams", {}, fault_storm},
    {"F13", Commands, "circular, over-long and partly published chains", "descriptor chains", {}, bad_chains},
    {"F14", Execution, "endless kernel", "the kernels' watchdog", {}, endless_kernel},
    {"F15", Execution, "completion never posted", "bounded wait of the reset", {}, completion_never_posted},
    {"F16",
     Execution,
     "firmware stuck",
     "watchdog over hart 0's loop",
     {.words = "loop_watchdog_ms=250"},
     firmware_stuck},
    {"F17",
     Execution,
     "reset with 0, 1, many blocks and a full ring in flight",
     "exactly one outcome",
     {.reply_missing = true},
     reset_with_work_in_flight},
    {"F18", Execution, "guilty and innocent streams", "a kernel's trap", {}, guilty_and_innocent_streams},
    {"F19",
     Execution,
     "three strikes: the stream is banned",
     "strikes of a stream",
     {.words = "strikes=3"},
     three_strikes},
    {"F20",
     Execution,
     "good and bad jobs from several processes",
     "form of control blocks",
     {.own_card = true},
     several_processes},
    {"F21",
     Execution,
     "reset of an invalid or unstarted target",
     "rights of admin commands",
     {.reply_missing = true},
     reset_of_an_invalid_target},
    {"F22",
     Execution,
     "owner killed with work in flight",
     "end of the owner's process",
     {.own_card = true},
     owner_killed},
    {"F23",
     Execution,
     "reset races with submit, reset, close, region release and allocation",
     "exactly one outcome",
     {},
     reset_races},
    {"F24",
     Execution,
     "cancel before the start, running, ended, twice",
     "exactly one outcome",
     {},
     cancel_at_every_stage},
    {"F25", Card, "the reset itself fails: escalation, then wedged", "escalation", {.own_card = true}, the_reset_fails},
    {"F26",
     Card,
     "stuck admin command while a reset is asked for",
     "bounded wait for the reply",
     {.reply_missing = true},
     stuck_admin_command},
    {"F27", Card, "corrected memory error", "memory errors", {}, corrected_memory_error},
    {"F28",
     Card,
     "uncorrectable memory error: job ends, memory is retired",
     "memory errors",
     {},
     uncorrectable_memory_error},
    {"F29", Card, "corrupted DMA payload: retries, then a fault", "checksum of the payload", {}, corrupted_dma_payload},
    {"F30", Card, "DMA slow or stalled", "budget of a transfer", {}, slow_or_stalled_dma},
    {"F31", Card, "firmware trap: record, restart, self-test", "boot epoch", {}, firmware_trap},
    {"F32",
     Card,
     "boot: stuck at a step, wrong magic, CRC, version",
     "steps of the boot",
     {.own_card = true},
     boot_failures},
    {"F33",
     Tenants,
     "function reset clears memory, table, scratchpad, rings",
     "scrubbing",
     {},
     reset_clears_everything},
    {"F34",
     Tenants,
     "function reset of one leaves all others alone",
     "generation of the function",
     {},
     reset_of_one_leaves_the_others},
    {"F35", Tenants, "function reset of all in parallel", "generation of the function", {}, reset_of_all_in_parallel},
    {"F36", Tenants, "two resets of one function at once", "generation of the function", {}, two_resets_at_once},
    {"F37", Tenants, "noisy neighbour: quota kept, the other goes on", "quotas", {}, noisy_neighbour},
    {"F38",
     Platform,
     "hot unplug: emulator killed with handles open",
     "the emulator's end",
     {.own_card = true},
     hot_unplug},
    {"F39", Platform, "a thousand resets under mixed load", "exactly one outcome", {}, thousand_resets},
    {"F40",
     Platform,
     "fuzzed blocks and messages on memory that changes",
     "form, chains, resolver and incarnations",
     {},
     fuzzing_under_mutation},
}};

bool same_id(std::string_view id, std::string_view given) {
  return std::ranges::equal(
      id, given, [](char a, char b) { return a == static_cast<char>(std::toupper(static_cast<unsigned char>(b))); });
}

}  // namespace

std::span<const Scenario> catalogue() { return kCatalogue; }

const Scenario* find_scenario(std::string_view id) {
  const auto* found = std::ranges::find_if(kCatalogue, [&](const Scenario& one) { return same_id(one.id, id); });
  return found == kCatalogue.end() ? nullptr : found;
}

}  // namespace flex::campaign
