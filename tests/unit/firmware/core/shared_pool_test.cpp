// SPDX-License-Identifier: Apache-2.0
// The region pool as several functions use it, in any order of acquiring, writing, releasing and scrubbing: shares hold
// together, nobody is refused within its own, and every counter is what a scan of the bitmaps finds.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <new>
#include <tuple>
#include <vector>

#include "firmware/core/region_pool.hpp"
#include "firmware/platform/host/native_board.hpp"

namespace {

using fw::kNobody;
using fw::Owner;
using fw::RegionPool;
using wire::kGranuleBytes;
using wire::Status;

constexpr Owner kFunctions = 3;
constexpr std::uint64_t kGranules = 40;  // 13 for each, one for nobody, when there is no quota
constexpr std::uint64_t kTouched = 128;

fw::BootOptions options_of(std::uint64_t quota_granules, std::uint64_t budget_granules) {
  fw::BootOptions options;
  options.virtual_functions = kFunctions - 1;
  options.quota_bytes = quota_granules * kGranuleBytes;
  options.populated_budget_bytes = budget_granules * kGranuleBytes;
  return options;
}

// The pool, and beside it what it should do, granule by granule.
class Model {
 public:
  explicit Model(const fw::BootOptions& options, std::uint64_t granules = kGranules)
      : granules_(granules),
        board_({.region_bytes = granules * kGranuleBytes}),
        bitmaps_(RegionPool::bitmap_bytes() / 8),
        dirty_(granules, false),
        populated_(granules, false) {
    pool.init(hal::region_memory(), bitmaps(), false, options);
    const bool bounded = options.populated_budget_bytes != 0;
    shares_ = fw::divide_memory(options, granules, bounded ? options.populated_budget_bytes / kGranuleBytes : granules);
    std::uint64_t at = 0;
    for (Owner zone = 1; zone <= kFunctions; at += shares_.memory[zone++]) first_[zone] = at;
    first_[kNobody] = at;
  }

  struct Grant {
    Owner owner;
    std::uint64_t count;
    bool quarantined;
  };

  std::byte* bitmaps() { return reinterpret_cast<std::byte*>(bitmaps_.data()); }
  std::uint64_t share(Owner zone) const { return shares_.memory[zone]; }

