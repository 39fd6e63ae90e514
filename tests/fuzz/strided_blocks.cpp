// SPDX-License-Identifier: Apache-2.0
// Strided DMA: a nest that the card's check accepts is what the contract says of it, worked out here in 128 bits and
// element by element; and the card walks it in the order of its loops, however it has merged them.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "firmware/core/control_block_check.hpp"
#include "firmware/core/strided.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using fuzz::require;
using wire::StridedLevel;
using wire::StridedPayload;

constexpr std::uint64_t kMostElements = 2048;  // that are looked at one by one
constexpr __int128 kEnd = static_cast<__int128>(1) << 64;

// Any block, with those of its fields in order that a bit of `honest` asks for.
wire::ControlBlock block_of(fuzz::Input& input) {
  const unsigned honest = input.below(256);
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Dma;
  block.header.sticks = 3;
  wire::StridedDmaPayload& strided = block.payload.strided;
  strided = input.take<wire::StridedDmaPayload>();
  StridedPayload& loops = strided.loops;
  strided.dma.flags = wire::kDmaStrided | ((honest & 1) != 0 ? 0 : strided.dma.flags);
  if ((honest & 1) != 0) {
    strided.dma.checksum = 0;
    strided.dma.source = {0, strided.dma.source.offset % 65536, 0, wire::EndpointKind::HostMemory, {}};
    strided.dma.destination = {1, strided.dma.destination.offset % 65536, 1, wire::EndpointKind::Region, {}};
  }
  if ((honest & 2) != 0) std::ranges::fill(loops.reserved, 0);
  if ((honest & 4) != 0) {
    loops.depth = 1 + loops.depth % wire::kStridedLevels;
    loops.element_bytes = 1u << loops.element_bytes % 4;
    strided.dma.source.offset &= ~std::uint64_t{7};
    strided.dma.destination.offset &= ~std::uint64_t{7};
  }
  const unsigned depth = std::min(loops.depth, wire::kStridedLevels);
  for (unsigned i = 0; i < wire::kStridedLevels; ++i) {
    StridedLevel& level = loops.levels[i];
    if ((honest & 8) != 0 && i >= depth) level = {};
    if (i >= depth) continue;
    if ((honest & 16) != 0) level.count = 1 + level.count % 6;
    if ((honest & 32) != 0) level.source_stride %= 64, level.destination_stride %= 256;
  }
  if ((honest & 64) != 0) {
    strided.dma.bytes = loops.element_bytes;
    for (unsigned i = 0; i < depth; ++i) strided.dma.bytes *= loops.levels[i].count;
  }
  return block;
}

void expect_inside(const StridedPayload& loops, std::uint64_t offset, std::int64_t StridedLevel::* stride) {
  __int128 low = offset;
  __int128 high = low + loops.element_bytes;
  for (unsigned i = 0; i < loops.depth; ++i) {
    const __int128 reach = (static_cast<__int128>(loops.levels[i].count) - 1) * (loops.levels[i].*stride);
    (reach < 0 ? low : high) += reach * loops.element_bytes;
  }
  require(low >= 0 && high <= kEnd, "all elements lie between 0 and 2^64");
}

using Places = std::vector<std::pair<std::int64_t, std::int64_t>>;  // source, destination: bytes from the offsets

Places places_of(const StridedPayload& loops, std::uint64_t elements) {
  Places places;
  std::array<std::uint64_t, wire::kStridedLevels> index{};
  for (; elements > 0; --elements) {
    std::int64_t from = 0;
    std::int64_t to = 0;
    for (unsigned i = 0; i < loops.depth; ++i) {
      if (loops.levels[i].count == 1) continue;
      from += static_cast<std::int64_t>(index[i]) * loops.levels[i].source_stride * loops.element_bytes;
      to += static_cast<std::int64_t>(index[i]) * loops.levels[i].destination_stride * loops.element_bytes;
    }
    places.emplace_back(from, to);
    for (unsigned i = 0; i < loops.depth && ++index[i] == loops.levels[i].count; ++i) index[i] = 0;
  }
  return places;
}

// As a step does: rows, parts of rows, several rows; in elements of the size that the block has.
Places walked(const StridedPayload& loops, std::uint32_t element_bytes, std::uint64_t bytes, fuzz::Input& input) {
  Places places;
  fw::StridedWalk walk(loops, 0);
  const auto take = [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t at = 0; at < loops.element_bytes; at += element_bytes) places.emplace_back(from + at, to + at);
  };
  for (std::uint64_t left = bytes / loops.element_bytes; left > 0;) {
    const bool whole = input.below(2) != 0 && walk.rows() > 1;
    const std::uint64_t rows = whole ? 1 + input.below(std::min<std::uint64_t>(walk.rows(), 256)) : 1;
    const std::uint64_t row =
        whole || input.below(2) != 0 ? walk.row() : 1 + input.below(std::min<std::uint64_t>(walk.row(), 256));
    for (std::uint64_t r = 0; r < rows; ++r) {
      for (std::uint64_t i = 0; i < row; ++i) {
        const auto in_row = static_cast<std::int64_t>(i), in_rows = static_cast<std::int64_t>(r);
        take(walk.source() + in_rows * walk.source_row_step() + in_row * walk.source_step(),
             walk.destination() + in_rows * walk.destination_row_step() + in_row * walk.destination_step());
      }
    }
    rows == 1 ? walk.advance(row) : walk.advance_rows(rows);
    left -= rows * row;
    // Any element can be begun with.
    const fw::StridedWalk again(loops, left == 0 ? 0 : bytes / loops.element_bytes - left);
    require(again.source() == walk.source() && again.destination() == walk.destination(), "a walk can begin anywhere");
  }
  return places;
}

}  // namespace

void fuzz::run(Input input) {
  const wire::ControlBlock block = block_of(input);
  const wire::StridedDmaPayload& strided = block.payload.strided;
  const StridedPayload& loops = strided.loops;
  const fw::Verdict verdict = fw::check_form(block, false, 1);
  if (!verdict.ok()) return require(verdict.field != wire::Field::None, "a refusal names a field");
  require(loops.depth >= 1 && loops.depth <= wire::kStridedLevels, "one to eight levels");
  __int128 elements = 1;
  for (unsigned i = 0; i < loops.depth; ++i) {
    elements *= loops.levels[i].count;
    require(elements >= 1 && elements < kEnd, "the number of elements fits 64 bits, and is not 0");
  }
  require(elements * loops.element_bytes == strided.dma.bytes, "the elements are as many bytes as the block says");
  expect_inside(loops, strided.dma.source.offset, &StridedLevel::source_stride);
  expect_inside(loops, strided.dma.destination.offset, &StridedLevel::destination_stride);
  if (elements > kMostElements) return;

  const Places places = places_of(loops, static_cast<std::uint64_t>(elements));
  std::vector<std::int64_t> written;
  for (const auto& place : places) written.push_back(place.second);
  std::ranges::sort(written);
  require(std::ranges::adjacent_find(written) == written.end(), "no element is written twice");
  StridedPayload merged = loops;
  fw::merge_levels(merged, strided.dma.source.offset | strided.dma.destination.offset);
  require(walked(merged, loops.element_bytes, strided.dma.bytes, input) == places, "the order is that of the loops");
}
