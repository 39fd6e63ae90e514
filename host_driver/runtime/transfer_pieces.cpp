// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/transfer_pieces.hpp"

#include <optional>

namespace svp {
namespace {

std::optional<CardEnd> end_of_range(const FlexAllocator& allocator, AllocationIndex index, std::uint64_t offset,
                                    std::uint64_t bytes) {
  const auto memory = allocator.try_resolve_chunks(index);
  if (!memory || !wire::range_inside(offset, bytes, memory->block_bytes)) return std::nullopt;
  return CardEnd{*memory, offset};
}

}  // namespace

std::size_t blocks_of(const FlexAllocator& allocator, const Step& step) {
  std::size_t blocks = 0;
  const auto count = [&](std::uint64_t, std::uint64_t) { ++blocks; };
  if (const auto* fill = std::get_if<Fill>(&step)) {
    const auto end = end_of_range(allocator, fill->allocation_index, fill->offset, fill->size);
    if (end) for_each_piece(fill->size, *end, nullptr, count);
  } else if (const auto* dma = std::get_if<DMA>(&step)) {
    const bool inside = dma->direction == Direction::DeviceToDevice;
    const auto end = end_of_range(allocator, dma->allocation_index, dma->offset, dma->size);
    const auto source =
        inside ? end_of_range(allocator, dma->source_allocation_index, dma->source_offset, dma->size) : std::nullopt;
    if (end && inside == source.has_value()) for_each_piece(dma->size, *end, source ? &*source : nullptr, count);
  }
  return std::max<std::size_t>(blocks, 1);
}

}  // namespace svp
