// SPDX-License-Identifier: Apache-2.0
// Byte strides of views, against the layout's own place of every element.
#include "host_driver/tensor/stick_access.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "host_driver/tensor/tensor_view.hpp"

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;

struct Tensor {
  HostShape shape;
  SpyreTensorLayout layout;
  DeviceView all() const { return DeviceView::whole(shape); }
};

Tensor tensor(Dims size, std::optional<Dims> order = std::nullopt, DataType dtype = DataType::Float16) {
  Tensor t{.shape = HostShape::contiguous(dtype, std::move(size)), .layout = {}};
  t.layout = SpyreTensorLayout::of(t.shape, std::move(order));
  return t;
}

std::optional<StickAccess> access_of(const Tensor& t, const DeviceView& view) {
  return stick_access(t.shape, t.layout, view);
}

template <typename Visit>
void for_each_index(const Dims& size, Visit visit) {
  Dims index(size.size(), 0);
  const std::int64_t count = std::accumulate(size.begin(), size.end(), std::int64_t{1}, std::multiplies<>{});
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t d = size.size(); d-- > 0; rest /= size[d]) index[d] = rest % size[d];
    visit(index);
  }
}

std::uint64_t byte_of(const StickAccess& access, const Dims& index, std::int64_t lanes) {
  std::uint64_t byte = access.offset;
  for (std::size_t d = 0; d < index.size(); ++d) {
    const bool stick = access.stick == d;
    byte += access.stride[d] * static_cast<std::uint64_t>(stick ? index[d] / lanes : index[d]);
    if (stick) byte += static_cast<std::uint64_t>(index[d] % lanes * (128 / lanes));
  }
  return byte;
}

void expect_places(const Tensor& t, const DeviceView& view, const StickAccess& access) {
  const std::int64_t lanes = t.layout.elements_per_stick();
  std::set<std::uint64_t> mine;
  for_each_index(view.size, [&](const Dims& index) {
    const std::int64_t host = std::inner_product(index.begin(), index.end(), view.stride.begin(), view.offset);
    const auto place = device_offset_of(t.layout, host);
    ASSERT_TRUE(place.has_value());
    const auto byte = static_cast<std::uint64_t>(*place * (128 / lanes));
    ASSERT_EQ(byte_of(access, index, lanes), byte);
    mine.insert(byte);
  });
  // Whole sticks: every element of the tensor that lies in a touched stick is the view's.
  if (!access.whole_sticks) return;
  std::set<std::uint64_t> sticks;
  for (const std::uint64_t byte : mine) sticks.insert(byte / 128);
  for_each_index(t.shape.size, [&](const Dims& index) {
    const std::int64_t host = std::inner_product(index.begin(), index.end(), t.shape.stride.begin(), std::int64_t{0});
    const auto byte = static_cast<std::uint64_t>(*device_offset_of(t.layout, host) * (128 / lanes));
    if (sticks.contains(byte / 128)) {
      ASSERT_TRUE(mine.contains(byte)) << "byte " << byte;
    }
  });
}

TEST(StickAccess, ADefaultLayoutHasItsStrides) {
  const Tensor t = tensor({5, 100, 150});
  const auto access = access_of(t, t.all());
  ASSERT_TRUE(access.has_value());
  EXPECT_EQ(*access, (StickAccess{.offset = 0,
                                  .stride = {128, 5 * 3 * 128, 5 * 128},
                                  .present = {true, true, true},
                                  .stick = 2,
                                  .whole_sticks = true}));
}

TEST(StickAccess, ViewsOfWholeSticksAreWalked) {
  const Tensor t = tensor({64, 256});
  const auto columns = access_of(t, narrowed(t.all(), 1, 128, 128));
  ASSERT_TRUE(columns.has_value());
  EXPECT_EQ(columns->offset, 16384U);
  EXPECT_TRUE(columns->whole_sticks);
  const auto rows = access_of(t, sliced(t.all(), 0, 3, 60, 5));
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->stride, (std::vector<std::uint64_t>{640, 8192}));
  const auto split = access_of(t, reshaped(t.all(), {64, 4, 64}));
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(split->stride, (std::vector<std::uint64_t>{128, 8192, 8192}));
  EXPECT_EQ(split->stick, 2U);
}

