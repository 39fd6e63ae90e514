// SPDX-License-Identifier: Apache-2.0
// Layouts and the loops of transfers: whatever the shape, the layout and the view, each is refused by an error that
// names the argument, or the loops move every element of the view from its place on one side to its place on the other,
// worked out here element by element, and nothing else.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "host_driver/tensor/strided_copy.hpp"
#include "host_driver/tensor/strided_loops.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using fuzz::require;
using svp::DeviceView;
using svp::HostShape;
using svp::SpyreTensorLayout;
using svp::StridedLoops;
using svp::TransferDirection;
using Dims = std::vector<std::int64_t>;

constexpr std::int64_t kMostElements = 4096;  // that are looked at one by one

// Small numbers, small negative ones, and now and then any 64 bits.
std::int64_t number(fuzz::Input& input, std::int64_t most) {
  const unsigned kind = input.below(256);
  if (kind == 255) return input.take<std::int64_t>();
  if (kind == 254) return -1 - static_cast<std::int64_t>(input.below(4));
  return static_cast<std::int64_t>(kind) % (most + 1);
}

Dims numbers(fuzz::Input& input, std::size_t count, std::int64_t most) {
  Dims values(count);
  for (std::int64_t& value : values) value = number(input, most);
  return values;
}

HostShape shape_of(fuzz::Input& input) {
  Dims size = numbers(input, input.below(5), 90);
  const bool dense = input.below(4) != 0;
  if (dense && std::ranges::all_of(size, [](std::int64_t n) { return n >= 0 && n <= 90; })) {
    return HostShape::contiguous(svp::DataType::Int16, std::move(size));
  }
  Dims stride = numbers(input, size.size(), 200);
  return {.dtype = svp::DataType::Int16, .size = std::move(size), .stride = std::move(stride)};
}

// By the default, by an order of the dimensions, or by extents and steps.
SpyreTensorLayout layout_of(fuzz::Input& input, const HostShape& shape) {
  switch (input.below(3)) {
    case 0: return SpyreTensorLayout::of(shape);
    case 1: {
      Dims order(shape.size.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[input.below(i)]);
      if (input.below(4) == 0) order.push_back(-1);
      if (input.below(32) == 0) order = numbers(input, input.below(6), 5);
      return SpyreTensorLayout::of(shape, order);
    }
    default: {
      const std::size_t rank = input.below(6);
      Dims extents = numbers(input, rank, 70);
      if (!extents.empty() && input.below(8) != 0) extents.back() = 64;
      Dims steps = numbers(input, input.below(16) == 0 ? rank + 1 : rank, 200);
      return SpyreTensorLayout::with_map(shape, std::move(extents), std::move(steps));
    }
  }
}

DeviceView view_of(fuzz::Input& input, const HostShape& shape) {
  if (input.below(2) == 0) return DeviceView::whole(shape);
  const std::size_t rank = input.below(5);
  return {.size = numbers(input, rank, 40), .stride = numbers(input, rank, 200), .offset = number(input, 150)};
}

// Calls f(source, destination) for each element that the loops move.
template <typename F>
void for_each(const std::vector<StridedLoops>& nests, F&& f) {
  for (const StridedLoops& nest : nests) {
    if (nest.element_count() == 0) continue;
    Dims index(nest.size.size(), 0);
    for (std::size_t d = 0; d < index.size();) {
      std::int64_t from = nest.src_offset;
      std::int64_t to = nest.dst_offset;
      for (std::size_t k = 0; k < index.size(); ++k) {
        from += index[k] * nest.src_stride[k];
        to += index[k] * nest.dst_stride[k];
      }
      f(from, to);
      for (d = 0; d < index.size() && ++index[d] == nest.size[d]; ++d) index[d] = 0;
    }
  }
}

bool expanded(const SpyreTensorLayout& layout) {
  return std::ranges::find(layout.stride_map, 0) != layout.stride_map.end();
}

