// SPDX-License-Identifier: Apache-2.0
// What a scenario may leave behind: counted before and after, in this process and on the card.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "host_driver/device/device.hpp"

namespace svp::campaign {

struct ProcessResources {
  std::size_t processes = 0;  // descendants of this process, also re-parented ones
  std::size_t descriptors = 0;
  std::size_t memory_files = 0;  // mappings of memfds: windows
  std::size_t threads = 0;
  friend bool operator==(const ProcessResources&, const ProcessResources&) = default;
};
ProcessResources count_process_resources();
// A reaper ends a moment after its emulator: looks again until the count is `before`, for at most `bound`.
ProcessResources settled_process_resources(const ProcessResources& before, std::chrono::milliseconds bound);
// Empty when equal: "2 descriptors more, 1 thread less".
std::string difference(const ProcessResources& before, const ProcessResources& now);

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
