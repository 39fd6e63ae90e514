// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/strided_loops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;
using Map = std::unordered_map<std::int64_t, std::int64_t>;
using enum TransferDirection;

std::vector<StridedLoops> whole(const HostShape& shape, std::optional<Dims> order = std::nullopt,
                                TransferDirection direction = ToDevice) {
  return describe_transfer(SpyreTensorLayout::of(shape, std::move(order)), DeviceView::whole(shape), shape.stride,
                           direction);
}
HostShape fp16(Dims size) { return HostShape::contiguous(DataType::Float16, std::move(size)); }

// Calls back with every tuple of indices below `size`.
void for_each_index(const Dims& size, const std::function<void(const Dims&)>& visit) {
  if (std::ranges::count(size, 0) != 0) return;
  Dims index(size.size(), 0);
  for (bool more = true; more;) {
    visit(index);
    more = false;
    for (std::size_t d = size.size(); d-- > 0 && !more;) {
      more = ++index[d] < size[d];
      if (!more) index[d] = 0;
    }
  }
}

std::int64_t dot(const Dims& index, const Dims& stride) {
  return std::inner_product(index.begin(), index.end(), stride.begin(), std::int64_t{0});
}

// ---- the examples of the public sources -----------------------------------------------------------------------------

TEST(StridedLoops, ARaggedVectorIsFullSticksAndARest) {
  EXPECT_THAT(whole(fp16({120})), testing::ElementsAre(StridedLoops{{64, 1}, {1, 64}, {1, 64}, 0, 0},
                                                       StridedLoops{{56, 1}, {1, 64}, {1, 64}, 64, 64}));
}

TEST(StridedLoops, ARaggedMatrixIsFullSticksAndARest) {
  EXPECT_THAT(whole(fp16({512, 240})),
              testing::ElementsAre(StridedLoops{{64, 512, 3}, {1, 240, 64}, {1, 64, 32768}, 0, 0},
                                   StridedLoops{{48, 512, 1}, {1, 240, 64}, {1, 64, 32768}, 192, 98304}));
}

TEST(StridedLoops, AStickSparseMatrixHasOneElementPerStick) {
  EXPECT_THAT(whole(fp16({512, 256}), Dims{0, 1, -1}),
              testing::ElementsAre(StridedLoops{{1, 512, 1, 256}, {1, 256, 1, 1}, {1, 64, 32768, 32768}, 0, 0}));
}

TEST(StridedLoops, FromTheCardSourceAndDestinationChangePlaces) {
  EXPECT_THAT(whole(fp16({120}), std::nullopt, FromDevice),
              testing::ElementsAre(StridedLoops{{64, 1}, {1, 64}, {1, 64}, 0, 0},
                                   StridedLoops{{56, 1}, {1, 64}, {1, 64}, 64, 64}));
}

// ---- small tensors, expanded ones -----------------------------------------------------------------------------------

TEST(StridedLoops, AScalarIsOneElement) {
  EXPECT_THAT(whole(fp16({})), testing::ElementsAre(StridedLoops{{1, 1}, {1, 1}, {1, 64}, 0, 0}));
}

TEST(StridedLoops, ATensorWithoutElementsMovesNothing) {
  EXPECT_TRUE(whole(fp16({3, 0, 5})).empty());
  EXPECT_TRUE(whole(fp16({0})).empty());
}

TEST(StridedLoops, AnExpandedDimensionIsWrittenInAllItsCopiesAndReadFromTheFirst) {
  const HostShape shape{.dtype = DataType::Float16, .size = {4, 64}, .stride = {0, 1}};
  EXPECT_THAT(whole(shape), testing::ElementsAre(StridedLoops{{64, 4, 1}, {1, 0, 64}, {1, 64, 256}, 0, 0}));
  const auto layout = SpyreTensorLayout::of(shape);
  const auto back = describe_transfer(layout, {{64}, {1}, 0}, {1}, FromDevice);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].element_count(), 64);
  EXPECT_EQ(back[0].src_offset, 0);
}

TEST(StridedLoops, EveryElementHasOnePlace) {
  const auto layout = SpyreTensorLayout::of(fp16({3, 80}));
  EXPECT_EQ(device_offset_of(layout, 0), 0);
  EXPECT_EQ(device_offset_of(layout, 1 * 80 + 64), 3 * 64 + 1 * 64);
  EXPECT_EQ(device_offset_of(layout, 3 * 80), std::nullopt);
  EXPECT_EQ(device_offset_of(layout, -1), std::nullopt);
}