  // Longest run of the zone that is free, or would be when everything is clean.
  std::uint64_t longest(Owner zone, bool scrubbed) const {
    std::uint64_t longest = 0;
    std::uint64_t run = 0;
    for (std::uint64_t g = first_[zone]; g < first_[zone] + share(zone); ++g) {
      const auto grant = grant_at(g);
      run = grant == grants.end() || (scrubbed && grant->second.quarantined) ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    return longest;
  }
  std::map<std::uint64_t, Grant>::const_iterator grant_at(std::uint64_t g) const {
    auto above = grants.upper_bound(g);
    if (above == grants.begin()) return grants.end();
    --above;
    return g < above->first + above->second.count ? above : grants.end();
  }
  Owner zone_of(std::uint64_t g) const {
    for (Owner zone = 1; zone <= kFunctions; ++zone) {
      if (g >= first_[zone] && g < first_[zone] + share(zone)) return zone;
    }
    return kNobody;
  }
  std::uint64_t sum(Owner owner, bool quarantined) const {
    std::uint64_t count = 0;
    for (const auto& [first, grant] : grants) {
      if (grant.owner == owner && grant.quarantined == quarantined) count += grant.count;
    }
    return count;
  }
  std::uint64_t populated_in(Owner zone) const {
    std::uint64_t count = 0;
    for (std::uint64_t g = 0; g < granules_; ++g) count += populated_[g] && zone_of(g) == zone ? 1 : 0;
    return count;
  }

  void acquire(Owner owner, std::uint64_t count) {
    const std::uint64_t now = longest(owner, false);
    const auto got = pool.acquire(owner, count * kGranuleBytes);
    if (!got) {
      const auto prospect = pool.prospect(owner, count * kGranuleBytes);
      const bool own = longest(owner, true) >= count;
      const bool others = longest(kNobody, true) >= count;
      RC_ASSERT(prospect == (own      ? RegionPool::Prospect::AfterOwn
                             : others ? RegionPool::Prospect::AfterOthers
                                      : RegionPool::Prospect::Never));
      // Refused with room in its own zone: only while its own memory is being scrubbed, and never because of others.
      RC_ASSERT(now < count || sum(owner, true) != 0);
      return;
    }
    const std::uint64_t first = (*got - hal::region_memory().begin) / kGranuleBytes;
    RC_ASSERT(first + count <= granules_);
    const Owner zone = zone_of(first);
    RC_ASSERT(zone == owner || zone == kNobody);
    RC_ASSERT(zone_of(first + count - 1) == zone);
    for (std::uint64_t g = first; g < first + count; ++g) {
      RC_ASSERT(grant_at(g) == grants.end());
      RC_ASSERT(!dirty_[g]);
      RC_ASSERT(*hal::pointer(hal::region_memory().begin + g * kGranuleBytes) == std::byte{0});
    }
    grants[first] = {owner, count, false};
  }

  // As a transfer of 128 bytes to granule `g`, which lies in a grant.
  void touch(std::uint64_t g) {
    const Grant& grant = grant_at(g)->second;
    const Owner zone = zone_of(g);
    const auto at = hal::region_memory().begin + g * kGranuleBytes;
    const bool within = populated_[g] || (zone != kNobody && populated_in(zone) < shares_.populated[zone]);
    if (!pool.mark_written(grant.owner, at, kTouched)) {
      RC_ASSERT(!within);
      return;
    }
    *hal::pointer(at) = std::byte{0xee};
    dirty_[g] = populated_[g] = true;
  }

  void release(std::uint64_t first) {
    Grant& grant = grants.at(first);
    pool.release(hal::region_memory().begin + first * kGranuleBytes);
    const bool dirty =
        std::any_of(dirty_.begin() + static_cast<std::ptrdiff_t>(first),
                    dirty_.begin() + static_cast<std::ptrdiff_t>(first + grant.count), [](bool d) { return d; });
    if (dirty) {
      grant.quarantined = true;
    } else {
      grants.erase(first);
    }
  }

  // Whole granules, so that the model need not follow parts of one. What is clean is seen in the memory.
  void scrub() {
    pool.scrub_step(kGranuleBytes);
    for (auto it = grants.begin(); it != grants.end();) {
      bool dirty = false;
      for (std::uint64_t g = it->first; g < it->first + it->second.count && it->second.quarantined; ++g) {
        dirty_[g] = *hal::pointer(hal::region_memory().begin + g * kGranuleBytes) != std::byte{0};
        dirty |= dirty_[g];
      }
      it = it->second.quarantined && !dirty ? grants.erase(it) : std::next(it);
    }
  }

  void check() const {
    std::uint64_t shares = 0;
    std::uint64_t dirty_quarantined = 0;
    std::array<std::uint64_t, kFunctions + 1> dirty{};
    for (std::uint64_t g = 0; g < granules_; ++g) {
      const auto grant = grant_at(g);
      if (!dirty_[g]) continue;
      RC_ASSERT(grant != grants.end());
      ++(grant->second.quarantined ? dirty_quarantined : dirty[grant->second.owner]);
    }
    for (Owner owner = 0; owner <= kFunctions; ++owner) {
      shares += pool.share_bytes(owner);
      RC_ASSERT(pool.dirty_granules(owner) == dirty[owner]);
      RC_ASSERT(pool.dirty_granules(owner) == pool.scan_dirty_granules(owner));
      RC_ASSERT(pool.granted_bytes(owner) == sum(owner, false) * kGranuleBytes);
      RC_ASSERT(pool.quarantined_bytes(owner) == sum(owner, true) * kGranuleBytes);
    }
    RC_ASSERT(shares == pool.total_bytes());
    RC_ASSERT(pool.unclean_bytes() == dirty_quarantined * kGranuleBytes);
    RC_ASSERT(pool.unclean_bytes() == pool.scan_unclean_bytes());
    RC_ASSERT(pool.populated_granules() == pool.scan_populated_granules());
    RC_ASSERT(pool.scrubs_begun() - pool.scrubs_ended() ==
              static_cast<std::uint64_t>(
                  std::ranges::count_if(grants, [](const auto& entry) { return entry.second.quarantined; })));
  }

  RegionPool pool;
  std::map<std::uint64_t, Grant> grants;  // by first granule

 private:
  std::uint64_t granules_;
  native::Board board_;
  std::vector<std::uint64_t> bitmaps_;
  fw::MemoryShares shares_;
  std::array<std::uint64_t, kFunctions + 1> first_{};
  std::vector<bool> dirty_;
  std::vector<bool> populated_;
};

RC_GTEST_PROP(SharedPool, NobodyIsRefusedWithinItsShareAndEveryCounterIsWhatAScanFinds, ()) {
  const auto quota = *rc::gen::elementOf(std::vector<std::uint64_t>{0, 4, 10, 20});
  const auto budget = *rc::gen::elementOf(std::vector<std::uint64_t>{0, 3, 12, 39});
  const auto steps = *rc::gen::container<std::vector<std::tuple<unsigned, unsigned, unsigned>>>(
      rc::gen::tuple(rc::gen::inRange(0u, 8u), rc::gen::inRange(1u, kFunctions + 1), rc::gen::inRange(0u, 1000u)));
  Model model(options_of(quota, budget));
  for (const auto& [what, owner, number] : steps) {
    std::vector<std::uint64_t> held;
    for (const auto& [first, grant] : model.grants) {
      if (grant.owner == owner && !grant.quarantined) held.push_back(first);
    }
    if (what < 3) {
      model.acquire(owner, 1 + number % 6);
    } else if (what < 6 && !held.empty()) {
      const std::uint64_t first = held[number % held.size()];
      model.touch(first + number / 7 % model.grants.at(first).count);
    } else if (what == 6 && !held.empty()) {
      model.release(held[number % held.size()]);
    } else {
      model.scrub();
    }
    model.check();
  }
}

// Acquire, touch 128 bytes of each granule, release, and again, as fast as the pool lets it: the neighbours get what
// they are guaranteed at any moment, memory, table entries and pages to write on.
RC_GTEST_PROP(SharedPool, ATenantThatTouchesAndReleasesHurtsNobodyButItself, ()) {
  const auto hostile = *rc::gen::inRange<Owner>(1, kFunctions + 1);
  const auto rounds = *rc::gen::inRange(1, 60);
  const auto scrubs = *rc::gen::inRange(0, 3);
  const auto sizes = *rc::gen::container<std::vector<std::uint64_t>>(60, rc::gen::inRange<std::uint64_t>(1, 14));
  constexpr std::uint64_t kBudget = 12;
  Model model(options_of(0, kBudget));
  for (int round = 0; round < rounds; ++round) {
    model.acquire(hostile, sizes[static_cast<std::size_t>(round)]);
    std::vector<std::uint64_t> held;
    for (const auto& [first, grant] : model.grants) {
      if (grant.owner == hostile && !grant.quarantined) held.push_back(first);
    }
    for (const std::uint64_t first : held) {
      for (std::uint64_t g = first; g < first + model.grants.at(first).count; ++g) model.touch(g);
      model.release(first);
    }
    for (int scrub = 0; scrub < scrubs; ++scrub) model.scrub();
  }
  for (Owner owner = 1; owner <= kFunctions; ++owner) {
    if (owner == hostile) continue;
    const auto got = model.pool.acquire(owner, model.pool.share_bytes(owner));
    RC_ASSERT(got.has_value());
    for (std::uint64_t i = 0; i < kBudget / kFunctions; ++i) {
      RC_ASSERT(model.pool.mark_written(owner, *got + i * kGranuleBytes, kTouched));
    }
  }
}

TEST(SharedPool, TheTableOfGrantsIsUsedUpByItsUserAlone) {
  Model model(options_of(0, 0), kFunctions * (RegionPool::kGrantsPerOwner + 8));
  auto& pool = model.pool;
  std::size_t entries = 0;
  for (auto got = pool.acquire(2, 1); got; got = pool.acquire(2, 1)) {
    ASSERT_TRUE(pool.mark_written(2, *got, 1));
    pool.release(*got);
    ++entries;
  }
  EXPECT_EQ(entries, RegionPool::kGrantsPerOwner);
  EXPECT_EQ(pool.acquire(2, 1).error(), Status::OutOfRegions);
  EXPECT_EQ(pool.prospect(2, 1), RegionPool::Prospect::AfterOwn);
  for (std::size_t i = 0; i < RegionPool::kGrantsPerOwner; ++i) ASSERT_TRUE(pool.acquire(3, 1)) << i;
  EXPECT_EQ(pool.acquire(3, 1).error(), Status::OutOfRegions);
  EXPECT_EQ(pool.prospect(3, 1), RegionPool::Prospect::Never);
}

TEST(SharedPool, WhoQuarantinesWithoutEndHoldsUpNoOtherScrub) {
  Model model(options_of(0, 0));
  auto& pool = model.pool;
  const auto quarantine = [&](Owner owner) {
    const auto got = pool.acquire(owner, 1);
    if (!got) return;
    ASSERT_TRUE(pool.mark_written(owner, *got, 1));
    pool.release(*got);
  };
  for (int i = 0; i < 6; ++i) quarantine(1);
  quarantine(3);
  unsigned steps = 0;
  while (pool.quarantined_bytes(3) != 0) {
    quarantine(1);
    pool.scrub_step(kGranuleBytes);
    ASSERT_LE(++steps, kFunctions) << "one granule of each other function, then its own";
  }
}

TEST(SharedPool, PopulatedMemoryIsPreferredWhereNoMoreMayBePopulated) {
  Model model(options_of(0, 3 * kFunctions));
  auto& pool = model.pool;
  const auto low = pool.acquire(1, 8 * kGranuleBytes).value();
  for (unsigned g = 5; g < 8; ++g) ASSERT_TRUE(pool.mark_written(1, low + g * kGranuleBytes, 1));
  ASSERT_FALSE(pool.mark_written(1, low, 1)) << "the share of populated memory is used up";
  pool.release(low);
  EXPECT_FALSE(pool.acquire(1, 3 * kGranuleBytes)) << "what it may write on is in quarantine";
  EXPECT_EQ(pool.prospect(1, 3 * kGranuleBytes), RegionPool::Prospect::AfterOwn);
  for (int granule = 0; granule < 3; ++granule) EXPECT_TRUE(pool.scrub_step(kGranuleBytes));
  const auto again = pool.acquire(1, 3 * kGranuleBytes);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, low + 5 * kGranuleBytes);
  EXPECT_TRUE(pool.mark_written(1, *again, 3 * kGranuleBytes));
}

TEST(SharedPool, AWarmStartKeepsWhatIsDirtyForTheFunctionInWhoseZoneItLies) {
  const auto options = options_of(0, 0);
  Model model(options);
  const auto got = model.pool.acquire(2, 4 * kGranuleBytes).value();
  ASSERT_TRUE(model.pool.mark_written(2, got + kGranuleBytes, 1));
  auto& fresh = *new (&model.pool) RegionPool;
  fresh.init(hal::region_memory(), model.bitmaps(), true, options);
  EXPECT_EQ(fresh.quarantined_bytes(2), kGranuleBytes);
  EXPECT_EQ(fresh.unclean_bytes(), kGranuleBytes);
  EXPECT_TRUE(fresh.acquire(1, fresh.share_bytes(1)));
  EXPECT_TRUE(fresh.acquire(3, fresh.share_bytes(3)));
  EXPECT_FALSE(fresh.acquire(2, fresh.share_bytes(2)));
  EXPECT_EQ(fresh.prospect(2, fresh.share_bytes(2)), RegionPool::Prospect::AfterOwn);
}

// What divide_memory() promises of any card.
RC_GTEST_PROP(MemorySharesOfACard, SumUpToThePoolAndStayWithinQuotaAndBudget, ()) {
  fw::BootOptions options;
  options.virtual_functions = *rc::gen::inRange(0u, wire::boot::kMaxVirtualFunctions + 1);
  options.sole_function = *rc::gen::inRange(0u, options.virtual_functions + 2);
  const auto granules = *rc::gen::inRange<std::uint64_t>(0, RegionPool::kMaxGranules + 1);
  const auto budget = *rc::gen::inRange<std::uint64_t>(0, granules + 1);
  options.quota_bytes = *rc::gen::inRange<std::uint64_t>(0, 2 * granules + 2) * kGranuleBytes;
  const fw::MemoryShares shares = fw::divide_memory(options, granules, budget);
  std::uint64_t memory = 0;
  std::uint64_t populated = 0;
  for (Owner owner = 0; owner < fw::kMaxOwners; ++owner) {
    memory += shares.memory[owner];
    populated += shares.populated[owner];
    if (owner == kNobody) continue;
    RC_ASSERT(shares.populated[owner] <= shares.memory[owner]);
    if (owner > 1 && options.quota_bytes != 0) RC_ASSERT(shares.memory[owner] * kGranuleBytes <= options.quota_bytes);
    const bool offered =
        owner <= options.virtual_functions + 1 && (options.sole_function == 0 || options.sole_function == owner);
    if (!offered) RC_ASSERT(shares.memory[owner] == 0u);
    if (owner == 1 && offered) {
      const std::uint64_t parts = options.sole_function != 0 ? 1 : options.virtual_functions + 1;
      RC_ASSERT(shares.memory[owner] == granules / parts);
    }
  }
  RC_ASSERT(memory == granules);
  RC_ASSERT(populated == budget);
}

}  // namespace
