// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/resources.hpp"

#include <thread>

#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/management.hpp"

namespace svp::campaign {

CardResources count_card_resources(Device& management, std::chrono::milliseconds bound) {
  const auto limit = std::chrono::steady_clock::now() + bound;
  const unsigned functions = management.config().virtual_functions + 1;
  for (;;) {
    CardResources found;
    std::uint64_t dirty = 0;
    for (wire::Target target = wire::kTargetPhysical; target < wire::kTargetPhysical + functions; ++target) {
      const auto values = figures_of(management, target);
      found.granted_bytes += values.granted_bytes;
      found.bound += values.state == wire::FunctionState::Unbound ? 0 : 1;
      dirty = values.scrub_bytes;
    }
    const auto card = pool_figures(management);
    found.free_bytes = card.free_bytes;
    found.launches = card.launches;
    found.streams = card.streams;
    found.arena_pages = card.arena_pages;
    found.table_pages = card.table_pages;
    if (dirty == 0 || std::chrono::steady_clock::now() > limit) return found;
    std::this_thread::sleep_for(campaign_bounds::kLook);  // bounded: by `bound` of the loop
  }
}

std::string difference(const CardResources& before, const CardResources& now) {
  std::string text;
  const auto compare = [&](std::uint64_t was, std::uint64_t is, const char* what) {
    test::append_difference(text, was, is, what);
  };
  compare(before.granted_bytes, now.granted_bytes, "bytes granted");
  compare(before.free_bytes, now.free_bytes, "bytes of the card free");
  compare(before.bound, now.bound, "functions bound");
  compare(before.launches, now.launches, "launches");
  compare(before.streams, now.streams, "open streams");
  compare(before.arena_pages, now.arena_pages, "arena pages");
  compare(before.table_pages, now.table_pages, "page tables");
  return text;
}

}  // namespace svp::campaign
