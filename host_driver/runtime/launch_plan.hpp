// SPDX-License-Identifier: Apache-2.0
// The writer of a launch's control blocks, for plans that are written at once (tile_blocks.hpp writes those of tiled
// launches later). Exists on the stack of FlexStream::Launch; nothing here allocates.
#pragma once

#include <cstdint>

#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/bound_operands.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/tile_blocks.hpp"
#include "host_driver/runtime/unit.hpp"

namespace svp {

// Where a launch happens.
struct LaunchSite {
  FlexAllocator& allocator;
  Scratchpads& scratchpads;
  const HostMemory& host_memory;
  DevicePlace correction_slot;
  wire::AddressMode mode;
  std::uint64_t all_cores;
};

// What the compute blocks of a launch have in common. `job` has a kernel.
ComputeTerms terms_of(const LaunchSite& site, const Job& job, const LaunchOptions& options);

// The records that one walk takes. Transfers of memory of several chunks take more than the plan says.
WalkSize size_of_walk(const FlexAllocator& allocator, const Job& job);

// Writes the control blocks of one walk into `unit` and those behind it. Returns the first unit that it did not use.
// The memory of its transfers goes into `uses`, with the first tile.
// Throws InvalidArgument for a transfer that does not fit its allocation, and what a HostOperation throws.
Unit* write_walk(const LaunchSite& site, const Job& job, const BoundOperands* operands, std::uint32_t tile,
                 const LaunchOptions& options, AllocationUses& uses, Unit* unit);

}  // namespace svp