// ---- views ----------------------------------------------------------------------------------------------------------

TEST(StridedLoops, ASliceInsideOfAStickMovesItsElementsOnly) {
  const auto layout = SpyreTensorLayout::of(fp16({8, 256}));
  // Columns 70 … 79 of rows 2 … 4: stick 1, lanes 6 … 15.
  EXPECT_THAT(describe_transfer(layout, {{3, 10}, {256, 1}, 2 * 256 + 70}, {10, 1}, ToDevice),
              testing::ElementsAre(StridedLoops{{10, 3, 1}, {1, 10, 64}, {1, 64, 512}, 0, 512 + 2 * 64 + 6}));
}

TEST(StridedLoops, ASliceOverTwoSticksIsCutBetweenThem) {
  const auto layout = SpyreTensorLayout::of(fp16({8, 256}));
  const auto nests = describe_transfer(layout, {{10}, {1}, 60}, {1}, FromDevice);
  ASSERT_EQ(nests.size(), 2u);
  EXPECT_EQ(nests[0].element_count(), 4);
  EXPECT_EQ(nests[0].src_offset, 60);
  EXPECT_EQ(nests[1].element_count(), 6);
  EXPECT_EQ(nests[1].src_offset, 512);
  EXPECT_EQ(nests[1].dst_offset, 4);
}

// For every host index of the tensor: where the card has it, by the meaning of a layout.
Map places_on_the_card(const HostShape& shape, const SpyreTensorLayout& layout) {
  Map places;
  for_each_index(shape.size, [&](const Dims& index) {
    std::int64_t offset = 0;
    for (std::size_t j = 0; j < layout.device_size.size(); ++j) {
      const std::int64_t dim = layout.dim_map[j];
      const bool lane = j + 1 == layout.device_size.size();
      std::int64_t at = dim < 0 ? 0 : index[static_cast<std::size_t>(dim)];
      if (dim >= 0 && dim == layout.dim_map.back()) {
        at = lane ? at % layout.elements_per_stick() : at / layout.elements_per_stick();
      }
      offset = offset * layout.device_size[j] + at;
    }
    places[dot(index, shape.stride)] = offset;
  });
  return places;
}

class RandomTensors {
 public:
  explicit RandomTensors(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }

  // Up to `most` elements; dense, in any order of its dimensions.
  HostShape shape(std::int64_t most) {
    for (;;) {  // bounded: two shapes of three are small enough
      Dims size(static_cast<std::size_t>(1 + below(4)));
      for (auto& extent : size) extent = 1 + below(below(3) == 0 ? 200 : 9);
      HostShape shape = HostShape::contiguous(DataType::Float16, size);
      if (shape.element_count() > most) continue;
      if (below(3) == 0) permute(shape);
      return shape;
    }
  }
  SpyreTensorLayout layout(const HostShape& shape) {
    Dims order(shape.size.size());
    std::iota(order.begin(), order.end(), 0);
    if (below(2) == 0) shuffle(order);
    if (below(6) == 0) order.push_back(SpyreTensorLayout::kSynthetic);
    return SpyreTensorLayout::of(shape, order, below(3) == 0 ? std::optional(DeviceType::Fp32) : std::nullopt);
  }
  // A few slices, steps, transposes, splits and joins of dimensions.
  DeviceView view(const HostShape& shape) {
    DeviceView view = DeviceView::whole(shape);
    for (std::int64_t changes = below(4); changes > 0; --changes) change(view);
    return view;
  }
  // Any sizes and strides inside of the tensor: elements may be named more than once.
  DeviceView as_strided(std::int64_t elements) {
    DeviceView view{.size = {}, .stride = {}, .offset = below(elements)};
    std::int64_t left = elements - 1 - view.offset;
    for (std::int64_t rank = 1 + below(3); rank > 0; --rank) {
      const std::int64_t stride = below(7);
      const std::int64_t most = stride == 0 ? 3 : left / stride + 1;
      view.size.push_back(1 + below(std::min<std::int64_t>(most, 40)));
      view.stride.push_back(stride);
      left -= (view.size.back() - 1) * stride;
    }
    return view;
  }

