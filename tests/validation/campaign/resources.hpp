// SPDX-License-Identifier: Apache-2.0
// What a scenario may leave behind on the card, counted before and after. In this process: tests/support.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "host_driver/device/device.hpp"
#include "tests/support/process_resources.hpp"

namespace svp::campaign {

struct CardResources {
  std::uint64_t granted_bytes = 0;  // of all functions
  std::uint64_t free_bytes = 0;
  std::uint32_t bound = 0;  // functions that have a slot
  std::uint64_t launches = 0;
  std::uint64_t streams = 0;      // but those with number 0
  std::uint64_t arena_pages = 0;  // of firmware memory, page tables included …
  std::uint64_t table_pages = 0;  // … and these alone
  friend bool operator==(const CardResources&, const CardResources&) = default;
};
// Asks M; waits, at most `bound`, until no released memory is dirty any more. Throws svp::Error.
CardResources count_card_resources(Device& management, std::chrono::milliseconds bound);
std::string difference(const CardResources& before, const CardResources& now);

}  // namespace svp::campaign
