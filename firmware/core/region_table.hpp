// SPDX-License-Identifier: Apache-2.0
// The region lookup table of one function, and the one place where an address of a control block becomes a place in
// card memory. PF and VF differ here and nowhere else: a VF names a region by its index in this table, the PF by the
// physical base it was granted, which is looked up as a name and never used as an address (protocol §6).
#pragma once

#include <array>
#include <cstdint>
#include <expected>

#include "firmware/hal/memory.hpp"
#include "shared/admin.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/outcome.hpp"
#include "shared/window.hpp"

namespace fw {

struct Region {
  hal::PhysicalAddress base = 0;
  std::uint64_t bytes = 0;  // 0: the entry is free
  std::uint32_t generation = 0;
  wire::RegionType type = wire::RegionType::Tensor;
  std::uint64_t check = 0;  // over the rest and the entry's name: see RegionTable::intact()
};

class RegionTable {
 public:
  void init(wire::FunctionKind kind) { kind_ = kind; }

  // Ordinal 7 is the Program region, 0 … 6 are Tensor regions (RFC: segment 7 holds programs and correction).
  std::expected<unsigned, wire::Status> free_ordinal(wire::RegionType type) const;
  Region& install(unsigned ordinal, hal::PhysicalAddress base, std::uint64_t bytes, wire::RegionType type);
  void remove(unsigned ordinal);

  // Of all entries together.
  std::uint64_t granted_bytes() const {
    std::uint64_t sum = 0;
    for (const Grant& grant : granted_) sum += grant.bytes;
    return sum;
  }

  // What the pool gave for an entry; bytes == 0: nothing. Goes back by this copy: the entry itself may be damaged.
  struct Grant {
    hal::PhysicalAddress base = 0;
    std::uint64_t bytes = 0;
  };
  const Grant& granted(unsigned ordinal) const { return granted_[ordinal]; }

  // Whether an entry (all entries) reads as it was written. A damaged one resolves to nothing until its function is
  // reset.
  bool intact(unsigned ordinal) const { return regions_[ordinal].check == check_of(ordinal); }
  bool intact() const;
  // Inverts a byte of the entry's memory (FaultPoint::RegionEntry); `byte` modulo what there is. False: no such entry.
  bool damage(std::uint64_t region_id, std::uint64_t byte);

  std::uint64_t region_id(unsigned ordinal) const { return names_[ordinal]; }
  Region& at(unsigned ordinal) { return regions_[ordinal]; }
  const Region& at(unsigned ordinal) const { return regions_[ordinal]; }

  // Changes with every install() and remove(): who caches something about the regions compares it. Of 64 bits, because
  // a tenant changes it as often as it likes and a version that comes back would make an old cache look right.
  std::uint64_t version() const { return version_; }
  // Changes with damage() as well: what a name was resolved to holds as long. Never 0.
  std::uint64_t names_version() const { return names_version_; }

  std::expected<unsigned, wire::Status> find(std::uint64_t region_id, std::uint32_t generation) const;

  // Checks name, generation, type and bounds; nothing else makes a host's words a physical address.
  struct Place {
    hal::PhysicalAddress address;
    unsigned ordinal;
  };
  std::expected<Place, wire::Status> resolve(std::uint64_t region_id, std::uint32_t generation, std::uint64_t offset,
                                             std::uint64_t bytes) const;

 private:
  std::uint64_t check_of(unsigned ordinal) const;

  static constexpr std::array<std::uint64_t, wire::kRegionsPerFunction> filled_with_no_region() {
    std::array<std::uint64_t, wire::kRegionsPerFunction> names;
    names.fill(wire::kNoRegion);
    return names;
  }

  wire::FunctionKind kind_ = wire::FunctionKind::Unbound;
  std::array<Region, wire::kRegionsPerFunction> regions_{};
  std::array<Grant, wire::kRegionsPerFunction> granted_{};
  // What each entry is called on the wire; kNoRegion where there is none. Every address of every block is looked up
  // here.
  std::array<std::uint64_t, wire::kRegionsPerFunction> names_ = filled_with_no_region();
  // Of the region installed last. One counter for the table and not one per entry: to the PF a base can come back under
  // another ordinal, and an old handle must not match there either.
  std::uint32_t generation_ = 0;
  std::uint64_t version_ = 1;
  std::uint64_t names_version_ = 1;
};

}  // namespace fw