 private:
  void shuffle(Dims& dims) {
    for (std::size_t i = dims.size(); i > 1; --i)
      std::swap(dims[i - 1], dims[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  }
  void permute(HostShape& shape) {
    Dims order(shape.size.size());
    std::iota(order.begin(), order.end(), 0);
    shuffle(order);
    std::int64_t stride = 1;
    for (const std::int64_t d : order) {
      shape.stride[static_cast<std::size_t>(d)] = stride;
      stride *= shape.size[static_cast<std::size_t>(d)];
    }
  }
  void change(DeviceView& view) {
    const auto d = static_cast<std::size_t>(below(static_cast<std::int64_t>(view.size.size())));
    const bool last = d + 1 == view.size.size();
    switch (below(5)) {
      case 0: {
        const std::int64_t from = below(view.size[d]);
        view.offset += from * view.stride[d];
        view.size[d] = 1 + below(view.size[d] - from);
        return;
      }
      case 1: {
        const std::int64_t step = 1 + below(4);
        view.size[d] = (view.size[d] + step - 1) / step;
        view.stride[d] *= step;
        return;
      }
      case 2:
        std::swap(view.size[d], view.size.back());
        std::swap(view.stride[d], view.stride.back());
        return;
      case 3: return split(view, d);
      default:
        if (last || view.stride[d] != view.stride[d + 1] * view.size[d + 1]) return;
        view.size[d] *= view.size[d + 1];
        view.stride[d] = view.stride[d + 1];
        view.size.erase(view.size.begin() + static_cast<std::ptrdiff_t>(d) + 1);
        view.stride.erase(view.stride.begin() + static_cast<std::ptrdiff_t>(d) + 1);
    }
  }
  static void split(DeviceView& view, std::size_t d) {
    for (const std::int64_t factor : {2, 3, 4, 5}) {
      if (view.size[d] % factor != 0) continue;
      view.size[d] /= factor;
      view.size.insert(view.size.begin() + static_cast<std::ptrdiff_t>(d) + 1, factor);
      view.stride.insert(view.stride.begin() + static_cast<std::ptrdiff_t>(d) + 1, view.stride[d]);
      view.stride[d] *= factor;
      return;
    }
  }

  std::mt19937_64 random_;
};

// Every element of the view is moved once, from where it lies to where it belongs, and nothing else is.
void expect_exact(const HostShape& shape, const SpyreTensorLayout& layout, const DeviceView& view,
                  TransferDirection direction) {
  const Map places = places_on_the_card(shape, layout);
  const Dims host = HostShape::contiguous(DataType::Float16, view.size).stride;
  Map expected;  // host offset → device offset
  for_each_index(view.size,
                 [&](const Dims& i) { expected[dot(i, host)] = places.at(view.offset + dot(i, view.stride)); });
  std::size_t moved = 0;
  for (const StridedLoops& nest : describe_transfer(layout, view, host, direction)) {
    const bool to_device = direction == ToDevice;
    for_each_index(nest.size, [&](const Dims& i) {
      const std::int64_t from = nest.src_offset + dot(i, nest.src_stride);
      const std::int64_t to = nest.dst_offset + dot(i, nest.dst_stride);
      const auto found = expected.find(to_device ? from : to);
      ASSERT_TRUE(found != expected.end() && found->second == (to_device ? to : from)) << from << " to " << to;
      ++moved;
    });
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(moved, expected.size());
}

constexpr std::int64_t kMostElementsOfATensor = 3'000;

TEST(StridedLoops, AnyViewOfAnyTensorMovesExactly) {
  RandomTensors random(20261123);
  for (int i = 0; i < 4'000 && !HasFailure(); ++i) {
    const HostShape shape = random.shape(kMostElementsOfATensor);
    const SpyreTensorLayout layout = random.layout(shape);
    SCOPED_TRACE(i);
    expect_exact(shape, layout, random.view(shape), random.below(2) == 0 ? ToDevice : FromDevice);
  }
}

TEST(StridedLoops, AnyStridesInsideOfATensorReadExactly) {
  RandomTensors random(42);
  int refused = 0;
  for (int i = 0; i < 1'000 && !HasFailure(); ++i) {
    const HostShape shape = random.shape(kMostElementsOfATensor);
    const SpyreTensorLayout layout = random.layout(shape);
    SCOPED_TRACE(i);
    try {
      expect_exact(shape, layout, random.as_strided(shape.element_count()), FromDevice);
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("pieces"));
      ++refused;
    }
  }
  EXPECT_LT(refused, 10);
}

// ---- what is refused ------------------------------------------------------------------------------------------------

void expect_refused(const DeviceView& view, const Dims& host_stride, TransferDirection direction,
                    const std::string& field, const std::string& words) {
  const auto layout = SpyreTensorLayout::of(fp16({8, 256}));
  try {
    (void)describe_transfer(layout, view, host_stride, direction);
    ADD_FAILURE() << "not refused: " << words;
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), field);
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

constexpr std::int64_t kHuge = std::int64_t{1} << 61;

TEST(StridedLoops, RefusesViewsThatAreNone) {
  expect_refused({{8, 256}, {256}, 0}, {256, 1}, ToDevice, "stride", "has not 2 entries");
  expect_refused({{8, 256}, {256, 1}, 0}, {1}, ToDevice, "host stride", "has not 2 entries");
  expect_refused({{8, -1}, {256, 1}, 0}, {256, 1}, ToDevice, "size", "negative");
  expect_refused({{8, 256}, {-256, 1}, 0}, {256, 1}, ToDevice, "stride", "negative");
  expect_refused({{8, 256}, {256, 1}, -1}, {256, 1}, ToDevice, "offset", "negative");
  expect_refused({{8, 256}, {kHuge, 1}, 0}, {256, 1}, FromDevice, "stride", "2^62");
  expect_refused({{kHuge, kHuge}, {0, 0}, 0}, {0, 0}, ToDevice, "size", "2^62");
  expect_refused({{8, 256}, {256, 1}, 0}, {kHuge, 1}, FromDevice, "host stride", "2^62");
}

TEST(StridedLoops, RefusesViewsThatLeaveTheTensor) {
  expect_refused({{9, 256}, {256, 1}, 0}, {256, 1}, FromDevice, "view", "not inside");
  expect_refused({{8, 256}, {256, 1}, 1}, {256, 1}, FromDevice, "view", "not inside");
  expect_refused({{1}, {1}, 8 * 256}, {1}, FromDevice, "view", "not inside");
}

TEST(StridedLoops, RefusesDestinationsThatOverlap) {
  expect_refused({{8, 256}, {0, 1}, 0}, {256, 1}, ToDevice, "stride", "overlap");
  expect_refused({{8, 8}, {1, 1}, 0}, {8, 1}, ToDevice, "stride", "overlap");
  expect_refused({{8, 256}, {256, 1}, 0}, {0, 1}, FromDevice, "host stride", "overlap");
  expect_refused({{3, 3}, {256, 1}, 0}, {4, 2}, FromDevice, "host stride", "overlap");
  // Interleaved, but without a common element.
  EXPECT_FALSE(
      describe_transfer(SpyreTensorLayout::of(fp16({8, 256})), {{2, 3}, {256, 1}, 0}, {3, 2}, FromDevice).empty());
}

// ---- from one tensor on the card into another -----------------------------------------------------------------------

TEST(StridedLoops, ACopyOnTheCardPutsEachElementInItsPlace) {
  RandomTensors random(20261123);
  std::size_t checked = 0;
  for (int i = 0; i < 600; ++i) {
    const HostShape from = random.shape(2000);
    const SpyreTensorLayout from_layout = random.layout(from);
    const DeviceView source = random.view(from);
    const HostShape to = HostShape::contiguous(from.dtype, source.size);
    SpyreTensorLayout to_layout = random.layout(to);
    const auto nests = describe_copy(from_layout, source, to_layout, DeviceView::whole(to));
    Map places;  // on the card: destination → source
    for (const StridedLoops& nest : nests) {
      for_each_index(nest.size, [&](const Dims& index) {
        const auto at = nest.dst_offset + dot(index, nest.dst_stride);
        EXPECT_TRUE(places.emplace(at, nest.src_offset + dot(index, nest.src_stride)).second) << "written twice";
      });
    }
    std::size_t elements = 0;
    for_each_index(source.size, [&](const Dims& index) {
      const auto at = device_offset_of(to_layout, dot(index, to.stride)).value();
      EXPECT_EQ(places.at(at), device_offset_of(from_layout, source.offset + dot(index, source.stride)).value());
      ++elements;
    });
    ASSERT_EQ(places.size(), elements);
    checked += elements;
  }
  EXPECT_GT(checked, 20'000u);
}

TEST(StridedLoops, AnotherStickDimensionIsAFewNests) {
  const HostShape shape = fp16({512, 256});
  EXPECT_EQ(describe_copy(SpyreTensorLayout::of(shape), DeviceView::whole(shape),
                          SpyreTensorLayout::of(shape, Dims{1, 0}), DeviceView::whole(shape))
                .size(),
            1u);
}

}  // namespace
}  // namespace svp
