// SPDX-License-Identifier: Apache-2.0
// The resolver: the one place where a host's words become an address.
#include "firmware/core/region_table.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <type_traits>

#include "firmware/core/command_buffers.hpp"
#include "firmware/core/image.hpp"
#include "firmware/core/stream.hpp"

namespace {

using fw::RegionTable;
using wire::FunctionKind;
using wire::RegionType;
using wire::Status;

constexpr std::uint64_t kBase = 4 * wire::kGiB;

RegionTable table(FunctionKind kind) {
  RegionTable t;
  t.init(kind);
  return t;
}

TEST(RegionTable, OrdinalSevenIsForProgramsAndNothingElse) {
  RegionTable t = table(FunctionKind::Virtual);
  for (unsigned i = 0; i < 7; ++i) {
    ASSERT_EQ(t.free_ordinal(RegionType::Tensor).value(), i);
    t.install(i, kBase + i * wire::kGranuleBytes, wire::kGranuleBytes, RegionType::Tensor);
  }
  EXPECT_EQ(t.free_ordinal(RegionType::Tensor).error(), Status::OutOfRegions);
  EXPECT_EQ(t.free_ordinal(RegionType::Program).value(), 7u);
  t.install(7, kBase + 7 * wire::kGranuleBytes, wire::kGranuleBytes, RegionType::Program);
  EXPECT_EQ(t.free_ordinal(RegionType::Program).error(), Status::OutOfRegions);
}

TEST(RegionTable, APhysicalFunctionNamesByBaseAndAVirtualOneByIndex) {
  RegionTable pf = table(FunctionKind::Physical), vf = table(FunctionKind::Virtual);
  for (RegionTable* t : {&pf, &vf}) t->install(2, kBase, wire::kGranuleBytes, RegionType::Tensor);
  EXPECT_EQ(pf.region_id(2), kBase);
  EXPECT_EQ(vf.region_id(2), 2u);
  EXPECT_EQ(pf.resolve(kBase, 1, 128, 128)->address, kBase + 128);
  EXPECT_EQ(vf.resolve(2, 1, 128, 128)->address, kBase + 128);
  // The base is a name: what lies inside of the region is none.
  EXPECT_EQ(pf.resolve(kBase + 128, 1, 0, 128).error(), Status::UnknownRegion);
  EXPECT_EQ(pf.resolve(2, 1, 0, 128).error(), Status::UnknownRegion);
  EXPECT_EQ(vf.resolve(kBase, 1, 0, 128).error(), Status::UnknownRegion);
  EXPECT_EQ(vf.resolve(0, 0, 0, 128).error(), Status::UnknownRegion);
  EXPECT_EQ(vf.resolve(wire::kNoRegion, 0, 0, 1).error(), Status::UnknownRegion);
  EXPECT_EQ(pf.resolve(wire::kNoRegion, 0, 0, 1).error(), Status::UnknownRegion);
  EXPECT_EQ(vf.resolve(8, 1, 0, 1).error(), Status::UnknownRegion);
}

TEST(RegionTable, BoundsHoldAtTheEdgesOfTheNumberLine) {
  RegionTable t = table(FunctionKind::Virtual);
  constexpr std::uint64_t kBytes = 2 * wire::kGranuleBytes;
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  t.install(0, kBase, kBytes, RegionType::Tensor);
  const struct {
    std::uint64_t offset, bytes;
    bool good;
  } kCases[] = {{0, kBytes, true},
                {0, kBytes + 1, false},
                {kBytes - 1, 1, true},
                {kBytes, 1, false},
                {kBytes, 0, true},
                {1, kBytes, false},
                {kMax, 1, false},
                {1, kMax, false},
                {kMax, kMax, false},
                {kMax - 1, 2, false},
                {kMax - kBytes, kBytes + 1, false},
                {kMax - kBytes + 1, kBytes, false},
                {std::uint64_t{1} << 63, std::uint64_t{1} << 63, false}};
  for (const auto& c : kCases) {
    const auto place = t.resolve(0, 1, c.offset, c.bytes);
    EXPECT_EQ(place.has_value(), c.good) << c.offset << " +" << c.bytes;
    if (!c.good) EXPECT_EQ(place.error(), Status::OutOfBounds);
  }
}

TEST(RegionTable, AnOldHandleNeverMatchesItsEntryAgain) {
  RegionTable t = table(FunctionKind::Virtual);
  const auto first = t.install(3, kBase, wire::kGranuleBytes, RegionType::Tensor).generation;
  t.remove(3);
  EXPECT_EQ(t.find(3, first).error(), Status::UnknownRegion);
  const auto second = t.install(3, kBase, wire::kGranuleBytes, RegionType::Tensor).generation;
  EXPECT_NE(first, second);
  EXPECT_EQ(t.find(3, first).error(), Status::StaleRegion);
  EXPECT_EQ(t.find(3, 0).error(), Status::StaleRegion);
  EXPECT_TRUE(t.find(3, second));
}

// 2^32 installs and removals take hours: a version that came back would make addresses that were judged under another
// table count as judged. Whoever keeps a version keeps all of it.
static_assert(std::is_same_v<decltype(RegionTable().names_version()), std::uint64_t>);
static_assert(std::is_same_v<decltype(fw::BufferEntry::judged), std::uint64_t>);
static_assert(std::is_same_v<decltype(fw::ExecutionArea::named_version), std::uint64_t>);
static_assert(std::is_same_v<decltype(fw::CallState::judged_for), std::uint64_t>);

TEST(RegionTable, EachInstallAndRemovalIsAnotherVersion) {
  RegionTable t = table(FunctionKind::Virtual);
  std::set<std::uint64_t> versions{t.names_version()};
  for (unsigned i = 0; i < 100; ++i) {
    t.install(i % 7, kBase, wire::kGranuleBytes, RegionType::Tensor);
    EXPECT_TRUE(versions.insert(t.names_version()).second);
    t.remove(i % 7);
    EXPECT_TRUE(versions.insert(t.names_version()).second);
  }
}

// PF: the same base comes back under another ordinal. A generation per entry would give the old handle a match.
TEST(RegionTable, AnOldHandleNeverMatchesItsBaseUnderAnotherOrdinal) {
  RegionTable t = table(FunctionKind::Physical);
  const auto old = t.install(0, kBase, wire::kGranuleBytes, RegionType::Tensor).generation;
  t.remove(0);
  t.install(0, kBase + 8 * wire::kGranuleBytes, 4 * wire::kGranuleBytes, RegionType::Tensor);
  t.install(1, kBase, wire::kGranuleBytes, RegionType::Tensor);
  EXPECT_EQ(t.find(kBase, old).error(), Status::StaleRegion);
}

// Every handle ever given out: exactly the live ones resolve, and to their own memory.
RC_GTEST_PROP(RegionTable, ExactlyTheLiveHandlesResolve, (bool physical)) {
  RegionTable t = table(physical ? FunctionKind::Physical : FunctionKind::Virtual);
  std::mt19937_64 random(*rc::gen::arbitrary<std::uint64_t>());
  struct Handle {
    std::uint64_t id;
    std::uint32_t generation;
    std::uint64_t base;
    unsigned ordinal;
    bool live;
  };
  std::vector<Handle> handles;
  for (int step = 0; step < 80; ++step) {
    if (random() % 2 == 0) {
      const auto type = random() % 4 == 0 ? RegionType::Program : RegionType::Tensor;
      const auto ordinal = t.free_ordinal(type);
      std::set<std::uint64_t> taken;
      for (const auto& h : handles) {
        if (h.live) taken.insert(h.base);
      }
      const std::uint64_t base = kBase + random() % 12 * wire::kGranuleBytes;
      if (!ordinal || taken.contains(base)) continue;
      const auto& region = t.install(*ordinal, base, wire::kGranuleBytes, type);
      handles.push_back({t.region_id(*ordinal), region.generation, base, *ordinal, true});
    } else if (!handles.empty()) {
      auto& h = handles[random() % handles.size()];
      if (!h.live) continue;
      t.remove(h.ordinal);
      h.live = false;
    }
    for (const auto& h : handles) {
      const auto place = t.resolve(h.id, h.generation, 128, 128);
      RC_ASSERT(place.has_value() == h.live);
      if (h.live) RC_ASSERT(place->address == h.base + 128 && place->ordinal == h.ordinal);
    }
  }
}

}  // namespace
