// SPDX-License-Identifier: Apache-2.0
// DMA by nested loops, in steps. The nest was judged as a whole when the block came (control_block_check.cpp); here it
// gets its places.
#include <algorithm>
#include <array>

#include "firmware/core/card.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/steps.hpp"
#include "firmware/core/strided.hpp"
#include "firmware/core/transfer.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/strided.hpp"

namespace fw {

using wire::FaultPoint;
using wire::Field;
using wire::Outcome;
using wire::Status;
using wire::StridedPayload;
using wire::StridedReach;

// ---- places ---------------------------------------------------------------------------------------------------------

namespace {

bool boxes_overlap(const ResolvedEnd& a, const StridedReach& of_a, const ResolvedEnd& b, const StridedReach& of_b) {
  return a.device && b.device && a.address - of_a.below < b.address + of_b.above &&
         b.address - of_b.below < a.address + of_a.above;
}

std::expected<ResolvedEnd, Status> resolve_box(Function& function, wire::Endpoint end, const StridedReach& reach) {
  end.offset -= reach.below;
  auto resolved = resolve_end(function, end, reach.bytes());
  if (!resolved) return resolved;
  resolved->bytes += reach.below;
  resolved->address += reach.below;
  return resolved;
}

}  // namespace

std::expected<Transfer, Verdict> resolve_strided(Function& function, const wire::ControlBlock& cb) {
  const wire::DmaPayload& dma = cb.payload.dma;
  const StridedPayload& loops = cb.payload.strided.loops;
  const auto from = wire::reach_of(loops, &wire::StridedLevel::source_stride);
  if (!from) return std::unexpected(Verdict{Status::Overflow, Field::StridedSource});
  const auto to = wire::reach_of(loops, &wire::StridedLevel::destination_stride);
  if (!to) return std::unexpected(Verdict{Status::Overflow, Field::StridedDestination});
  const auto source = resolve_box(function, dma.source, *from);
  if (!source) return std::unexpected(Verdict{source.error(), Field::DmaSource});
  const auto destination = resolve_box(function, dma.destination, *to);
  if (!destination) return std::unexpected(Verdict{destination.error(), Field::DmaDestination});
  if (boxes_overlap(*source, *from, *destination, *to)) {
    return std::unexpected(Verdict{Status::Overflow, Field::DmaDestination});
  }
  unsigned level;
  return Transfer{*source, *destination, wire::element_count(loops, level).value_or(0) * loops.element_bytes};
}

void prepare_strided(Block& block) {
  wire::StridedDmaPayload& strided = block.cb.payload.strided;
  merge_levels(strided.loops, strided.dma.source.offset | strided.dma.destination.offset);
}

// ---- a step ---------------------------------------------------------------------------------------------------------

namespace {

// `count` places, `step` bytes apart: how many of them, from the first on, lie inside when it has so much room before
// and behind it.
std::uint64_t fitting(std::uint64_t count, std::int64_t step, std::uint64_t before, std::uint64_t behind) {
  const std::uint64_t room = step < 0 ? before : behind;
  const std::uint64_t size = static_cast<std::uint64_t>(step < 0 ? -step : step);
  return size * (count - 1) <= room ? count : room / size + 1;
}

// Some rows of elements, equally far apart, that move at once.
struct Rows {
  std::uint64_t elements;  // of each
  std::uint64_t count;
};

// Marks what a step writes, granule by granule: those between two rows stay as they are.
class RowMarks {
 public:
  RowMarks(Card& card, Owner owner) : card_(card), owner_(owner) {}

  // Rows from `at` on. Cuts them to those in the granule of the first element. False: it would exceed the budget of
  // populated memory.
  bool mark(hal::PhysicalAddress at, const StridedWalk& walk, unsigned element_bytes, Rows& rows) {
    if (at - granule_ >= wire::kGranuleBytes) {
      if (!card_.pool.mark_written(owner_, at, element_bytes)) return false;
      granule_ = at - at % wire::kGranuleBytes;
    }
    const std::uint64_t before = at - granule_;
    const std::uint64_t behind = wire::kGranuleBytes - element_bytes - before;
    const std::int64_t step = walk.destination_step();
    const std::uint64_t elements = fitting(rows.elements, step, before, behind);
    if (elements != rows.elements) {
      rows = {elements, 1};
    } else if (rows.count != 1) {
      const std::uint64_t span = static_cast<std::uint64_t>(step < 0 ? -step : step) * (elements - 1);
      rows.count = fitting(rows.count, walk.destination_row_step(), step < 0 ? before - span : before,
                           step < 0 ? behind : behind - span);
    }
    return true;
  }

