// SPDX-License-Identifier: Apache-2.0
// Waits across the functions of an embedded card: all of its contexts are in this process, which holds M.
#include <utility>

#include "qemu/card_impl.hpp"

namespace svp {

TimelineToken Card::offer_timeline(const Timeline& timeline) { return impl_->timelines.offer(timeline); }

Expected<TimelineGrant> Card::redeem_timeline(const TimelineToken& token, wire::Target grantee,
                                              std::uint64_t generation) {
  const auto timeline = impl_->timelines.find(token);
  if (!timeline) return std::unexpected(unknown_timeline());
  const std::lock_guard one(impl_->grant_mutex);
  auto management = open_management({.records_death = false});
  if (!management) return std::unexpected(std::move(management.error()));
  return grant_timeline(**management, *timeline, grantee, generation);
}

}  // namespace svp
