// SPDX-License-Identifier: Apache-2.0
// Region memory of the card: one pool of 2 MiB granules, handed out as contiguous grants. It is divided into zones
// (protocol §6): each function has a zone that nobody else is granted from, its share; the rest, nobody's zone, is
// first come, first served. Whatever others do, a function so keeps the memory, the contiguity and the table entries of
// its share.
//
// Three bitmaps follow every granule: *dirty* (holds somebody's bytes; scrubbed before it is granted again),
// *populated* (backed by memory of the machine that emulates us; bounded by a budget, of which each zone has a share)
// and *retired* (its memory fails). Memory of a released grant is quarantined until its scrub ended, and is its last
// owner's until then.
//
// Threading: everything by hart 0, except mark_written(), which any hart may call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>

#include "firmware/core/memory_shares.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/hal/spin_lock.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/outcome.hpp"

namespace fw {

class RegionPool {
 public:
  static constexpr std::uint64_t kMaxGranules = 64 * 1024;  // 128 GiB
  // Of each function: its table, three times as much that was released while launches used it, and as much in
  // scrubbing.
  static constexpr std::size_t kGrantsPerOwner = wire::kRegionsPerFunction * 5;
  static constexpr std::size_t kMaxGrants = kMaxOwners * kGrantsPerOwner;

  // `bitmaps` is persistent memory of at least bitmap_bytes(); its contents are kept when `warm`. Of the options: how
  // many functions there are, their quota, and the budget of populated memory.
  static constexpr std::uint64_t bitmap_bytes() { return 3 * kMaxGranules / 8; }
  void init(hal::MemoryRange range, std::byte* bitmaps, bool warm, const BootOptions& options);

  // A contiguous grant of `bytes` rounded up to granules: from the owner's zone, else from nobody's. The lowest address
  // that fits; where the owner could not populate that any more, the one with the most memory that is populated
  // already. OutOfRegions: this owner has used up its entries of the table of grants. OutOfDeviceMemory: no zone has
  // room, or what the owner may populate is in quarantine. prospect() tells whether to wait.
  std::expected<hal::PhysicalAddress, wire::Status> acquire(Owner owner, std::uint64_t bytes);
  // The memory goes to quarantine; scrub_step() cleans it.
  void release(hal::PhysicalAddress base);

  // Whether an acquire that was refused just now would succeed …
  enum class Prospect {
    Never,        // … not before somebody releases something
    AfterOwn,     // … when quarantined memory of this very owner, or of its zone, has been scrubbed
    AfterOthers,  // … when what anybody left in nobody's zone has been scrubbed, if nobody else takes it first
  };
  Prospect prospect(Owner owner, std::uint64_t bytes) const;

  // Cleans at most `bytes` of quarantined memory, of each owner in turn. False when nothing is quarantined.
  bool scrub_step(std::uint64_t bytes);
  bool scrubbing() const { return quarantined_grants_ != 0; }
  std::uint64_t scrubs_begun() const { return scrubs_begun_; }  // since boot …
  std::uint64_t scrubs_ended() const { return scrubs_begun_ - quarantined_grants_; }

  // Before the first write to [base, +bytes), which lies in a grant of `owner`: sets both bits of every granule
  // touched. False when that would exceed the budget of populated memory (nothing is set then).
  bool mark_written(Owner owner, hal::PhysicalAddress base, std::uint64_t bytes);

  // Whether a write to [base, +bytes) touches no memory for the first time: that costs the machine that emulates us a
  // page fault for each granule.
  bool populated(hal::PhysicalAddress base, std::uint64_t bytes) const;

  // The memory at `address` fails: its granule is granted no more, from when its present grant has ended until
  // power-on. True when it was not retired before.
  bool retire(hal::PhysicalAddress address);
  std::uint64_t retired_granules() const { return retired_count_; }

  std::uint64_t total_bytes() const { return granules_ * wire::kGranuleBytes; }
  std::uint64_t share_bytes(Owner owner) const { return shares_.memory[owner] * wire::kGranuleBytes; }
  // Of its share: what may be populated, whatever others do. 0: there is no budget.
  std::uint64_t budget_bytes(Owner owner) const {
    return bounded_ ? shares_.populated[owner] * wire::kGranuleBytes : 0;
  }
  // As the owner sees the pool: its own zone and nobody's. kNobody: the whole pool.
  std::uint64_t reach_bytes(Owner owner) const;
  std::uint64_t free_bytes(Owner owner = kNobody) const;     // grantable now: quarantined memory is not
  std::uint64_t largest_bytes(Owner owner = kNobody) const;  // largest contiguous part of it

