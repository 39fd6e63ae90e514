// SPDX-License-Identifier: Apache-2.0
// Converts between elements of the host and sticks of the card, chunk by chunk, straight into or out of staging chunks:
// for transfers that pinned memory has no room for. No byte is copied a second time.
#pragma once

#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "host_driver/runtime/job.hpp"
#include "host_driver/tensor/element_format.hpp"
#include "host_driver/tensor/stick_runs.hpp"

namespace svp {

// The host's side of a transfer. A transfer to the card only reads `memory`.
struct HostSide {
  ElementFormat format;
  std::span<std::byte> memory;
};
struct CardSide {
  ElementFormat format;
  std::int64_t elements_per_stick;
  AllocationIndex tensor;
};

// For one launch, which keeps it alive; so is the memory of the host.
class StickConverter {
 public:
  // `nests`: of describe_transfer(), in `direction`. `runs`: the sticks that are moved; to the card all of their bytes
  // are written, what no nest names as zero.
  StickConverter(std::vector<StridedLoops> nests, std::span<const StickRun> runs, Direction direction,
                 const HostSide& host, const CardSide& card);
  ~StickConverter();
  StickConverter(const StickConverter&) = delete;
  StickConverter& operator=(const StickConverter&) = delete;

  // One DMA for each run.
  std::vector<Step> steps();
  // After the launch: throws what the conversion threw (std::bad_alloc).
  void require_converted() const;

 private:
  class OfRun;
  LoopSide card_side() const { return direction_ == Direction::ToDevice ? LoopSide::Destination : LoopSide::Source; }
  void fill(std::int64_t first, std::span<std::byte> sticks) noexcept;
  void drain(std::int64_t first, std::span<const std::byte> sticks) noexcept;
  std::vector<StridedLoops> loops_of(std::int64_t first_stick, std::size_t bytes) const;

  const std::vector<StridedLoops> nests_;
  const Direction direction_;
  const HostSide host_;
  const CardSide card_;
  std::vector<OfRun> runs_;
  std::exception_ptr failure_;  // of the staging worker: read when the launch has ended
};

}  // namespace svp
