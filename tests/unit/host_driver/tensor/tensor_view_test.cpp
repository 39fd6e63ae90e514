// SPDX-License-Identifier: Apache-2.0
// Views against a model that lists the elements: what a view names is what the same change of an array would give.
#include "host_driver/tensor/tensor_view.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr std::int64_t kHuge = std::int64_t{1} << 62;
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

std::int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>{});
}
std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The host indices of an array's elements in row-major order.
struct Array {
  Dims size;
  Dims elements;

  std::int64_t& element(const Dims& index) {
    std::int64_t position = 0;
    for (std::size_t d = 0; d < size.size(); ++d) position = position * size[d] + index[d];
    return elements[at(position)];
  }
};

// An array of this size whose element at an index is what `of` says.
Array array_of(const Dims& size, const std::function<std::int64_t(const Dims&)>& of) {
  Array array{size, Dims(at(product(size)))};
  Dims index(size.size(), 0);
  for (std::int64_t i = 0; i < product(size); ++i) {
    std::int64_t rest = i;
    for (std::size_t d = size.size(); d-- > 0; rest /= size[d]) index[d] = rest % size[d];
    array.elements[at(i)] = of(index);
  }
  return array;
}

Array elements_of(const DeviceView& view) {
  return array_of(view.size, [&view](const Dims& index) {
    return std::inner_product(index.begin(), index.end(), view.stride.begin(), view.offset);
  });
}

// A view and what it has to name.
struct Pair {
  DeviceView view;
  Array model;

  std::int64_t rank() const { return static_cast<std::int64_t>(view.size.size()); }
  void follow(DeviceView next, const Dims& size, const std::function<Dims(const Dims&)>& from) {
    view = std::move(next);
    model = array_of(size, [&](const Dims& index) { return model.element(from(index)); });
  }
};

std::int64_t below(std::int64_t bound) { return *rc::gen::inRange<std::int64_t>(0, bound); }
// A dimension as it may be given: from the front or from the end.
std::int64_t spelled(std::int64_t dim, std::int64_t rank) { return below(2) == 0 ? dim : dim - rank; }

void permute(Pair& pair) {
  Dims dims(at(pair.rank()));
  std::iota(dims.begin(), dims.end(), 0);
  for (std::size_t i = dims.size(); i > 1; --i) std::swap(dims[i - 1], dims[at(below(static_cast<std::int64_t>(i)))]);
  Dims size;
  for (const std::int64_t dim : dims) size.push_back(pair.view.size[at(dim)]);
  Dims given = dims;
  for (std::int64_t& dim : given) dim = spelled(dim, pair.rank());
  pair.follow(permuted(pair.view, given), size, [&dims](const Dims& index) {
    Dims from(index.size());
    for (std::size_t d = 0; d < dims.size(); ++d) from[at(dims[d])] = index[d];
    return from;
  });
}

void slice(Pair& pair) {
  if (pair.rank() == 0) return;
  const std::int64_t dim = below(pair.rank());
  const std::int64_t extent = pair.view.size[at(dim)];
  const std::int64_t start = below(extent + 1);
  const std::int64_t end = start + below(extent - start + 1);
  const std::int64_t step = 1 + below(3);
  Dims size = pair.view.size;
  size[at(dim)] = (end - start + step - 1) / step;
  const std::int64_t given_end = end == extent && below(2) == 0 ? end + below(9) : end;
  pair.follow(sliced(pair.view, spelled(dim, pair.rank()), start, given_end, step), size, [&](Dims index) {
    index[at(dim)] = start + index[at(dim)] * step;
    return index;
  });
}

void select(Pair& pair) {
  if (pair.rank() == 0) return;
  const std::int64_t dim = below(pair.rank());
  const std::int64_t extent = pair.view.size[at(dim)];
  if (extent == 0) return;
  const std::int64_t index = below(extent);
  Dims size = pair.view.size;
  size.erase(size.begin() + dim);
  pair.follow(selected(pair.view, dim, below(2) == 0 ? index : index - extent), size, [&](Dims from) {
    from.insert(from.begin() + dim, index);
    return from;
  });
}

