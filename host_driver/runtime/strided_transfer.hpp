// SPDX-License-Identifier: Apache-2.0
// A copy by nested loops that the card executes (strided DMA): between host memory and an allocation, or between two
// allocations of one function. Elements of 1, 2, 4 or 8 bytes are moved as they are; formats are converted elsewhere.
//
//   for (const StridedLoops& nest : describe_transfer(layout, view, host_stride, TransferDirection::ToDevice))
//     transfers.push_back({.source = PinnedPlace{buffer.data(), buffer.size()}, .destination = CardPlace{allocation},
//                          .element_bytes = 2, .loops = nest});
//   stream.Launch(Job::strided(transfers), {});
//
// A launch of it ends, fails, is retried after a reset of its stream and counts its bytes as one of a DMA step does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/tensor/strided_loops.hpp"
#include "shared/control_block.hpp"
#include "shared/strided.hpp"

namespace svp {

// Host memory that the card reaches: of a PinnedBuffer, or part of it. The loops stay inside. It is the caller's to
// keep until the stream is synchronised. Memory of another kind is copied through a pinned buffer by the caller: a
// launch of it throws InvalidArgument.
struct PinnedPlace {
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

// Memory of the card, from byte `offset` of an allocation on; a multiple of the element's size. The loops stay inside
// of the allocation, whatever the offset is.
struct CardPlace {
  AllocationIndex allocation_index = AllocationIndex::Null;
  std::uint64_t offset = 0;
};

using StridedPlace = std::variant<PinnedPlace, CardPlace>;

// The offsets of the loops count elements from the two places on. At least one place is the card's.
struct StridedTransfer {
  StridedPlace source;
  StridedPlace destination;
  std::uint32_t element_bytes = 1;
  StridedLoops loops;
};

// The same elements by fewer and longer loops: without those of one step, those that go on where another one ends
// joined with it, in the order of the destination's strides. What describe_transfer() makes of a tensor of up to 8
// dimensions fits the card then; more may not.
// Throws InvalidArgument: loops (lists of different lengths, a negative size).
StridedLoops merged(const StridedLoops& loops);

// A transfer that has been checked, as a step of a plan (job.hpp): what the card would refuse is refused here, but for
// what only a launch can know (whether the places are what they are said to be).
class StridedDMA {
 public:
  // Merges the loops first. Throws InvalidArgument, with the field in front:
  //   element_bytes            not 1, 2, 4 or 8
  //   loops                    lists of different lengths, a size below 1 (a transfer of nothing is left out), more than
  //                            8 loops after merging, 2^62 bytes or more
  //   source, destination      no place, an offset that is no multiple of the element's size, an element before the
  //                            place's beginning or behind host memory's end; destination also: host memory on both
  //                            sides, or elements that are not easily seen to be distinct (wire::elements_distinct())
  explicit StridedDMA(const StridedTransfer& transfer);

  // An end: where the element of the indices 0, 0, … lies, and how far the others reach. `origin` is from the place's
  // beginning; PinnedPlace: from `data`.
  struct End {
    StridedPlace place;
    std::uint64_t origin;
    wire::StridedReach reach;
  };
  const End& source() const { return source_; }
  const End& destination() const { return destination_; }
  std::uint64_t bytes() const { return bytes_; }
  const wire::StridedPayload& loops() const { return loops_; }

 private:
  wire::StridedPayload loops_{};
  std::uint64_t bytes_ = 0;
  End source_;
  End destination_;
};

// CRC32C over the elements of one end, in the order of the loops: what the card sums. `origin` is where the indices
// 0, 0, … lie in `memory`; all elements lie inside.
std::uint32_t sum_of_elements(const wire::StridedPayload& loops, std::int64_t wire::StridedLevel::* stride,
                              std::span<const std::byte> memory, std::uint64_t origin);

}  // namespace svp
