// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/stick_buffer.hpp"

#include <utility>

namespace svp {
namespace {

// Larger ones would keep the pinned memory from everybody else for little: the staging copy is hidden behind the DMA.
constexpr std::uint64_t kLargestPinned = 64 * wire::kMiB;

}  // namespace

StickBuffer::StickBuffer(HostMemory& memory, std::span<const StickRun> runs) {
  if (runs.empty()) return;
  first_stick_ = runs.front().first;
  const auto sticks = static_cast<std::uint64_t>(runs.back().first + runs.back().count - first_stick_);
  const std::uint64_t bytes = sticks * wire::kStickBytes;
  if (bytes <= kLargestPinned) {
    if (auto pinned = memory.try_allocate(bytes)) {
      pinned_ = std::move(*pinned);
      bytes_ = pinned_.bytes();
      return;
    }
  }
  pageable_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  bytes_ = {pageable_.get(), bytes};
}

std::vector<Step> StickBuffer::transfers(std::span<const StickRun> runs, AllocationIndex tensor,
                                         Direction direction) const {
  std::vector<Step> steps;
  for (const StickRun& run : runs) {
    const auto at = static_cast<std::uint64_t>(run.first - first_stick_) * wire::kStickBytes;
    steps.emplace_back(DMA{.host_address = bytes_.data() + at,
                           .allocation_index = tensor,
                           .size = static_cast<std::uint64_t>(run.count) * wire::kStickBytes,
                           .direction = direction,
                           .offset = static_cast<std::uint64_t>(run.first) * wire::kStickBytes});
  }
  return steps;
}

std::vector<StridedLoops> StickBuffer::loops_here(std::vector<StridedLoops> nests, LoopSide side,
                                                  std::int64_t eps) const {
  for (StridedLoops& nest : nests) (side == LoopSide::Source ? nest.src_offset : nest.dst_offset) -= first_stick_ * eps;
  return nests;
}

}  // namespace svp