void unsqueeze(Pair& pair) {
  const std::int64_t dim = below(pair.rank() + 1);
  Dims size = pair.view.size;
  size.insert(size.begin() + dim, 1);
  pair.follow(unsqueezed(pair.view, spelled(dim, pair.rank() + 1)), size, [&](Dims index) {
    index.erase(index.begin() + dim);
    return index;
  });
}

void squeeze(Pair& pair) {
  Dims size;
  for (const std::int64_t extent : pair.view.size) {
    if (extent != 1) size.push_back(extent);
  }
  const Dims before = pair.view.size;
  pair.follow(squeezed(pair.view), size, [&before](const Dims& index) {
    Dims from;
    std::size_t next = 0;
    for (const std::int64_t extent : before) from.push_back(extent == 1 ? 0 : index[next++]);
    return from;
  });
}

void expand(Pair& pair) {
  if (product(pair.view.size) > 2000) return;
  const Dims before = pair.view.size;
  Dims size = before;
  for (std::int64_t& extent : size) {
    if (extent == 1) extent = 1 + below(3);
  }
  const std::int64_t added = below(2);
  for (std::int64_t i = 0; i < added; ++i) size.insert(size.begin(), 1 + below(3));
  pair.follow(expanded(pair.view, size), size, [&](const Dims& index) {
    Dims from(index.begin() + added, index.end());
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (before[d] == 1) from[d] = 0;
    }
    return from;
  });
}

// Row-major elements in another shape; refused, or right.
void reshape(Pair& pair) {
  Dims shape;
  std::int64_t left = product(pair.view.size);
  if (left == 0) return;
  while (left > 1 && shape.size() < 6) {
    std::int64_t factor = 1 + below(std::min<std::int64_t>(left, 8));
    while (left % factor != 0) --factor;
    shape.push_back(factor);
    left /= factor;
  }
  shape.push_back(left);
  Dims given = shape;
  if (below(3) == 0) given[at(below(static_cast<std::int64_t>(given.size())))] = -1;
  try {
    pair.view = reshaped(pair.view, given);
  } catch (const CopyNeeded& error) {
    RC_ASSERT(error.field() == "shape");
    RC_ASSERT(!is_contiguous(pair.view));
    return;
  }
  pair.model.size = shape;
}

RC_GTEST_PROP(TensorView, NamesWhatTheSameChangeOfAnArrayGives, ()) {
  Dims size(at(below(5)));
  for (std::int64_t& extent : size) extent = *rc::gen::element<std::int64_t>(0, 1, 1, 2, 3, 5, 8);
  Pair pair{DeviceView::whole(HostShape::contiguous(DataType::Float16, size)), {}};
  pair.model = elements_of(pair.view);
  constexpr void (*kChanges[])(Pair&) = {permute, slice, select, unsqueeze, squeeze, expand, reshape};
  for (std::int64_t changes = below(8); changes > 0; --changes) {
    kChanges[below(std::size(kChanges))](pair);
    RC_ASSERT(pair.view.size == pair.model.size);
    RC_ASSERT(elements_of(pair.view).elements == pair.model.elements);
    RC_ASSERT(element_count(pair.view) == static_cast<std::int64_t>(pair.model.elements.size()));
  }
}

RC_GTEST_PROP(TensorView, IsASeenShapeExactlyWhenTheElementsAreEvenlySpaced, ()) {
  DeviceView view{{2 + below(3), 2 + below(3)}, {}, below(5)};
  view.stride = {1 + below(9), 1 + below(4)};
  const std::int64_t count = product(view.size);
  const Array model = elements_of(view);
  bool even = true;
  for (std::int64_t i = 2; i < count; ++i) {
    even &= model.elements[at(i)] - model.elements[at(i - 1)] == model.elements[1] - model.elements[0];
  }
  try {
    const DeviceView flat = reshaped(view, {-1});
    RC_ASSERT(even);
    RC_ASSERT(elements_of(flat).elements == model.elements);
  } catch (const CopyNeeded&) {
    RC_ASSERT(!even);
  }
}

// ---- PyTorch's numbers ----------------------------------------------------------------------------------------------

const DeviceView kMatrix{{3, 80}, {80, 1}, 0};