// The view's elements by the definition, and each destination once.
void expect_elements(const SpyreTensorLayout& layout, const DeviceView& view, const Dims& host_stride,
                     const std::vector<StridedLoops>& nests, bool to_device) {
  std::set<std::pair<std::int64_t, std::int64_t>> expected;  // source, destination; repeated elements count once
  Dims index(view.size.size(), 0);
  for (std::int64_t left = svp::element_count(view); left > 0; --left) {
    std::int64_t at = view.offset;
    std::int64_t host = 0;
    for (std::size_t d = 0; d < index.size(); ++d) {
      at += index[d] * view.stride[d];
      host += index[d] * host_stride[d];
    }
    const auto place = svp::device_offset_of(layout, at);
    require(place.has_value(), "an element of an accepted view has a place on the card");
    expected.insert(to_device ? std::pair{host, *place} : std::pair{*place, host});
    for (std::size_t d = 0; d < index.size() && ++index[d] == view.size[d]; ++d) index[d] = 0;
  }
  std::set<std::pair<std::int64_t, std::int64_t>> moved;
  std::set<std::int64_t> written;
  for_each(nests, [&](std::int64_t from, std::int64_t to) {
    require(written.insert(to).second, "a destination is written once");
    moved.emplace(from, to);
  });
  require(moved == expected, "the loops move the elements of the view");
}

// Nothing leaves the memory of either side, in both directions and by the executor too (it throws if so).
void expect_inside(const SpyreTensorLayout& layout, const std::vector<StridedLoops>& nests, bool to_device) {
  const auto places = static_cast<std::int64_t>(layout.device_bytes() / 2);
  std::int64_t most_host = 0;
  for_each(nests, [&](std::int64_t from, std::int64_t to) {
    const std::int64_t card = to_device ? to : from;
    const std::int64_t host = to_device ? from : to;
    require(card >= 0 && card < places, "the card's side stays in the tensor");
    require(host >= 0, "the host's side does not begin before its memory");
    most_host = std::max(most_host, host);
  });
  constexpr std::int64_t kMostPlaces = 1 << 20;
  if (places > kMostPlaces || most_host > kMostPlaces) return;
  std::vector<std::byte> card(static_cast<std::size_t>(places) * 2);
  std::vector<std::byte> host((static_cast<std::size_t>(most_host) + 1) * 2);
  constexpr auto kFormat = svp::ElementFormat::Int16;
  to_device ? svp::copy_strided(nests, kFormat, host, kFormat, card)
            : svp::copy_strided(nests, kFormat, card, kFormat, host);
}

std::int64_t moved_by(const std::vector<StridedLoops>& nests) {
  std::int64_t moved = 0;
  for (const StridedLoops& nest : nests) moved += std::min<std::int64_t>(nest.element_count(), kMostElements + 1);
  return moved;
}

void judge(fuzz::Input& input) {
  const HostShape shape = shape_of(input);
  const SpyreTensorLayout layout = layout_of(input, shape);
  require(SpyreTensorLayout::from_json(layout.to_json()) == layout, "a layout is what its JSON says");
  const DeviceView view = view_of(input, shape);
  const Dims host_stride = input.below(4) == 0 ? numbers(input, view.size.size(), 200)
                                               : HostShape::contiguous(svp::DataType::Int16, view.size).stride;
  const bool to_device = input.below(2) == 0;
  const auto direction = to_device ? TransferDirection::ToDevice : TransferDirection::FromDevice;
  const auto nests = svp::describe_transfer(layout, view, host_stride, direction);
  require(nests.size() <= svp::kMostNests, "the nests are bounded");
  if (moved_by(nests) > kMostElements || svp::element_count(view) > kMostElements) return;
  if (!expanded(layout)) expect_elements(layout, view, host_stride, nests, to_device);
  expect_inside(layout, nests, to_device);
}

}  // namespace

void fuzz::run(Input input) {
  try {
    judge(input);
  } catch (const spyre::CopyNeeded& error) {
    require(error.what()[0] != 0, "a refusal says why");
  } catch (const svp::InvalidArgument& error) {
    require(!error.field().empty() && error.what()[0] != 0, "a refusal names the argument and says why");
  }
}
