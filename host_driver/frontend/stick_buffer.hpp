// SPDX-License-Identifier: Apache-2.0
// Host memory that stands for some sticks of a tensor, and the transfers that fill or write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "host_driver/frontend/spyre_tensor.hpp"
#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/tensor/stick_runs.hpp"

namespace svp {

class StickBuffer {
 public:
  // For the sticks from the first run to the last one. Pinned when there is room, because that saves the staging copy,
  // else ordinary memory; uninitialised.
  StickBuffer(HostMemory& memory, std::span<const StickRun> runs);

  std::span<std::byte> bytes() const { return bytes_; }
  std::int64_t first_stick() const { return first_stick_; }

  // Linear DMA of these sticks. The buffer belongs to the launch.
  std::vector<Step> transfers(std::span<const StickRun> runs, AllocationIndex tensor, Direction direction) const;
  // The loops of a transfer, whose card's side is this buffer.
  std::vector<StridedLoops> loops_here(std::vector<StridedLoops> nests, LoopSide side, std::int64_t eps) const;

 private:
  std::int64_t first_stick_ = 0;
  PinnedBuffer pinned_;
  std::unique_ptr<std::byte[]> pageable_;
  std::span<std::byte> bytes_;
};

}  // namespace svp
