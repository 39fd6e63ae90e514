// SPDX-License-Identifier: Apache-2.0
// A launch between its arguments and its control blocks: validated operands, tiles, and the writer of the blocks.
// Exists on the stack of FlexStream::Launch; nothing here allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/argument.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/tiling.hpp"
#include "host_driver/runtime/unit.hpp"

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

// The operands of a compute job, checked and resolved.
class BoundOperands {
 public:
  // Throws as FlexStream::Launch. The operands' memory goes into `uses`.
  BoundOperands(FlexAllocator& allocator, const Job& job, std::span<const Argument> arguments, bool allow_tiled_launch,
                AllocationUses& uses);

  const Tiling& tiling() const { return tiling_; }
  const RegionMap& regions() const { return regions_; }
  std::size_t count() const { return count_; }
  const DevicePlace& image() const { return image_; }

  // Operand addresses of one tile.
  std::array<ResolvedOperand, kMaxOperands> of_tile(std::uint32_t tile) const;
  // Rows of the segment table for that tile, and the windows they lie in.
  void write_segments(std::uint32_t tile, wire::ComputePayload& compute, SegmentWindows& windows) const;

 private:
  void resolve(FlexAllocator& allocator, std::span<const Argument> arguments, std::size_t index, AllocationUses& uses);
  void check_overlap() const;

  const Job& job_;
  std::size_t count_ = 0;
  std::array<ResolvedAllocation, kMaxOperands> place_{};
  std::array<StickGeometry, kMaxOperands> geometry_{};
  std::array<std::uint64_t, kMaxOperands> tile_span_{};
  DevicePlace image_;
  Tiling tiling_;
  RegionMap regions_;
};

// Where a launch happens.
struct LaunchSite {
  FlexAllocator& allocator;
  const HostMemory& host_memory;
  DevicePlace correction_slot;
  wire::AddressMode mode;
  std::uint64_t all_cores;
};

// The records that one walk takes. Transfers of memory of several chunks take more than the plan says.
WalkSize size_of_walk(const FlexAllocator& allocator, const Job& job);

// Writes the control blocks of one walk into `unit` and those behind it. Returns the first unit that it did not use.
// The memory of its transfers goes into `uses`, with the first tile.
// Throws InvalidArgument for a transfer that does not fit its allocation, and what a HostOperation throws.
Unit* write_walk(const LaunchSite& site, const Job& job, const BoundOperands* operands, std::uint32_t tile,
                 const LaunchOptions& options, AllocationUses& uses, Unit* unit);

}  // namespace svp
