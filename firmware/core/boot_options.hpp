// SPDX-License-Identifier: Apache-2.0
// The card's boot command line (shared/boot_arguments.hpp). Parsed strictly: an unknown word or a bad number is an
// error that names the word.
#pragma once

#include <cstdint>
#include <expected>
#include <string_view>

#include "shared/post_codes.hpp"

namespace fw {

struct BootOptions {
  std::uint32_t virtual_functions = 4;
  bool self_test = false;
  bool map_all = false;
  bool timers = true;
  std::uint64_t populated_budget_bytes = 0;  // 0: none
  std::uint64_t quota_bytes = 0;             // of each VF; 0: none
  std::uint32_t sole_function = 0;           // the only one with a guaranteed share of memory; 0: all have one
  // A kernel may take this many 1 ms slices before it is called hung; it is killed at twice that.
  std::uint64_t watchdog_slices = 10'000;
  bool restart_on_panic = true;  // else the emulator ends
  // Hart 0's loop may stand still for so long, as other harts see it; 0: for ever.
  std::uint64_t loop_watchdog_ms = 5'000;
  wire::PostCode stop_at = wire::PostCode::None;  // fault injection: boot goes no further
  std::uint32_t stream_timeouts = 0;              // time-outs of a stream before it is banned; 0: never
  std::uint64_t mutant = 0;                       // fw::Mutant, in firmware that has them
  std::uint64_t mutant_status = 0;                // wire::Status that it is limited to; 0: not limited
};

// On failure: the offending word.
std::expected<BootOptions, std::string_view> parse_boot_options(std::string_view arguments);

}  // namespace fw
