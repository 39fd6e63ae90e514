// SPDX-License-Identifier: Apache-2.0
// Copies between any two tensors: host and card, card and card of one function, views on either side. What is moved is
// what the views name, converted between the formats of the two sides; a stick of which a view names a part keeps the
// rest. The source may be smaller: its dimensions of size 1, and missing ones in front, are repeated (PyTorch's copy_).
//
// The paths, chosen by what is copied:
//   host, whole tensor in a layout with a dim_order  stickify(), one linear DMA; padding becomes zero
//   host, every element, in any layout               strided loops on the host, one linear DMA; padding becomes zero
//   host, a view                                     linear DMA of the sticks that it is in, when it fills them (to the
//                                                    card) or most of them (from it); else dense elements, converted,
//                                                    and the card's strided DMA
//   card → card, one format                          the card's strided DMA; padding of a tensor that is written as a
//                                                    whole becomes zero
//   card → card otherwise, and what the card refuses (more than kMostBlocks blocks, no pinned memory); memory of several
//   chunks takes more blocks, because none crosses from one to the next
//                                                    through the host by linear DMA: sticks that keep something are
//                                                    read first, and the stream is waited for
//
// All throw, before anything is moved:
//   InvalidArgument    "destination", "source" (shape, stride, too few bytes), "dtype" (no such conversion; float64)
//   InvalidAllocation  "destination", "source": no memory, of another context, freed, lost in a reset
//   CopyNeeded         a view that is in more pieces than describe_transfer() gives
//   OutOfMemory, Error, StreamError   as FlexStream::Launch
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "host_driver/frontend/spyre_tensor.hpp"
#include "host_driver/runtime/host_work.hpp"
#include "host_driver/runtime/runtime.hpp"

namespace svp {

class SpyreStream;

// Linear: as if the card had no strided DMA. The results are the same, bit for bit.
enum class CopyPath : std::uint8_t { Automatic, Linear };

// Host → card. Converts on this thread: `source` may be reused when this returns. The tensor is ready when the stream
// has come so far.
void copy(Runtime& runtime, SpyreStream& stream, const SpyreTensor& destination, const ConstHostTensor& source,
          CopyPath path = CopyPath::Automatic);

// Card → host. Returns at once. The bytes are converted by a thread of the driver when the stream has come so far; the
// destination's memory belongs to the copy until then, which the stream's Synchronize() or the result's wait() tells,
// or until the runtime has ended. No elements: null.
std::shared_ptr<HostTask> copy(Runtime& runtime, SpyreStream& stream, const HostTensor& destination,
                               const SpyreTensor& source, CopyPath path = CopyPath::Automatic);

// Card → card.
void copy(Runtime& runtime, SpyreStream& stream, const SpyreTensor& destination, const SpyreTensor& source,
          CopyPath path = CopyPath::Automatic);

// A new tensor with the elements of `source`.
SpyreTensor to_device(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, const ConstHostTensor& source,
                      const TensorOptions& options);
inline SpyreTensor to_device(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream,
                             const ConstHostTensor& source, std::optional<DeviceType> device_dtype = std::nullopt) {
  return to_device(runtime, allocator, stream, source, TensorOptions{.device_dtype = device_dtype});
}
// The same elements in new memory, row-major, in the layout of this dim_order: another stick dimension.
SpyreTensor restickify(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, const SpyreTensor& source,
                       std::optional<std::vector<std::int64_t>> dim_order);
// The tensor itself when a kernel can take it; else a copy of it in default layout and one chunk.
SpyreTensor contiguous(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, const SpyreTensor& source);

// Like copy() for a source of the destination's shape.
void copy_to_device(Runtime& runtime, SpyreStream& stream, const ConstHostTensor& source, const SpyreTensor& tensor);
// Like copy() for a destination of the tensor's shape, and waits; throws what Synchronize throws.
void to_host(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostTensor& destination);

}  // namespace svp
