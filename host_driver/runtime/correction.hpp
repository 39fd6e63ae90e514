// SPDX-License-Identifier: Apache-2.0
// Program correction, host side (RFC "Program correction flow", protocol §7): what a HostOperation is given, and the
// one that builds the correction tensor of shared/kernel_abi.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/memory/virtual_address.hpp"
#include "host_driver/runtime/kernel.hpp"
#include "shared/kernel_abi.hpp"

namespace svp {

// What the compiler says about a binary's symbols. Empty for a kernel that has none.
struct ProgramCorrectionMetadata {
  std::vector<KernelSymbol> symbols;
  std::uint64_t max_bytes = 0;  // largest correction tensor that the binary reads

  static ProgramCorrectionMetadata of(const Kernel& kernel);
};

// How the card names its regions, for the correction header (RFC open question 5).
struct RegionMap {
  wire::AddressMode mode = wire::AddressMode::Vf;
  std::array<std::uint64_t, wire::kRegionsPerFunction> region_id{wire::kNoRegion, wire::kNoRegion, wire::kNoRegion,
                                                                 wire::kNoRegion, wire::kNoRegion, wire::kNoRegion,
                                                                 wire::kNoRegion, wire::kNoRegion};  // by window
};

// The resolved symbol values of one walk of the plan (one tile).
struct ResolvedOperand {
  VirtualAddress address;                                              // of this tile
  std::array<std::uint64_t, Shape::kMaxRank> stride;                   // bytes, of the whole tensor; see StickGeometry
  VirtualAddress partials{.region_id = wire::kNoRegion, .offset = 0};  // of an output that is summed up in passes
};
struct HostOperationInput {
  const ProgramCorrectionMetadata& metadata;
  std::span<const ResolvedOperand> operands;
  std::span<const std::int64_t> dimensions;  // extents of this tile, in order of KernelMetadata::dimensions
  RegionMap regions;
  std::uint32_t tile = 0;
  std::uint64_t pass = wire::kPassFirst | wire::kPassLast;
};

// Fills `correction` (zeroed, metadata.max_bytes long) and returns how much of it is used. Once per tile, in order; on
// which thread, and what becomes of what it throws: HostTime (job.hpp).
using HostFunction = std::function<std::size_t(const HostOperationInput&, std::span<std::byte> correction)>;

// The standard HostOperation.
std::size_t build_correction(const HostOperationInput& input, std::span<std::byte> correction);

}  // namespace svp