TEST(TensorView, HasPyTorchsSizeStrideAndOffset) {
  EXPECT_EQ(transposed(kMatrix, 0, 1), (DeviceView{{80, 3}, {1, 80}, 0}));
  EXPECT_EQ(sliced(kMatrix, 1, 64, std::nullopt, 1), (DeviceView{{3, 16}, {80, 1}, 64}));
  EXPECT_EQ(sliced(kMatrix, 1, -16, -1, 4), (DeviceView{{3, 4}, {80, 4}, 64}));
  EXPECT_EQ(narrowed(kMatrix, 0, 1, 2), (DeviceView{{2, 80}, {80, 1}, 80}));
  EXPECT_EQ(selected(kMatrix, 0, -1), (DeviceView{{80}, {1}, 160}));
  EXPECT_EQ(unsqueezed(kMatrix, 0), (DeviceView{{1, 3, 80}, {240, 80, 1}, 0}));
  EXPECT_EQ(unsqueezed(kMatrix, -1), (DeviceView{{3, 80, 1}, {80, 1, 1}, 0}));
  EXPECT_EQ(expanded({{3, 1}, {1, 1}, 5}, {2, -1, 4}), (DeviceView{{2, 3, 4}, {0, 1, 0}, 5}));
  EXPECT_EQ(reshaped(kMatrix, {3, -1, 16}), (DeviceView{{3, 5, 16}, {80, 16, 1}, 0}));
  EXPECT_EQ(reshaped(kMatrix, {240}), (DeviceView{{240}, {1}, 0}));
  EXPECT_EQ(squeezed({{1, 3, 1}, {7, 1, 9}, 2}), (DeviceView{{3}, {1}, 2}));
  EXPECT_EQ(squeezed({{1, 3, 1}, {7, 1, 9}, 2}, 1), (DeviceView{{1, 3, 1}, {7, 1, 9}, 2}));
  EXPECT_EQ(squeezed({{}, {}, 4}, -1), (DeviceView{{}, {}, 4}));
  EXPECT_THROW(reshaped(transposed(kMatrix, 0, 1), {240}), CopyNeeded);
}

TEST(TensorView, WithoutElementsIsAllowedAndNamesNothing) {
  const DeviceView empty = sliced(kMatrix, 0, 3, 1, 1);
  EXPECT_EQ(empty.size, (Dims{0, 80}));
  EXPECT_EQ(element_count(empty), 0);
  EXPECT_EQ(reshaped(empty, {0, 5}).size, (Dims{0, 5}));
  EXPECT_EQ(reshaped(empty, {80, -1}).size, (Dims{80, 0}));
  EXPECT_EQ(narrowed(kMatrix, 1, 80, 0).size, (Dims{3, 0}));
  EXPECT_EQ(expanded({{1}, {1}, 0}, {0}).size, (Dims{0}));
}

// ---- what is refused ------------------------------------------------------------------------------------------------

void expect_refused(const char* field, const std::function<DeviceView()>& call) {
  try {
    call();
    ADD_FAILURE() << "accepted, instead of refusing " << field;
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), field);
    EXPECT_FALSE(error.info().next_step.empty());
  }
}

TEST(TensorView, ArgumentsAreRefusedByName) {
  for (const std::int64_t dim : {std::int64_t{2}, std::int64_t{-3}, kLargest, kSmallest}) {
    expect_refused("dim0", [=] { return transposed(kMatrix, dim, 0); });
    expect_refused("dim1", [=] { return transposed(kMatrix, 0, dim); });
    expect_refused("dim", [=] { return sliced(kMatrix, dim, 0, 1, 1); });
    expect_refused("dim", [=] { return narrowed(kMatrix, dim, 0, 1); });
    expect_refused("dim", [=] { return selected(kMatrix, dim, 0); });
    expect_refused("dim", [=] { return squeezed(kMatrix, dim); });
    expect_refused("dims", [=] { return permuted(kMatrix, {0, dim}); });
  }
  expect_refused("dim", [] { return unsqueezed(kMatrix, 3); });
  expect_refused("dim", [] { return selected({{}, {}, 0}, 0, 0); });
  expect_refused("dims", [] { return permuted(kMatrix, {0}); });
  expect_refused("dims", [] { return permuted(kMatrix, {1, -1}); });
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{-1}, kSmallest}) {
    expect_refused("step", [=] { return sliced(kMatrix, 0, 0, 1, step); });
  }
  expect_refused("step", [] { return sliced(kMatrix, 0, 0, 3, kHuge); });
  for (const std::int64_t index : {std::int64_t{3}, std::int64_t{-4}, kLargest, kSmallest}) {
    expect_refused("index", [=] { return selected(kMatrix, 0, index); });
    if (index != 3) expect_refused("start", [=] { return narrowed(kMatrix, 0, index, 0); });
  }
  for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{3}, kLargest, kSmallest}) {
    expect_refused("length", [=] { return narrowed(kMatrix, 0, 1, length); });
  }
}

