// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/region_table.hpp"

#include <bit>
#include <cstddef>

#include "firmware/mutants/mutants.hpp"
#include "shared/units.hpp"

namespace fw {

using wire::Status;

std::expected<unsigned, Status> RegionTable::free_ordinal(wire::RegionType type) const {
  const bool program = type == wire::RegionType::Program;
  const unsigned begin = program ? wire::kProgramRegion : 0;
  const unsigned end = program ? wire::kRegionsPerFunction : wire::kProgramRegion;
  // An exhausted generation counter ends all granting: a handle must never match again.
  for (unsigned i = begin; i < end && generation_ != ~std::uint32_t{0}; ++i) {
    if (granted_[i].bytes == 0) return i;
  }
  return std::unexpected(Status::OutOfRegions);
}

Region& RegionTable::install(unsigned ordinal, hal::PhysicalAddress base, std::uint64_t bytes, wire::RegionType type) {
  Region& region = regions_[ordinal];
  region = {base, bytes, ++generation_, type, 0};
  granted_[ordinal] = {base, bytes};
  names_[ordinal] = kind_ == wire::FunctionKind::Virtual ? ordinal : base;
  region.check = check_of(ordinal);
  ++version_, ++names_version_;
  return region;
}

void RegionTable::remove(unsigned ordinal) {
  regions_[ordinal].bytes = 0;
  granted_[ordinal] = {};
  names_[ordinal] = wire::kNoRegion;
  ++version_, ++names_version_;
}

// Not a checksum for many bytes: each field enters so that a change of it alone changes the sum, which is what damage
// to one word of memory is. A handful of instructions, because every address of every block is looked up.
std::uint64_t RegionTable::check_of(unsigned ordinal) const {
  constexpr std::uint64_t kOdd = 0x9E37'79B9'7F4A'7C15;
  const Region& region = regions_[ordinal];
  const std::uint64_t words = (region.base ^ std::rotl(region.bytes, 17)) + region.generation;
  return words * kOdd ^ names_[ordinal] ^ std::uint64_t{static_cast<std::uint32_t>(region.type)} << 32;
}

bool RegionTable::intact() const {
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if (granted_[i].bytes != 0 && !intact(i)) return false;
  }
  return true;
}

bool RegionTable::damage(std::uint64_t region_id, std::uint64_t byte) {
  if (region_id == wire::kNoRegion) return false;
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if (names_[i] != region_id) continue;
    reinterpret_cast<std::byte*>(&regions_[i])[byte % offsetof(Region, check)] ^= std::byte{0xff};
    ++names_version_;
    return true;
  }
  return false;
}

std::expected<unsigned, Status> RegionTable::find(std::uint64_t region_id, std::uint32_t generation) const {
  if (region_id == wire::kNoRegion && !mutated(Mutant::RegionName)) return std::unexpected(Status::UnknownRegion);
  for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
    if (names_[i] != region_id) continue;
    if (!intact(i)) return std::unexpected(Status::RegionEntryDamaged);
    if (regions_[i].generation != generation && !mutated(Mutant::RegionGeneration)) {
      return std::unexpected(Status::StaleRegion);
    }
    return i;
  }
  if (mutated(Mutant::RegionName)) return static_cast<unsigned>(region_id % wire::kRegionsPerFunction);
  return std::unexpected(Status::UnknownRegion);
}

std::expected<RegionTable::Place, Status> RegionTable::resolve(std::uint64_t region_id, std::uint32_t generation,
                                                               std::uint64_t offset, std::uint64_t bytes) const {
  const auto ordinal = find(region_id, generation);
  if (!ordinal) return std::unexpected(ordinal.error());
  const Region& region = regions_[*ordinal];
  if (!wire::range_inside(offset, bytes, region.bytes)) {
    // A mutant stays near: what lies beyond the card's memory would end its firmware.
    const bool wraps = offset + bytes < offset && bytes <= region.bytes;
    const bool near = offset <= region.bytes && bytes <= 2 * region.bytes;
    if (!mutated(Mutant::RegionBounds) || !(wraps || near)) return std::unexpected(Status::OutOfBounds);
    if (wraps) return Place{region.base, *ordinal};
  }
  return Place{region.base + offset, *ordinal};
}

}  // namespace fw
