// SPDX-License-Identifier: Apache-2.0
// The functions of the catalogue, by section. Each says what happens; trial.hpp says in which order.
#pragma once

#include "tests/validation/campaign/trial.hpp"

namespace svp::campaign {

// Driver and resources
void allocation_fails_during_open(Trial& trial);  // F1
void bring_up_step_fails(Trial& trial);           // F2
void creation_fails(Trial& trial);                // F3
void reply_lost_after_success(Trial& trial);      // F4
void malformed_control_messages(Trial& trial);    // F5
// Command validation
void bad_opcodes(Trial& trial);                // F6
void bad_forms(Trial& trial);                  // F7
void bad_counts(Trial& trial);                 // F8
void wrong_direction(Trial& trial);            // F9
void address_outside_the_table(Trial& trial);  // F10
void freed_and_foreign_regions(Trial& trial);  // F11
void fault_storm(Trial& trial);                // F12
void bad_chains(Trial& trial);                 // F13
// Execution
void endless_kernel(Trial& trial);               // F14
void completion_never_posted(Trial& trial);      // F15
void firmware_stuck(Trial& trial);               // F16
void reset_with_work_in_flight(Trial& trial);    // F17
void guilty_and_innocent_streams(Trial& trial);  // F18
void three_strikes(Trial& trial);                // F19
void several_processes(Trial& trial);            // F20
void reset_of_an_invalid_target(Trial& trial);   // F21
void owner_killed(Trial& trial);                 // F22
void reset_races(Trial& trial);                  // F23
void cancel_at_every_stage(Trial& trial);        // F24
// Card and firmware
void the_reset_fails(Trial& trial);             // F25
void stuck_admin_command(Trial& trial);         // F26
void corrected_memory_error(Trial& trial);      // F27
void uncorrectable_memory_error(Trial& trial);  // F28
void corrupted_dma_payload(Trial& trial);       // F29
void slow_or_stalled_dma(Trial& trial);         // F30
void firmware_trap(Trial& trial);               // F31
void boot_failures(Trial& trial);               // F32
// Tenants
void reset_clears_everything(Trial& trial);         // F33
void reset_of_one_leaves_the_others(Trial& trial);  // F34
void reset_of_all_in_parallel(Trial& trial);        // F35
void two_resets_at_once(Trial& trial);              // F36
void noisy_neighbour(Trial& trial);                 // F37
// Platform
void hot_unplug(Trial& trial);              // F38
void thousand_resets(Trial& trial);         // F39
void fuzzing_under_mutation(Trial& trial);  // F40

}  // namespace svp::campaign
