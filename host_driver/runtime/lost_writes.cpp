// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/lost_writes.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "host_driver/runtime/kernel.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "host_driver/runtime/tile_blocks.hpp"
#include "host_driver/runtime/unit.hpp"
#include "shared/strided.hpp"

namespace svp {

// ---- ranges ---------------------------------------------------------------------------------------------------------

void RangeSet::add(const ByteRange& range) {
  if (range.begin >= range.end) return;
  for (ByteRange& known : ranges_) {
    if (known.space != range.space || range.begin > known.end || known.begin > range.end) continue;
    known.begin = std::min(known.begin, range.begin);
    known.end = std::max(known.end, range.end);
    return;
  }
  ranges_.push_back(range);
  if (ranges_.size() > kMost) merge();
}

void RangeSet::add(const RangeSet& other) {
  for (const ByteRange& range : other.ranges_) add(range);
}

void RangeSet::merge() {
  std::vector<ByteRange> merged;
  for (const ByteRange& range : ranges_) {
    const auto same = std::ranges::find(merged, range.space, &ByteRange::space);
    if (same == merged.end()) {
      merged.push_back(range);
    } else {
      same->begin = std::min(same->begin, range.begin);
      same->end = std::max(same->end, range.end);
    }
  }
  ranges_ = std::move(merged);
}

void RangeSet::remove(const ByteRange& range) {
  std::vector<ByteRange> left;
  for (const ByteRange& known : ranges_) {
    if (!known.overlaps(range)) {
      left.push_back(known);
      continue;
    }
    if (known.begin < range.begin) left.push_back({known.space, known.begin, range.begin});
    if (range.end < known.end) left.push_back({known.space, range.end, known.end});
  }
  ranges_ = std::move(left);
}

void RangeSet::remove(const RangeSet& other) {
  for (const ByteRange& range : other.ranges_) remove(range);
}

bool RangeSet::overlaps(const RangeSet& other) const {
  return std::ranges::any_of(ranges_, [&](const ByteRange& range) {
    return std::ranges::any_of(other.ranges_, [&](const ByteRange& its) { return range.overlaps(its); });
  });
}

// ---- what a unit reads and writes -----------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kEnd = ~std::uint64_t{0};

void add_host_memory(RangeSet& to) {
  to.add({ByteRange::kWindow, 0, kEnd});
  to.add({ByteRange::kPageable, 0, kEnd});
}

ByteRange range_of(std::uint64_t space, std::uint64_t offset, std::uint64_t bytes) {
  return {space, offset, bytes > kEnd - offset ? kEnd : offset + bytes};
}

ByteRange range_of(const wire::Endpoint& end, std::uint64_t bytes) {
  const bool region = end.kind == wire::EndpointKind::Region;
  return range_of(region ? end.region_id : ByteRange::kWindow, end.offset, bytes);
}

// From the lowest to the highest byte that the loops touch.
ByteRange range_of(const wire::Endpoint& end, const wire::StridedPayload& loops,
                   std::int64_t wire::StridedLevel::* stride) {
  const auto reach = wire::reach_of(loops, stride);
  if (!reach || !reach->fits(end.offset)) return range_of(end, kEnd);
  wire::Endpoint lowest = end;
  lowest.offset -= reach->below;
  return range_of(lowest, reach->below + reach->above + loops.element_bytes);
}

void add_transfer(const wire::ControlBlock& block, Accesses& accesses) {
  const wire::DmaPayload& dma = block.payload.dma;
  if (wire::is_strided(block)) {
    const wire::StridedPayload& loops = block.payload.strided.loops;
    accesses.reads.add(range_of(dma.source, loops, &wire::StridedLevel::source_stride));
    accesses.writes.add(range_of(dma.destination, loops, &wire::StridedLevel::destination_stride));
    return;
  }
  accesses.reads.add(range_of(dma.source, dma.bytes));
  accesses.writes.add(range_of(dma.destination, dma.bytes));
}

// One end is memory of the program, which the block does not name.
void add_staged(const Unit& unit, Accesses& accesses) {
  const StagedTransfer& transfer = unit.staged;
  const wire::DmaPayload& dma = unit.block.payload.dma;
  RangeSet& of_card = transfer.to_device ? accesses.writes : accesses.reads;
  RangeSet& of_host = transfer.to_device ? accesses.reads : accesses.writes;
  of_card.add(range_of(transfer.to_device ? dma.destination : dma.source, transfer.bytes));
  if (transfer.converter != nullptr) return add_host_memory(of_host);
  of_host.add(range_of(ByteRange::kPageable, reinterpret_cast<std::uintptr_t>(transfer.host), transfer.bytes));
}

void add_segment(const wire::Segment& segment, Accesses& accesses) {
  const ByteRange range = range_of(segment.region_id, segment.offset, segment.bytes);
  if ((segment.access & wire::kSegmentRead) != 0) accesses.reads.add(range);
  if ((segment.access & wire::kSegmentWrite) != 0) accesses.writes.add(range);
}

// The operands of a block: the driver's table of a launch with more of them than the block has rows.
void add_compute(const wire::ComputePayload& compute, const Kernel* kernel, const OperandTable* table,
                 Accesses& accesses) {
  accesses.reads.add(range_of(compute.image, compute.image_bytes));
  const std::size_t operands = kernel != nullptr ? kernel->metadata().operands.size() : wire::kSegments;
  const std::size_t rows = table != nullptr ? table->size() : wire::kSegments;
  for (std::size_t i = 0; i < std::min(operands, rows); ++i) {
    const wire::Segment& segment = table != nullptr ? (*table)[i].segment : compute.segments[i];
    const bool own = kernel != nullptr && kernel->metadata().operands[i].driver_own;
    if (segment.access != wire::kSegmentUnused && !own) add_segment(segment, accesses);
  }
}

void add_block(const wire::ControlBlock& block, const Kernel* kernel, const OperandTable* table, Accesses& accesses) {
  switch (block.header.opcode) {
    case wire::Opcode::Dma: return add_transfer(block, accesses);
    case wire::Opcode::Fill: {
      const wire::FillPayload& fill = block.payload.fill;
      return accesses.writes.add(range_of(fill.destination, fill.bytes));
    }
    case wire::Opcode::Compute: return add_compute(block.payload.compute, kernel, table, accesses);
    default: return;
  }
}

// A call of a command buffer: what its blocks read and write together.
void add_prepared(const Unit& unit, Accesses& accesses) {
  for (const PreparedBlock& block : unit.prepared->blocks) {
    if (block.buffer != unit.step) continue;
    const auto& held = *unit.prepared->held[block.request];
    add_block(block.block, held.job.binary().get(), held.operands.get(), accesses);
  }
}

void add_ring_block(const Unit& unit, Accesses& accesses) {
  if (unit.prepared != nullptr) return add_prepared(unit, accesses);
  if (unit.correction.bytes != nullptr && unit.block.header.opcode == wire::Opcode::Dma) return;
  add_block(unit.block, unit.launch->kernel, unit.launch->operands.get(), accesses);
}

}  // namespace