TEST(TensorView, ShapesAreRefusedByName) {
  expect_refused("shape", [] { return reshaped(kMatrix, {-1, -1}); });
  expect_refused("shape", [] { return reshaped(kMatrix, {-2, 120}); });
  expect_refused("shape", [] { return reshaped(kMatrix, {239}); });
  expect_refused("shape", [] { return reshaped(kMatrix, {-1, 7}); });
  expect_refused("shape", [] { return reshaped({{0}, {1}, 0}, {-1, 0}); });
  expect_refused("shape", [] { return reshaped(kMatrix, Dims(65, 1)); });
  expect_refused("shape", [] { return reshaped(kMatrix, {kHuge, kHuge}); });
  expect_refused("size", [] { return expanded(kMatrix, {80}); });
  expect_refused("size", [] { return expanded(kMatrix, {4, 80}); });
  expect_refused("size", [] { return expanded(kMatrix, {-1, 3, 80}); });
  expect_refused("size", [] { return expanded(kMatrix, {-2, 80}); });
  expect_refused("size", [] { return expanded(kMatrix, {std::int64_t{1} << 31, std::int64_t{1} << 35, 3, 80}); });
  DeviceView many{Dims(64, 1), Dims(64, 1), 0};
  expect_refused("dim", [&many] { return unsqueezed(many, 0); });
}

TEST(TensorView, AsStridedStaysInsideOfTheTensor) {
  const HostShape base = HostShape::contiguous(DataType::Float16, {3, 80});
  EXPECT_EQ(strided(base, {2, 3}, {100, 7}, 10), (DeviceView{{2, 3}, {100, 7}, 10}));
  EXPECT_EQ(strided(base, {239}, {1}, 1).offset, 1);
  EXPECT_EQ(strided(base, {4, 240}, {0, 1}, 0).stride[0], 0);
  EXPECT_EQ(strided(base, {0, kHuge}, {5, 5}, 1000).size[0], 0);
  expect_refused("size", [&] { return strided(base, {240}, {1}, 1); });
  expect_refused("size", [&] { return strided(base, {2}, {kHuge - 1}, 0); });
  expect_refused("size", [&] { return strided(base, {kHuge - 1}, {1}, 0); });
  expect_refused("size", [&] { return strided(base, {3, 3}, {kHuge - 1, kHuge - 1}, 0); });
  expect_refused("size", [&] { return strided(base, {kHuge}, {0}, 0); });
  expect_refused("size", [&] { return strided(base, {-1}, {1}, 0); });
  expect_refused("stride", [&] { return strided(base, {2, 2}, {1}, 0); });
  expect_refused("stride", [&] { return strided(base, {2}, {-1}, 1); });
  expect_refused("stride", [&] { return strided(base, {1}, {kLargest}, 0); });
  expect_refused("offset", [&] { return strided(base, {1}, {1}, -1); });
  expect_refused("offset", [&] { return strided(base, {1}, {1}, kLargest); });
}

TEST(TensorView, AsStridedDoesNotReachBetweenTheElements) {
  const HostShape gaps{.dtype = DataType::Float16, .size = {3, 80}, .stride = {100, 1}};
  EXPECT_EQ(strided(gaps, {3, 10}, {100, 2}, 60).offset, 60);
  expect_refused("view", [&] { return strided(gaps, {2, 12}, {100, 2}, 62); });
  expect_refused("view", [&] { return strided(gaps, {1}, {1}, 90); });
}

}  // namespace
}  // namespace svp