 private:
  Card& card_;
  const Owner owner_;
  hal::PhysicalAddress granule_ = 0;  // none yet: no region lies there
};

// What may move at once: whole rows, or a part of one, that together cost about `most` at most.
Rows next_rows(const StridedWalk& walk, std::uint64_t left, std::uint64_t each, std::uint64_t most) {
  const std::uint64_t row = std::min(walk.row(), left);
  const std::uint64_t cost = kBytesOfARow + row * each;
  if (cost >= most || row != walk.row()) return {std::min(row, most / each + 1), 1};
  return {row, std::min({walk.rows(), left / row, most / cost + 1})};
}

void move_rows(const Transfer& transfer, const StridedWalk& walk, const Rows& rows, unsigned element_bytes) {
  hal::copy_rows(
      {transfer.destination.bytes + walk.destination(), walk.destination_step(), walk.destination_row_step()},
      {transfer.source.bytes + walk.source(), walk.source_step(), walk.source_row_step()}, rows.elements, rows.count,
      element_bytes);
}

// A cached kernel must not outlive the image it was loaded from. Of the whole box: an image between two rows is only
// looked at once more.
void note_box(Card& card, Function& function, const StridedPayload& loops, const ResolvedEnd& end) {
  const auto reach = wire::reach_of(loops, &wire::StridedLevel::destination_stride);
  if (!end.device || !reach) return;
  card.spaces.note_write(function.id(), end.address - reach->below, reach->bytes());
  function.streams.note_write(end.address - reach->below, reach->bytes());
}

}  // namespace

bool move_strided(Card& card, Function& function, unsigned index, const Transfer& transfer, std::uint64_t most) {
  Block& block = function.streams.head(index);
  const StridedPayload& loops = block.cb.payload.strided.loops;
  const unsigned element = loops.element_bytes;
  const bool watched = card.faults.armed(FaultPoint::Memory);
  const std::uint64_t populated = card.pool.populated_granules();
  note_box(card, function, loops, transfer.destination);
  hal::mark(wire::Waypoint::Dma);
  StridedWalk walk(loops, block.progress / element);
  RowMarks marks(card, function.id());
  const std::uint64_t each = walk.dense() ? element : kBytesOfAnElement;
  std::uint64_t cost = 0;
  const std::uint64_t began = block.progress;
  const auto count_step = [&] { count_bytes(function, block.cb, block.progress - began, cost + kBytesOfAStridedStep); };
  // Memory that is touched for the first time takes long: a step does so once.
  while (block.progress != transfer.bytes && cost < most && card.pool.populated_granules() == populated) {
    Rows rows = next_rows(walk, (transfer.bytes - block.progress) / element, each, most - cost);
    if (watched) [[unlikely]]
      rows = {walk.dense() ? rows.elements : 1, 1};
    if (transfer.destination.device &&
        !marks.mark(transfer.destination.address + static_cast<std::uint64_t>(walk.destination()), walk, element,
                    rows)) {
      count_step();
      end_head(function, index, {Outcome::Fault, {Status::MemoryBudget, Field::DmaDestination}, hal::now()});
      return false;
    }
    const std::uint64_t elements = rows.elements * rows.count;
    if (watched) [[unlikely]] {
      if (memory_breaks(card, function, index, transfer, walk.source(), walk.destination(), elements * element)) {
        count_step();
        return false;
      }
    }
    move_rows(transfer, walk, rows, element);
    rows.count == 1 ? walk.advance(rows.elements) : walk.advance_rows(rows.count);
    block.progress += elements * element;
    cost += kBytesOfRowsAtOnce + rows.count * kBytesOfARow + elements * each;
  }
  count_step();
  return true;
}

// ---- checksums ------------------------------------------------------------------------------------------------------

namespace {

// Sums elements that lie apart through a buffer.
class GatheredSum {
 public:
  GatheredSum(std::uint32_t sum, unsigned element_bytes) : sum_(sum), element_bytes_(element_bytes) {}

  void add_dense(const std::byte* from, std::uint64_t bytes) {
    flush();
    sum_ = hal::checksum(sum_, from, bytes);
  }
  // At most room() of them.
  void add(std::byte* from, std::int64_t step, std::uint64_t count) {
    hal::copy_rows({&gathered_[used_], element_bytes_, 0}, {from, step, 0}, count, 1, element_bytes_);
    used_ += count * element_bytes_;
    if (room() == 0) flush();
  }
  std::uint64_t room() const { return (gathered_.size() - used_) / element_bytes_; }
  std::uint32_t sum() {
    flush();
    return sum_;
  }

 private:
  void flush() {
    if (used_ != 0) sum_ = hal::checksum(sum_, gathered_.data(), used_);
    used_ = 0;
  }

  alignas(8) std::array<std::byte, 512> gathered_;
  std::size_t used_ = 0;
  std::uint32_t sum_;
  const unsigned element_bytes_;
};

}  // namespace

// What has arrived in the card is read back; on the way out of it, or inside it, the source is what is summed.
void sum_strided(Block& block, const Transfer& transfer, std::uint64_t from) {
  const StridedPayload& loops = block.cb.payload.strided.loops;
  const unsigned element = loops.element_bytes;
  const bool to_card = !transfer.source.device;
  StridedWalk walk(loops, from / element);
  GatheredSum sum(block.checksum, element);
  for (std::uint64_t left = (block.progress - from) / element; left != 0;) {
    std::uint64_t count = std::min(walk.row(), left);
    std::byte* bytes =
        to_card ? transfer.destination.bytes + walk.destination() : transfer.source.bytes + walk.source();
    const std::int64_t step = to_card ? walk.destination_step() : walk.source_step();
    constexpr std::uint64_t kWorthNoCopy = 128;
    if (step == element && count * element >= kWorthNoCopy) {
      sum.add_dense(bytes, count * element);
    } else {
      count = std::min(count, sum.room());
      sum.add(bytes, step, count);
    }
    walk.advance(count);
    left -= count;
  }
  block.checksum = sum.sum();
}

std::byte* destination_byte(const Block& block, const Transfer& transfer, std::uint64_t byte) {
  const StridedPayload& loops = block.cb.payload.strided.loops;
  const StridedWalk walk(loops, byte / loops.element_bytes);
  return transfer.destination.bytes + walk.destination() + byte % loops.element_bytes;
}

}  // namespace fw
