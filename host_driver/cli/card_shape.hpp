// SPDX-License-Identifier: Apache-2.0
// The options by which the command line describes a card, and what they mean.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "host_driver/broker/broker.hpp"
#include "qemu/card.hpp"

namespace cli {

struct CardShape {
  unsigned virtual_functions = svp::kDefaultVirtualFunctions;
  unsigned cores = 0;  // 0: by this machine
  std::uint64_t memory_bytes = svp::CardOptions{}.memory_bytes;
  unsigned spare_slots = svp::kDefaultSpareSlots;
  std::uint64_t quota_bytes = 0;   // of region memory, per VF; 0: none
  std::uint64_t budget_bytes = 0;  // of populated memory; 0: this machine's share
  std::string array{};             // off, auto or a path; empty: as SPYRE_ARRAY says
};

// Adds --vfs, --cores, --memory, --spares (--slots), --quota, --budget and --array. Sizes: "98G", "512M", "4096MiB",
// bytes.
void add_card_options(CLI::App& command, CardShape& shape);

// The same ranges, for a shape that does not come from the command line: what is out of range. Empty: nothing is.
std::string what_is_wrong_with(const CardShape& shape);

// `sharing`: cards that this machine's memory has to do for, this one included.
svp::CardOptions card_options(const CardShape& shape, unsigned sharing);

// Cards that run now in the user's runtime folder. Throws svp::Error.
unsigned count_running_cards();

}  // namespace cli
