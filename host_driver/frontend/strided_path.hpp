// SPDX-License-Identifier: Apache-2.0
// Copies by the card's strided DMA: the steps of a plan, when the card can do it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "host_driver/frontend/spyre_tensor.hpp"
#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/tensor/strided_loops.hpp"

namespace svp {

// So many control blocks are worth it; a view in more pieces goes by whole sticks.
inline constexpr std::size_t kMostBlocks = 256;

// Nothing: more blocks, also because memory lies in several chunks, or loops that a block does not take.
std::optional<std::vector<Step>> strided_steps(const FlexAllocator& allocator, std::span<const StridedLoops> nests,
                                               const StridedPlace& source, const StridedPlace& destination,
                                               std::size_t element_bytes);

// Elements of a view without gaps, row-major, in pinned memory and in the card's format.
class DenseElements {
 public:
  // Nothing: there is no such memory left, or the view is in more pieces than are worth it.
  static std::shared_ptr<const DenseElements> of(Runtime& runtime, const SpyreTensor& tensor, const DeviceView& view,
                                                 TransferDirection direction);

  std::span<std::byte> bytes() const { return memory_.bytes(); }
  // Between these and the tensor. They belong to the launch.
  const std::vector<Step>& steps() const { return steps_; }
  // One nest, between these and an array of the host with these strides.
  static StridedLoops loops_to(const std::vector<std::int64_t>& size, const std::vector<std::int64_t>& host_stride);
  static StridedLoops loops_from(const std::vector<std::int64_t>& size, const std::vector<std::int64_t>& host_stride);

 private:
  PinnedBuffer memory_;
  std::vector<Step> steps_;
};

}  // namespace svp
