// SPDX-License-Identifier: Apache-2.0
// The card that measurements of several functions boot, and raw regions on it.
#pragma once

#include <cstdint>

#include "host_driver/memory/host_memory.hpp"
#include "qemu/card.hpp"
#include "tests/bench/card/block_client.hpp"

namespace bench {

inline constexpr unsigned kTenants = 8;  // virtual functions

// `cores` 0: as the driver chooses.
svp::CardOptions tenant_card_options(unsigned cores);

// A Tensor region of its own, below the allocator. It is not released by itself: release(), or a reset of the function.
class DirtyRegion {
 public:
  // Throws svp::Error.
  DirtyRegion(svp::Device& device, std::uint64_t bytes);

  // Writes the first `bytes` of it with a pattern that is not zero.
  void dirty(std::uint64_t bytes);
  // Reads the first `bytes` back and throws MeasurementError when one is not zero.
  void require_zero(std::uint64_t bytes);
  // Device to device inside it: the first `bytes` to the next `bytes`. Returns the time from submission to completion.
  double copy(std::uint64_t bytes);
  void release();

 private:
  wire::Endpoint at(std::uint64_t offset) const;

  svp::Device& device_;
  svp::Region region_;
  svp::HostMemory host_;
};

}  // namespace bench
