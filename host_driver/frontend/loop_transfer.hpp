// SPDX-License-Identifier: Apache-2.0
// Copies between host memory and the card by nests of loops that the caller has written, in the form of
// describe_transfer(): what a framework that has layouts of its own asks for. tensor_copy.hpp is for our tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "host_driver/runtime/host_work.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "host_driver/tensor/element_format.hpp"
#include "host_driver/tensor/strided_loops.hpp"

namespace svp {

struct LoopTransfer {
  // No negative size, stride or offset. To the card, no two nests name one element of it; a nest that does writes any
  // of what it has for it.
  std::vector<StridedLoops> nests;
  ElementFormat host_format;
  std::byte* host = nullptr;  // index 0; to the card it is only read
  ElementFormat card_format;
  AllocationIndex memory = AllocationIndex::Null;
  std::uint64_t offset = 0;  // of the card's index 0, in bytes: a multiple of 128
  std::uint64_t bytes = 0;   // of the card from there on, that the loops may name
};

// Bytes from `host` on that the loops reach over. Throws InvalidArgument ("loops").
std::uint64_t host_bytes_of(const LoopTransfer& transfer, TransferDirection direction);

// Both throw before anything is moved:
//   InvalidArgument  "format" (no such conversion), "loops" (negative, lists of different lengths, an element outside of
//                    `bytes`, 2^62 elements or more), "host" (null)
//   OutOfMemory, Error, StreamError  as FlexStream::Launch; a stream that fails during the call may have moved a part
//
// Elements of the card that no loop names keep their value. The host's memory has been read when it returns. Waits for
// the stream when pinned memory has no room for the elements, and when the sticks have to be read first: loops that
// name a part of a stick in more than kMostBlocks pieces, or elements of less than a byte.
// `keep_alive` goes when the transfer has ended.
void copy_to_card(Runtime& runtime, FlexStream& stream, LoopTransfer transfer,
                  const std::shared_ptr<const void>& keep_alive = {});

// Returns at once: a thread of the driver converts when the stream has come so far, which the stream's Synchronize()
// tells. `keep_alive` goes when the host's memory is written, or never will be. Null: there is nothing to move.
std::shared_ptr<HostTask> copy_from_card(Runtime& runtime, FlexStream& stream, LoopTransfer transfer,
                                         std::shared_ptr<const void> keep_alive);

}  // namespace svp