void add_accesses(const Unit& unit, Accesses& accesses) {
  switch (unit.kind) {
    case Unit::Kind::Block: return add_ring_block(unit, accesses);
    case Unit::Kind::Staged: return add_staged(unit, accesses);
    case Unit::Kind::Chunk: return;  // its transfer tells
    case Unit::Kind::HostCall: add_host_memory(accesses.reads); return add_host_memory(accesses.writes);
    case Unit::Kind::Tiles:
      unit.launch->tiles->for_each_operand([&](const wire::Segment& whole) { add_segment(whole, accesses); });
      return;
  }
}

// ---- of all streams -------------------------------------------------------------------------------------------------

void LostWrites::lose_everything() noexcept {
  everything_ = true;
  lost_.clear();
  any_.store(false, std::memory_order_release);
}

void LostWrites::note_lost(const Unit& unit) noexcept {
  const std::lock_guard lock(mutex_);
  if (everything_) return;
  try {
    Accesses accesses;
    add_accesses(unit, accesses);
    lost_.add(accesses.writes);
    any_.store(!lost_.empty(), std::memory_order_release);
  } catch (const std::bad_alloc&) {
    lose_everything();
  }
}

void LostWrites::forget_written(const Unit& unit) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    Accesses accesses;
    add_accesses(unit, accesses);
    lost_.remove(accesses.writes);
    any_.store(!lost_.empty(), std::memory_order_release);
  } catch (const std::bad_alloc&) {
    any_.store(true, std::memory_order_release);  // what is lost stays so: less is sent again
  }
}

void LostWrites::note_kept(const void* stream, const Unit& unit) noexcept {
  const std::lock_guard lock(mutex_);
  if (everything_) return;
  try {
    Accesses accesses;
    add_accesses(unit, accesses);
    auto of_stream = std::ranges::find(kept_, stream, &Kept::stream);
    if (of_stream == kept_.end()) of_stream = kept_.insert(kept_.end(), {stream, {}});
    of_stream->writes.add(accesses.writes);
  } catch (const std::bad_alloc&) {
    lose_everything();
  }
}

void LostWrites::end_kept(const void* stream) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [&](const Kept& kept) { return kept.stream == stream; });
}

void LostWrites::clear() noexcept {
  const std::lock_guard lock(mutex_);
  lost_.clear();
  kept_.clear();
  everything_ = false;
  any_.store(false, std::memory_order_release);
}

bool LostWrites::seen_by(const void* stream, RangeSet& lost) const noexcept {
  const std::lock_guard lock(mutex_);
  if (everything_) return false;
  try {
    lost.add(lost_);
    for (const Kept& kept : kept_) {
      if (kept.stream != stream) lost.add(kept.writes);
    }
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace svp
