// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/strided_transfer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/base/crc32c.hpp"
#include "host_driver/base/error.hpp"

namespace svp {
namespace {

struct Loop {
  std::int64_t size;
  std::int64_t source;
  std::int64_t destination;
};

[[noreturn]] void refuse(const char* field, const std::string& what, const char* next) {
  throw InvalidArgument(field, std::string(field) + ": " + what, next);
}

void require(bool condition, const char* field, const char* what, const char* next) {
  if (!condition) refuse(field, what, next);
}

std::vector<Loop> loops_of(const StridedLoops& loops) {
  const std::size_t depth = loops.size.size();
  require(loops.src_stride.size() == depth && loops.dst_stride.size() == depth, "loops",
          "sizes and strides differ in length", "give every loop a size and two strides");
  std::vector<Loop> list;
  for (std::size_t i = 0; i < depth; ++i) {
    require(loops.size[i] >= 0, "loops", "a loop has a negative size", "check the sizes");
    list.push_back({loops.size[i], loops.src_stride[i], loops.dst_stride[i]});
  }
  return list;
}

// Whether `above` steps by what `below` has gone at its end. What overflows does not.
bool goes_on(const Loop& below, const Loop& above) {
  std::int64_t source;
  std::int64_t destination;
  return !__builtin_mul_overflow(below.source, below.size, &source) &&
         !__builtin_mul_overflow(below.destination, below.size, &destination) && above.source == source &&
         above.destination == destination;
}

std::uint64_t size_of(std::int64_t stride) {
  return stride < 0 ? -static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
}

// Sorted by the destination's strides, two loops that go on in each other are neighbours: whatever lay between them
// would write elements of the first one again.
std::vector<Loop> merged_list(std::vector<Loop> loops) {
  std::erase_if(loops, [](const Loop& loop) { return loop.size == 1; });
  std::ranges::sort(loops, {}, [](const Loop& loop) { return size_of(loop.destination); });
  std::vector<Loop> merged;
  for (const Loop& loop : loops) {
    if (!merged.empty() && goes_on(merged.back(), loop) && loop.size != 0 && merged.back().size != 0) {
      merged.back().size *= loop.size;
    } else {
      merged.push_back(loop);
    }
  }
  return merged;
}

StridedDMA::End end_of(const StridedPlace& place, const char* field, std::int64_t offset, std::uint32_t element_bytes,
                       const wire::StridedReach& reach) {
  const auto* pinned = std::get_if<PinnedPlace>(&place);
  const auto* card = std::get_if<CardPlace>(&place);
  require(pinned == nullptr || pinned->data != nullptr, field, "no host memory", "give pinned memory");
  require(card == nullptr || card->allocation_index != AllocationIndex::Null, field, "no allocation",
          "allocate it first");
  const std::uint64_t from = card != nullptr ? card->offset : 0;
  const bool aligned = from % element_bytes == 0 &&
                       (pinned == nullptr || reinterpret_cast<std::uintptr_t>(pinned->data) % element_bytes == 0);
  require(aligned, field, "it does not begin at a multiple of the element's size", "align it to the elements");
  std::int64_t origin;
  const bool fits = !__builtin_mul_overflow(offset, std::int64_t{element_bytes}, &origin) &&
                    !__builtin_add_overflow(origin, from, &origin) && origin >= 0 &&
                    reach.fits(static_cast<std::uint64_t>(origin));
  require(fits, field, "an element lies before its beginning", "check offset and strides of the loops");
  const auto at = static_cast<std::uint64_t>(origin);
  require(pinned == nullptr || at + reach.above <= pinned->bytes, field, "an element lies behind its end",
          "check offset and strides of the loops, or give more memory");
  return {place, at, reach};
}

}  // namespace

StridedLoops merged(const StridedLoops& loops) {
  StridedLoops result;
  result.src_offset = loops.src_offset;
  result.dst_offset = loops.dst_offset;
  for (const Loop& loop : merged_list(loops_of(loops))) {
    result.size.push_back(loop.size);
    result.src_stride.push_back(loop.source);
    result.dst_stride.push_back(loop.destination);
  }
  return result;
}

StridedDMA::StridedDMA(const StridedTransfer& transfer) {
  if (!wire::is_element_size(transfer.element_bytes)) {
    refuse("element_bytes", std::to_string(transfer.element_bytes) + " is no size of an element", "use 1, 2, 4 or 8");
  }
  std::vector<Loop> loops = merged_list(loops_of(transfer.loops));
  if (loops.empty()) loops.push_back({1, 1, 1});
  if (loops.size() > wire::kStridedLevels) {
    refuse("loops", std::to_string(loops.size()) + " loops are more than the 8 of the card", "copy a part at a time");
  }
  loops_.depth = static_cast<std::uint32_t>(loops.size());
  loops_.element_bytes = transfer.element_bytes;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    require(loops[i].size != 0, "loops", "they move nothing", "leave the transfer out");
    loops_.levels[i] = {static_cast<std::uint64_t>(loops[i].size), loops[i].source, loops[i].destination};
  }
  unsigned level = 0;
  const auto elements = wire::element_count(loops_, level);
  const auto source = wire::reach_of(loops_, &wire::StridedLevel::source_stride);
  const auto destination = wire::reach_of(loops_, &wire::StridedLevel::destination_stride);
  const bool counted = elements && !__builtin_mul_overflow(*elements, std::uint64_t{transfer.element_bytes}, &bytes_);
  require(counted && source && destination, "loops", "they reach over more memory than there is",
          "check sizes and strides");
  source_ = end_of(transfer.source, "source", transfer.loops.src_offset, transfer.element_bytes, *source);
  destination_ =
      end_of(transfer.destination, "destination", transfer.loops.dst_offset, transfer.element_bytes, *destination);
  const bool on_host =
      std::holds_alternative<PinnedPlace>(transfer.source) && std::holds_alternative<PinnedPlace>(transfer.destination);
  require(!on_host, "destination", "both places are host memory", "copy it on the host");
  require(wire::elements_distinct(loops_), "destination", "loops write elements twice, or interleaved",
          "give every element a place of its own, or copy through the host");
}