TEST(StickAccess, ShapesOfFullSticksAreWalkedInAnyForm) {
  for (const Dims& size : {Dims{33, 64}, Dims{31, 2, 64}, Dims{1, 62, 64}, Dims{1, 40}, Dims{7, 1}, Dims{}}) {
    const Tensor t = tensor(size);
    const auto access = access_of(t, t.all());
    ASSERT_TRUE(access.has_value()) << to_string(size);
    EXPECT_TRUE(access->whole_sticks) << to_string(size);
    expect_places(t, t.all(), *access);
  }
  // Heads of one stick each, joined.
  const Tensor heads = tensor({4, 1, 64});
  const auto joined = access_of(heads, reshaped(permuted(heads.all(), {1, 0, 2}), {1, 256}));
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->stride[1], 128U);
}

TEST(StickAccess, WhatBeginsInsideOfAStickIsNot) {
  const Tensor t = tensor({64, 256});
  EXPECT_FALSE(access_of(t, narrowed(t.all(), 1, 10, 64)).has_value());
  EXPECT_FALSE(access_of(t, selected(t.all(), 1, 65)).has_value());
  EXPECT_FALSE(access_of(t, sliced(t.all(), 1, 0, 256, 2)).has_value());
  EXPECT_FALSE(access_of(t, reshaped(t.all(), {64 * 256})).has_value());
}

TEST(StickAccess, APartOfAStickMayBeReadAndNotWritten) {
  const Tensor t = tensor({64, 100});
  const auto part = access_of(t, narrowed(t.all(), 1, 64, 20));
  ASSERT_TRUE(part.has_value());
  EXPECT_FALSE(part->whole_sticks);
  EXPECT_TRUE(access_of(t, narrowed(t.all(), 1, 64, 36))->whole_sticks);
  EXPECT_FALSE(access_of(t, selected(t.all(), 1, 64))->whole_sticks);
  const Tensor line = tensor({40});
  EXPECT_TRUE(access_of(line, line.all())->whole_sticks);
}

TEST(StickAccess, RepeatedDimensionsAreAbsent) {
  const Tensor t = tensor({1, 100});
  const auto repeated = access_of(t, expanded(t.all(), {7, 100}));
  ASSERT_TRUE(repeated.has_value());
  EXPECT_EQ(repeated->present, (std::vector<bool>{false, true}));
  EXPECT_EQ(repeated->stride, (std::vector<std::uint64_t>{0, 128}));
}

TEST(StickAccess, RandomViewsOfRandomLayoutsLieWhereTheirElementsDo) {
  std::mt19937 random(20261124);
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  unsigned walked = 0;
  for (int round = 0; round < 800; ++round) {
    const std::size_t rank = 1 + random() % 4;
    Dims size;
    for (std::size_t d = 0; d < rank; ++d) size.push_back(1 + below(d + 1 == rank ? 200 : 5));
    Dims order(rank);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    if (below(6) == 0) order.push_back(-1);
    const Tensor t = tensor(size, order, below(3) == 0 ? DataType::Float32 : DataType::Float16);
    DeviceView view = t.all();
    for (std::int64_t changes = below(4); changes > 0; --changes) {
      const std::int64_t d = below(static_cast<std::int64_t>(view.size.size()));
      const std::int64_t n = view.size[static_cast<std::size_t>(d)];
      if (below(2) == 0) {
        view = transposed(view, d, below(static_cast<std::int64_t>(view.size.size())));
      } else {
        const std::int64_t start = below(2) == 0 ? below(n) : below(n) / 64 * 64;
        view = sliced(view, d, start, start + 1 + below(n - start), 1 + below(3) / 2);
      }
    }
    const auto access = access_of(t, view);
    if (!access) continue;
    ++walked;
    expect_places(t, view, *access);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(walked, 250U);
}

}  // namespace
}  // namespace svp
