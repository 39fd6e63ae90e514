// SPDX-License-Identifier: Apache-2.0
// A place in device memory as flex sees it (RFC "Spyre Stack", VirtualAddress). It stays inside flex: what crosses to
// the frontend is an AllocationIndex.
#pragma once

#include <cstdint>

namespace svp {

// region_id: VF: index in the function's lookup table. PF: the region's physical base, used as a name only; the card
// looks it up among the granted regions. One type, one meaning of offset (bytes from the region's start).
struct VirtualAddress {
  std::uint64_t region_id = 0;
  std::uint64_t offset = 0;

  friend bool operator==(const VirtualAddress&, const VirtualAddress&) = default;
};

// The address `bytes` further on in the same region. The caller keeps it inside its allocation.
constexpr VirtualAddress advanced(VirtualAddress address, std::uint64_t bytes) {
  return {.region_id = address.region_id, .offset = address.offset + bytes};
}

}  // namespace svp
