// SPDX-License-Identifier: Apache-2.0
// Regions of device memory as granted by the card, and the interface through which the allocator obtains them.
#pragma once

#include <cstdint>
#include <spyre/allocator.hpp>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "host_driver/memory/virtual_address.hpp"
#include "shared/admin.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/units.hpp"

namespace svp {

inline constexpr std::uint64_t kMaxRegionBytes = 16 * wire::kGiB;  // one kernel window (protocol §6, §7)

using spyre::MemoryInfo;
using wire::RegionType;  // immutable once granted

constexpr std::string_view type_name(RegionType type) { return type == RegionType::Tensor ? "tensor" : "program"; }

struct Region {
  VirtualAddress base;           // {region_id, 0}
  std::uint32_t generation = 0;  // travels beside every address on the wire; a stale one is REJECTED by the card
  std::uint32_t ordinal = 0;     // 0…7: the row in the function's table and the kernel's window number
  std::uint64_t bytes = 0;       // a multiple of the 2 MiB granule, at most kMaxRegionBytes
  RegionType type = RegionType::Tensor;

  friend bool operator==(const Region&, const Region&) = default;
};

// Where regions come from: the card through REGION_ACQUIRE / REGION_RELEASE, or a fake in tests.
// The allocator calls it from any thread, one call at a time, and never with its block lock held; calls may block for
// an admin round trip.
class RegionSource {
 public:
  virtual ~RegionSource() = default;

  // A region of exactly `bytes`; Program regions must be granted with ordinal wire::kProgramRegion, Tensor regions
  // with another.
  // Outcome::Rejected means "not with this size" and makes the allocator try a smaller one; any other outcome ends the
  // attempt and reaches the caller as it is.
  virtual Expected<Region> acquire(RegionType type, std::uint64_t bytes) = 0;

  virtual Expected<void> release(const Region& region) = 0;

  // Region memory that is this function's whatever others do (wire::DeviceConfig::share_bytes). 0: none, or not known.
  virtual std::uint64_t guaranteed_bytes() const { return 0; }
  // Of it: what can be touched (wire::DeviceConfig::budget_bytes). 0: all, or not known.
  virtual std::uint64_t budget_bytes() const { return 0; }

  // What the function could still get and the most that it can hold, as the card says now.
  virtual Expected<MemoryInfo> memory_info() = 0;
};

}  // namespace svp
