// SPDX-License-Identifier: Apache-2.0
// What linear transfers (transfers.cpp) and strided ones (strided_steps.cpp) have in common. Hart 0 only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>

#include "firmware/core/function.hpp"
#include "firmware/hal/memory.hpp"
#include "shared/control_block.hpp"

namespace fw {

class Card;

// An end of a transfer after resolution: a pointer into the window or into card memory. Of a strided one: where the
// indices 0, 0, … lie.
struct ResolvedEnd {
  std::byte* bytes;
  hal::PhysicalAddress address;  // regions only
  bool device;
};
// `bytes` from the end's offset on lie in the function's host memory, or in one of its regions.
std::expected<ResolvedEnd, wire::Status> resolve_end(Function& function, const wire::Endpoint& end,
                                                     std::uint64_t bytes);

struct Transfer {
  ResolvedEnd source;  // FILL: unused
  ResolvedEnd destination;
  std::uint64_t bytes;
};

// Both ends of a DMA or FILL, all of it.
Verdict judge_transfer(Function& function, const wire::ControlBlock& cb);

// `bytes` were moved for the block, at the cost of a copy of `cost` bytes.
void count_bytes(Function& function, const wire::ControlBlock& cb, std::uint64_t bytes, std::uint64_t cost);

// FaultPoint::Memory at `bytes` bytes of each end, so far from where it was resolved to. True when the block has ended.
[[gnu::cold, gnu::noinline]] bool memory_breaks(Card& card, Function& function, unsigned stream,
                                                const Transfer& transfer, std::int64_t in_source,
                                                std::int64_t in_destination, std::uint64_t bytes);

// ---- strided

// Both ends, all of the nest.
[[gnu::noinline]] std::expected<Transfer, Verdict> resolve_strided(Function& function, const wire::ControlBlock& cb);
// Before the first step: fewer and longer rows (merge_levels()).
[[gnu::noinline]] void prepare_strided(Block& block);
// A step of the transfer at the head of a stream, which costs about as much as a copy of `cost` bytes and touches at
// most one granule of its region for the first time. False when the block has ended.
[[gnu::noinline]] bool move_strided(Card& card, Function& function, unsigned stream, const Transfer& transfer,
                                    std::uint64_t cost);
// Of the elements that were moved since `from` (bytes): continues the block's checksum, in the order of the loops.
[[gnu::noinline]] void sum_strided(Block& block, const Transfer& transfer, std::uint64_t from);
// The byte of the destination that is number `byte` of the elements.
[[gnu::cold, gnu::noinline]] std::byte* destination_byte(const Block& block, const Transfer& transfer,
                                                         std::uint64_t byte);

}  // namespace fw
