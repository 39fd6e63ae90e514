// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/stick_buffer.hpp"

#include <algorithm>
#include <utility>

namespace svp {
namespace {

// Larger ones would keep the pinned memory from everybody else for little: the staging copy is hidden behind the DMA.
constexpr std::uint64_t kLargestPinned = 64 * wire::kMiB;

std::uint64_t bytes_spanned(std::span<const StickRun> runs) {
  if (runs.empty()) return 0;
  return static_cast<std::uint64_t>(runs.back().first + runs.back().count - runs.front().first) * wire::kStickBytes;
}

}  // namespace

std::uint64_t largest_pinned(const HostMemory& memory) {
  return std::min(kLargestPinned, memory.statistics().total_bytes / 2);
}

std::uint64_t bytes_of(std::span<const StickRun> runs) {
  std::uint64_t sticks = 0;
  for (const StickRun& run : runs) sticks += static_cast<std::uint64_t>(run.count);
  return sticks * wire::kStickBytes;
}

std::shared_ptr<const StickBuffer> StickBuffer::pinned(HostMemory& memory, std::span<const StickRun> runs) {
  const std::uint64_t bytes = bytes_spanned(runs);
  if (bytes > largest_pinned(memory)) return nullptr;
  auto pinned = memory.try_allocate(bytes);
  if (!pinned) return nullptr;
  const std::shared_ptr<StickBuffer> buffer(new StickBuffer());
  if (!runs.empty()) buffer->first_stick_ = runs.front().first;
  buffer->pinned_ = std::move(*pinned);
  buffer->bytes_ = buffer->pinned_.bytes();
  return buffer;
}

std::shared_ptr<const StickBuffer> StickBuffer::any(HostMemory& memory, std::span<const StickRun> runs) {
  if (auto buffer = pinned(memory, runs)) return buffer;
  const std::uint64_t bytes = bytes_spanned(runs);
  const std::shared_ptr<StickBuffer> buffer(new StickBuffer());
  if (!runs.empty()) buffer->first_stick_ = runs.front().first;
  buffer->pageable_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  buffer->bytes_ = {buffer->pageable_.get(), bytes};
  return buffer;
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
