// SPDX-License-Identifier: Apache-2.0
// The operands of a launch, checked against the kernel's metadata and resolved to places on the card.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/argument.hpp"
#include "host_driver/runtime/correction.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/launch_form.hpp"
#include "host_driver/runtime/operand_table.hpp"
#include "host_driver/runtime/scratchpads.hpp"
#include "host_driver/runtime/stream_error.hpp"
#include "shared/control_block.hpp"

namespace svp {

// A place in a region, ready for the wire.
struct DevicePlace {
  VirtualAddress address;
  std::uint32_t generation = 0;

  wire::Endpoint endpoint() const {
    return {.region_id = address.region_id,
            .offset = address.offset,
            .generation = generation,
            .kind = wire::EndpointKind::Region,
            .reserved = {}};
  }
};

// Allocates nothing on the host but for shapes that the thread has not launched lately. Copyable; refers to the kernel,
// which outlives it.
class BoundOperands {
 public:
  // Throws as FlexStream::Launch. The operands' memory goes into `uses`, and memory for partial results that nobody
  // else has.
  BoundOperands(FlexAllocator& allocator, Scratchpads& scratchpads, const Job& job, std::span<const Argument> arguments,
                bool allow_tiled_launch, AllocationUses& uses);

  const Kernel& kernel() const { return *kernel_; }
  const Tiling& tiling() const { return form_->tiling; }
  const RegionMap& regions() const { return regions_; }
  std::size_t count() const { return count_; }
  // All of an operand, whatever its tiles are.
  wire::Segment whole(std::size_t index) const {
    return {.region_id = place_[index].address.region_id,
            .offset = place_[index].address.offset,
            .bytes = form_->geometry[index].bytes,
            .generation = place_[index].region_generation,
            .access = kernel_->metadata().operands[index].access,
            .reserved = {}};
  }
  const DevicePlace& image() const { return image_; }

  // Operand addresses of one tile.
  PerOperand<ResolvedOperand> of_tile(const Tile& tile) const;
  // Rows of the segment table for that tile, and the windows they lie in: operands, then partial results, as many as
  // there are rows for.
  void write_segments(const Tile& tile, wire::ComputePayload& compute, SegmentWindows& windows) const;
  // Null when the segment table has a row for every operand.
  SharedOperandTable table() const;

 private:
  void bind_kernel(FlexAllocator& allocator, const Job& job, std::span<const Argument> arguments,
                   bool allow_tiled_launch, AllocationUses& uses);
  void bind_program(FlexAllocator& allocator, Scratchpads& scratchpads, const Job& job,
                    std::span<const Argument> arguments, AllocationUses& uses);
  void bind_workspace(FlexAllocator& allocator, AllocationUses& uses);
  void add_own(const ResolvedAllocation& memory);
  void resolve(FlexAllocator& allocator, const Argument& argument, const StickGeometry& geometry, std::size_t index,
               AllocationUses& uses);
  void find_partials(FlexAllocator& allocator, AllocationUses& uses);
  bool may_overlap(std::size_t i, std::size_t j) const;
  void check_overlap() const;
  Shape shape_of_tile(const Tile& tile, std::size_t index) const;

  const Kernel* kernel_;
  std::size_t count_ = 0;
  std::shared_ptr<const LaunchForm> form_;
  PerOperand<ResolvedAllocation> place_;
  PerOperand<ResolvedAllocation> partials_;  // empty: no operand has any; bytes 0: this one has none
  DevicePlace image_;
  RegionMap regions_;
};

}  // namespace svp
