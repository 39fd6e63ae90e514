// SPDX-License-Identifier: Apache-2.0
// The functions of the catalogue, by section. Each says what happens; context.hpp says in which order.
#pragma once

#include "tests/validation/campaign/scenario_context.hpp"

namespace svp::campaign {

// Driver and resources
void allocation_fails_during_open(ScenarioContext& context);  // F1
void bring_up_step_fails(ScenarioContext& context);           // F2
void creation_fails(ScenarioContext& context);                // F3
void reply_lost_after_success(ScenarioContext& context);      // F4
void malformed_control_messages(ScenarioContext& context);    // F5
// Command validation
void bad_opcodes(ScenarioContext& context);                // F6
void bad_forms(ScenarioContext& context);                  // F7
void bad_counts(ScenarioContext& context);                 // F8
void wrong_direction(ScenarioContext& context);            // F9
void address_outside_the_table(ScenarioContext& context);  // F10
void freed_and_foreign_regions(ScenarioContext& context);  // F11
void fault_burst(ScenarioContext& context);                // F12
void bad_chains(ScenarioContext& context);                 // F13
// Execution
void endless_kernel(ScenarioContext& context);                  // F14
void completion_never_posted(ScenarioContext& context);         // F15
void firmware_stuck(ScenarioContext& context);                  // F16
void reset_with_work_in_flight(ScenarioContext& context);       // F17
void faulting_and_bystander_streams(ScenarioContext& context);  // F18
void three_time_outs(ScenarioContext& context);                 // F19
void several_processes(ScenarioContext& context);               // F20
void reset_of_an_invalid_target(ScenarioContext& context);      // F21
void owner_killed(ScenarioContext& context);                    // F22
void reset_races(ScenarioContext& context);                     // F23
void cancel_at_every_stage(ScenarioContext& context);           // F24
// Card and firmware
void the_reset_fails(ScenarioContext& context);             // F25
void stuck_admin_command(ScenarioContext& context);         // F26
void corrected_memory_error(ScenarioContext& context);      // F27
void uncorrectable_memory_error(ScenarioContext& context);  // F28
void corrupted_dma_payload(ScenarioContext& context);       // F29
void slow_or_stalled_dma(ScenarioContext& context);         // F30
void firmware_trap(ScenarioContext& context);               // F31
void boot_failures(ScenarioContext& context);               // F32
// Tenants
void reset_clears_everything(ScenarioContext& context);         // F33
void reset_of_one_leaves_the_others(ScenarioContext& context);  // F34
void reset_of_all_in_parallel(ScenarioContext& context);        // F35
void two_resets_at_once(ScenarioContext& context);              // F36
void noisy_neighbour(ScenarioContext& context);                 // F37
void captured_work_under_faults(ScenarioContext& context);      // F41
// Platform
void hot_unplug(ScenarioContext& context);              // F38
void thousand_resets(ScenarioContext& context);         // F39
void fuzzing_under_mutation(ScenarioContext& context);  // F40
// The engine
void silently_wrong_result(ScenarioContext& context);  // F45
void core_lost_in_a_gang(ScenarioContext& context);    // F46
void scratchpad_bit_flips(ScenarioContext& context);   // F47
void broken_array(ScenarioContext& context);           // F51
// Programs of libflex
void flex_kernel_fault(ScenarioContext& context);       // F42
void flex_function_reset(ScenarioContext& context);     // F43
void flex_emulator_end(ScenarioContext& context);       // F44
void flex_bundle_fault(ScenarioContext& context);       // F48
void flex_bundle_reset(ScenarioContext& context);       // F49
void flex_damaged_directory(ScenarioContext& context);  // F50

}  // namespace svp::campaign
