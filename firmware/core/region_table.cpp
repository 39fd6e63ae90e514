// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/region_table.hpp"

#include "shared/units.hpp"

namespace fw {

using wire::Status;

std::expected<unsigned, Status> RegionTable::free_ordinal(wire::RegionType type) const {
  const bool program = type == wire::RegionType::Program;
  const unsigned begin = program ? wire::kProgramRegion : 0;
  const unsigned end = program ? wire::kRegionsPerFunction : wire::kProgramRegion;
  // An exhausted generation counter ends all granting: a handle must never match again.
  for (unsigned i = begin; i < end && generation_ != ~std::uint32_t{0}; ++i) {
    if (regions_[i].bytes == 0) return i;
  }
  return std::unexpected(Status::OutOfRegions);
}

Region& RegionTable::install(unsigned ordinal, hal::PhysicalAddress base, std::uint64_t bytes, wire::RegionType type) {
  Region& region = regions_[ordinal];
  region = {base, bytes, ++generation_, type, 0};
  names_[ordinal] = kind_ == wire::FunctionKind::Virtual ? ordinal : base;
  ++version_;
  return region;
}

void RegionTable::remove(unsigned ordinal) {
  regions_[ordinal].bytes = 0;
  names_[ordinal] = wire::kNoRegion;
  ++version_;
}

std::expected<unsigned, Status> RegionTable::find(std::uint64_t region_id, std::uint32_t generation) const {
  if (region_id == wire::kNoRegion) return std::unexpected(Status::UnknownRegion);
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if (names_[i] != region_id) continue;
    if (regions_[i].generation != generation) return std::unexpected(Status::StaleRegion);
    return i;
  }
  return std::unexpected(Status::UnknownRegion);
}

std::expected<RegionTable::Place, Status> RegionTable::resolve(std::uint64_t region_id, std::uint32_t generation,
                                                               std::uint64_t offset, std::uint64_t bytes) const {
  const auto ordinal = find(region_id, generation);
  if (!ordinal) return std::unexpected(ordinal.error());
  const Region& region = regions_[*ordinal];
  if (!wire::range_inside(offset, bytes, region.bytes)) return std::unexpected(Status::OutOfBounds);
  return Place{region.base + offset, *ordinal};
}

}  // namespace fw
