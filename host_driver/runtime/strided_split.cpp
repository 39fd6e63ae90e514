// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/strided_split.hpp"

#include <algorithm>
#include <utility>

namespace svp {
namespace {

struct Cut {
  std::size_t loop;
  std::int64_t at;  // passes of the first part
};

std::optional<ResolvedChunks> several_chunks(const FlexAllocator& allocator, const StridedPlace& place) {
  const auto* card = std::get_if<CardPlace>(&place);
  if (card == nullptr) return std::nullopt;
  const auto memory = allocator.try_resolve_chunks(card->allocation_index);
  return memory && memory->count > 1 ? std::optional(*memory) : std::nullopt;
}

std::uint64_t distance(std::int64_t stride) {
  return stride < 0 ? -static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
}

// Where to cut so that one part ends at the first border, or is the pass in which it lies. Nothing: all is in one
// chunk.
std::optional<Cut> cut_at_border(const ResolvedChunks& memory, const StridedDMA::End& end, const StridedLoops& loops,
                                 const std::vector<std::int64_t>& strides, std::uint32_t element_bytes) {
  const std::uint64_t begin = end.origin - end.reach.below;
  const std::uint64_t bytes = end.reach.bytes();
  if (!wire::range_inside(begin, bytes, memory.block_bytes)) return std::nullopt;
  const std::uint64_t here = place_in(memory, begin).bytes_left;
  if (bytes <= here) return std::nullopt;
  std::size_t outer = strides.size();
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (loops.size[i] == 1 || strides[i] == 0) continue;
    if (outer == strides.size() || distance(strides[i]) > distance(strides[outer])) outer = i;
  }
  if (outer == strides.size()) return std::nullopt;  // one element is in one chunk
  const std::uint64_t step = distance(strides[outer]) * element_bytes;
  const std::uint64_t pass = bytes - static_cast<std::uint64_t>(loops.size[outer] - 1) * step;
  // Of the passes, from the lowest address on; not all of them, because the last one ends behind the border.
  const std::uint64_t below = here >= pass ? (here - pass) / step + 1 : 1;
  const auto low = static_cast<std::int64_t>(below);
  return Cut{outer, strides[outer] > 0 ? low : loops.size[outer] - low};
}

std::pair<StridedTransfer, StridedTransfer> parts_of(const StridedTransfer& transfer, const Cut& cut) {
  std::pair parts{transfer, transfer};
  StridedLoops& second = parts.second.loops;
  parts.first.loops.size[cut.loop] = cut.at;
  second.size[cut.loop] -= cut.at;
  second.src_offset += cut.at * second.src_stride[cut.loop];
  second.dst_offset += cut.at * second.dst_stride[cut.loop];
  return parts;
}

}  // namespace

std::optional<std::vector<StridedDMA>> split_at_chunks(const FlexAllocator& allocator, const StridedTransfer& transfer,
                                                       std::size_t most) {
  const bool any = allocator.has_chunked();
  const auto source = any ? several_chunks(allocator, transfer.source) : std::nullopt;
  const auto destination = any ? several_chunks(allocator, transfer.destination) : std::nullopt;
  std::vector<StridedDMA> parts;
  std::vector<StridedTransfer> left{transfer};
  while (!left.empty()) {  // ends: a cut makes both parts smaller
    if (parts.size() + left.size() > most) return std::nullopt;
    const StridedTransfer next = std::move(left.back());
    left.pop_back();
    const StridedDMA checked(next);
    std::optional<Cut> cut;
    if (source) cut = cut_at_border(*source, checked.source(), next.loops, next.loops.src_stride, next.element_bytes);
    if (!cut && destination) {
      cut = cut_at_border(*destination, checked.destination(), next.loops, next.loops.dst_stride, next.element_bytes);
    }
    if (!cut) {
      parts.push_back(checked);
      continue;
    }
    auto [first, second] = parts_of(next, *cut);
    left.push_back(std::move(second));
    left.push_back(std::move(first));
  }
  return parts;
}

}  // namespace svp