// ---- checksums ------------------------------------------------------------------------------------------------------

namespace {

// Visits the first element of each pass of the innermost loop, as an offset in elements.
template <typename Visit>
void for_each_row(const wire::StridedPayload& loops, std::int64_t wire::StridedLevel::* stride, Visit visit) {
  std::array<std::uint64_t, wire::kStridedLevels> index{};
  std::int64_t at = 0;
  for (bool more = true; more;) {
    visit(at);
    more = false;
    for (unsigned i = 1; i < loops.depth && !more; ++i) {
      const wire::StridedLevel& level = loops.levels[i];
      if (level.count == 1) continue;
      at += level.*stride;
      more = ++index[i] != level.count;
      if (more) continue;
      at -= static_cast<std::int64_t>(level.count) * level.*stride;
      index[i] = 0;
    }
  }
}

}  // namespace

std::uint32_t sum_of_elements(const wire::StridedPayload& loops, std::int64_t wire::StridedLevel::* stride,
                              std::span<const std::byte> memory, std::uint64_t origin) {
  const std::size_t element = loops.element_bytes;
  const wire::StridedLevel& inner = loops.levels[0];
  std::array<std::byte, 4096> gathered;
  std::size_t used = 0;
  std::uint32_t sum = 0;
  const auto flush = [&] {
    sum = crc32c(sum, std::span(gathered).first(used));
    used = 0;
  };
  for_each_row(loops, stride, [&](std::int64_t row) {
    const auto at = [&](std::int64_t elements) {
      return memory.data() + static_cast<std::int64_t>(origin) + elements * static_cast<std::int64_t>(element);
    };
    if (inner.*stride == 1 || inner.count == 1) {
      flush();
      sum = crc32c(sum, {at(row), inner.count * element});
      return;
    }
    for (std::uint64_t i = 0; i < inner.count; ++i) {
      std::memcpy(&gathered[used], at(row + static_cast<std::int64_t>(i) * inner.*stride), element);
      used += element;
      if (used == gathered.size()) flush();
    }
  });
  flush();
  return sum;
}

}  // namespace svp
