// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/stick_runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <vector>

namespace svp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Runs = std::vector<StickRun>;

TEST(StickRuns, ASliceInsideOfSticksNeedsThemAndFillsNone) {
  const auto layout = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, {8, 256}));
  const auto nests = describe_transfer(layout, {{3, 10}, {256, 1}, 2 * 256 + 70}, {10, 1}, TransferDirection::ToDevice);
  const StickRuns runs = sticks_of(nests, LoopSide::Destination, 64);
  EXPECT_THAT(runs.all, ElementsAre(StickRun{10, 3}));
  EXPECT_EQ(runs.partial, runs.all);
}

TEST(StickRuns, WholeSticksAreNotPartial) {
  const auto layout = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, {8, 256}));
  const auto nests = describe_transfer(layout, {{2, 256}, {256, 1}, 256}, {256, 1}, TransferDirection::ToDevice);
  const StickRuns runs = sticks_of(nests, LoopSide::Destination, 64);
  EXPECT_THAT(runs.all, ElementsAre(StickRun{1, 2}, StickRun{9, 2}, StickRun{17, 2}, StickRun{25, 2}));
  EXPECT_THAT(runs.partial, IsEmpty());
  EXPECT_THAT(joined(runs.all, 6), ElementsAre(StickRun{1, 26}));
  EXPECT_EQ(joined(runs.all, 5), runs.all);
  EXPECT_THAT(joined({}, 5), IsEmpty());
}

Runs runs_of(const std::map<std::int64_t, std::int64_t>& sticks, std::int64_t below) {
  Runs runs;
  for (const auto& [stick, elements] : sticks) {
    if (elements >= below) continue;
    if (!runs.empty() && runs.back().first + runs.back().count == stick) {
      ++runs.back().count;
    } else {
      runs.push_back({stick, 1});
    }
  }
  return runs;
}

RC_GTEST_PROP(StickRuns, AreThoseOfTheElements, ()) {
  const auto size =
      *rc::gen::container<std::vector<std::int64_t>>(3, rc::gen::element<std::int64_t>(1, 2, 5, 64, 70, 130));
  const auto shape = HostShape::contiguous(DataType::Float16, size);
  const auto layout = SpyreTensorLayout::of(shape);
  DeviceView view = DeviceView::whole(shape);
  for (std::size_t d = 0; d < size.size(); ++d) {
    const auto first = *rc::gen::inRange<std::int64_t>(0, size[d]);
    const auto step = *rc::gen::element<std::int64_t>(1, 1, 2, 3);
    const auto count = *rc::gen::inRange<std::int64_t>(0, (size[d] - first + step - 1) / step + 1);
    view.offset += first * view.stride[d];
    view.stride[d] *= step;
    view.size[d] = count;
  }
  const auto dense = HostShape::contiguous(shape.dtype, view.size).stride;
  const auto nests = describe_transfer(layout, view, dense, TransferDirection::ToDevice);
  std::map<std::int64_t, std::int64_t> elements;  // by stick
  for (std::int64_t i = 0; i < view.size[0]; ++i) {
    for (std::int64_t j = 0; j < view.size[1]; ++j) {
      for (std::int64_t k = 0; k < view.size[2]; ++k) {
        const auto index = view.offset + i * view.stride[0] + j * view.stride[1] + k * view.stride[2];
        ++elements[device_offset_of(layout, index).value() / 64];
      }
    }
  }
  const StickRuns runs = sticks_of(nests, LoopSide::Destination, 64);
  RC_ASSERT(runs.all == runs_of(elements, 65));
  RC_ASSERT(runs.partial == runs_of(elements, 64));
}

}  // namespace
}  // namespace svp
