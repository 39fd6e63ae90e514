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

// Of one copy. The rest stays for everybody else.
std::uint64_t largest_pinned(const HostMemory& memory);
std::uint64_t bytes_of(std::span<const StickRun> runs);

class StickBuffer {
 public:
  // For the sticks from the first run to the last one; uninitialised. The first is pinned, which saves the staging
  // copy: null when there is no room, or when it would take more than largest_pinned(). The second is ordinary memory
  // then.
  static std::shared_ptr<const StickBuffer> pinned(HostMemory& memory, std::span<const StickRun> runs);
  static std::shared_ptr<const StickBuffer> any(HostMemory& memory, std::span<const StickRun> runs);

  std::span<std::byte> bytes() const { return bytes_; }
  std::int64_t first_stick() const { return first_stick_; }

  // Linear DMA of these sticks. The buffer belongs to the launch.
  std::vector<Step> transfers(std::span<const StickRun> runs, AllocationIndex tensor, Direction direction) const;
  // The loops of a transfer, whose card's side is this buffer.
  std::vector<StridedLoops> loops_here(std::vector<StridedLoops> nests, LoopSide side, std::int64_t eps) const;

 private:
  StickBuffer() = default;

  std::int64_t first_stick_ = 0;
  PinnedBuffer pinned_;
  std::unique_ptr<std::byte[]> pageable_;
  std::span<std::byte> bytes_;
};

}  // namespace svp