  // Counters, kept up to date: reading one looks at no bitmap.
  std::uint64_t granted_bytes(Owner owner) const { return tenants_[owner].granted * wire::kGranuleBytes; }
  std::uint64_t quarantined_bytes(Owner owner) const { return tenants_[owner].quarantined * wire::kGranuleBytes; }
  std::uint64_t dirty_granules(Owner owner) const;                // of what is granted to it
  std::uint64_t unclean_bytes() const { return unclean_bytes_; }  // in quarantine: what scrub_step() has still to clean
  std::uint64_t populated_granules() const { return populated_count_.load(std::memory_order_relaxed); }

  // The same figures from the bitmaps, for tests: each reads the whole pool.
  std::uint64_t scan_dirty_granules(Owner owner) const;
  std::uint64_t scan_unclean_bytes() const;
  std::uint64_t scan_populated_granules() const;

 private:
  struct Grant {
    std::uint64_t first;  // granule
    std::uint64_t count;
    std::uint64_t cleaned;   // quarantined only: granules done …
    std::uint64_t scrubbed;  // … and bytes done of the one being cleaned: several scrubs may be under way
    Owner owner;
    bool quarantined;
  };
  // Granules; grants and what is in quarantine are counted apart.
  struct Tenant {
    std::uint64_t granted = 0;
    std::uint64_t quarantined = 0;
    std::uint32_t grants = 0;  // entries of the table, quarantined ones included
    std::uint32_t quarantined_grants = 0;
    std::uint64_t populated = 0;  // in its zone; under populate_lock_
    std::atomic<std::uint64_t> dirty{0};
  };
  struct Place {
    std::uint64_t first;
    bool found;
  };

  using Word = std::uint64_t;
  static constexpr unsigned kBits = 64;
  static bool test(const Word* map, std::uint64_t granule);
  static bool set(Word* map, std::uint64_t granule);  // true when it was clear
  static void clear(Word* map, std::uint64_t granule);
  // The first granule in [from, end) whose bit is set; `end` when there is none.
  static std::uint64_t next_set(const Word* map, std::uint64_t from, std::uint64_t end);
  static std::uint64_t count_set(const Word* map, std::uint64_t from, std::uint64_t end);

  std::uint64_t granule_of(hal::PhysicalAddress address) const { return (address - base_) / wire::kGranuleBytes; }
  Owner zone_of(std::uint64_t granule) const;
  std::uint64_t zone_end(Owner zone) const { return zone_first_[zone] + shares_.memory[zone]; }
  void lay_out_zones();
  void quarantine_left_overs(Owner zone);
  std::size_t index_of(std::uint64_t granule) const;  // of the first grant at or behind it
  void insert_grant(const Grant& grant);
  void remove_grant(std::size_t index);
  Grant* next_to_scrub();
  void clean(Grant& grant, std::uint64_t bytes);

  bool populate(std::uint64_t first, std::uint64_t last);
  std::uint64_t beyond_share(Owner zone, std::uint64_t populated) const;
  std::uint64_t populatable(Owner zone) const;
  bool scarce(Owner zone, std::uint64_t count) const { return bounded_ && count > populatable(zone); }
  Place lowest(Owner zone, std::uint64_t count) const;
  Place most_populated(Owner zone, std::uint64_t count) const;
  Place place(Owner zone, std::uint64_t count) const;
  // visit(first, count) of each run of granules that can be granted: now, or when everything is scrubbed.
  enum class When { Now, Scrubbed };
  template <typename Visit>
  void for_each_gap(Owner zone, When when, Visit visit) const;
  std::uint64_t largest_gap(Owner zone, When when) const;
  template <typename Visit>
  void for_each_zone(Owner owner, Visit visit) const;  // that the owner sees

  std::uint64_t base_ = 0;
  std::uint64_t granules_ = 0;
  MemoryShares shares_;
  std::array<std::uint64_t, kMaxOwners> zone_first_{};
  Owner zones_ = 0;       // functions' zones are 1 … zones_, in the order of their addresses; nobody's lies behind them
  bool bounded_ = false;  // by a budget of populated memory
  Word* dirty_ = nullptr;
  Word* populated_ = nullptr;
  Word* retired_ = nullptr;
  std::uint64_t retired_count_ = 0;
  mutable hal::SpinLock populate_lock_;
  std::atomic<std::uint64_t> populated_count_{0};
  std::uint64_t borrowed_ = 0;  // populated beyond shares, out of nobody's share; under populate_lock_
  std::array<Tenant, kMaxOwners> tenants_;
  std::array<Grant, kMaxGrants> grants_{};  // sorted by first
  std::size_t grant_count_ = 0;
  std::size_t quarantined_grants_ = 0;
  std::uint64_t unclean_bytes_ = 0;
  std::uint64_t scrubs_begun_ = 0;
  Owner scrubbed_last_ = kNobody;                  // whose memory was scrubbed last …
  std::uint64_t scrubbed_at_ = ~std::uint64_t{0};  // … and the first granule of the grant; ~0: its part is done
};

}  // namespace fw
