// SPDX-License-Identifier: Apache-2.0
// `spyre layout`: how a tensor lies on the card, and what a transfer of it moves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/data_type_option.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/tensor/strided_loops.hpp"
#include "host_driver/tensor/tensor_layout.hpp"

namespace cli {

namespace {

using Dims = std::vector<std::int64_t>;
using svp::HostShape;
using svp::SpyreTensorLayout;
using svp::StridedLoops;

// "512,256"; an empty text is an empty list: a scalar's size.
Dims parse_dims(const char* option, std::string_view text) {
  Dims dims;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view word = text.substr(0, comma);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size()) {
      throw svp::InvalidArgument(option, fmt::format("'{}' is no whole number of 64 bits", word),
                                 fmt::format("give numbers with commas between them, like {} 512,256", option));
    }
    dims.push_back(value);
    text.remove_prefix(comma);
    if (text.empty()) break;
    text.remove_prefix(1);
    if (text.empty()) {
      throw svp::InvalidArgument(option, "nothing stands behind the last comma", "leave the comma out");
    }
  }
  return dims;
}

std::optional<Dims> parse_given(const char* option, const std::optional<std::string>& text) {
  return text ? std::optional(parse_dims(option, *text)) : std::nullopt;
}

HostShape shape_of(const LayoutOptions& options) {
  HostShape shape =
      HostShape::contiguous(parse_data_type("--dtype", options.dtype), parse_dims("--size", options.size));
  if (const auto stride = parse_given("--stride", options.stride)) shape.stride = *stride;
  return shape;
}

SpyreTensorLayout layout_of(const LayoutOptions& options, const HostShape& shape) {
  const auto extents = parse_given("--device-size", options.device_size);
  const auto steps = parse_given("--stride-map", options.stride_map);
  if (extents && steps) return SpyreTensorLayout::with_map(shape, *extents, *steps);
  return SpyreTensorLayout::of(shape, parse_given("--dim-order", options.dim_order));
}

// ---- JSON -----------------------------------------------------------------------------------------------------------

nlohmann::ordered_json info_of(const StridedLoops& nest) {
  return nlohmann::ordered_json::array({nest.size, nest.src_stride, nest.dst_stride, nest.src_offset, nest.dst_offset});
}

void print_as_json(const HostShape& shape, const SpyreTensorLayout& layout,
                   const std::optional<std::vector<StridedLoops>>& nests) {
  nlohmann::ordered_json object = {{"size", shape.size},
                                   {"stride", shape.stride},
                                   {"dtype", svp::name(shape.dtype)},
                                   {"device_dtype", svp::name(layout.device_dtype)},
                                   {"device_size", layout.device_size},
                                   {"stride_map", layout.stride_map},
                                   {"elements_per_stick", layout.elements_per_stick()},
                                   {"sticks", layout.stick_count()},
                                   {"bytes", layout.device_bytes()},
                                   {"storage_bytes", layout.storage_bytes(shape)}};
  if (nests) {
    auto infos = nlohmann::ordered_json::array();
    for (const StridedLoops& nest : *nests) infos.push_back(info_of(nest));
    object["infos"] = std::move(infos);
  }
  print_json(object);
}

// ---- text -----------------------------------------------------------------------------------------------------------

std::string list(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::string walks(const SpyreTensorLayout& layout, std::size_t j) {
  const std::int64_t dim = layout.dim_map[j];
  if (layout.stride_map[j] == 0) return dim < 0 ? "copies" : fmt::format("copies of dimension {}", dim);
  if (dim < 0) return "padding";
  const bool lane = j + 1 == layout.dim_map.size();
  if (lane) return fmt::format("dimension {}, inside of a stick", dim);
  return fmt::format("dimension {}{}", dim, dim == layout.dim_map.back() ? ", by sticks" : "");
}

void print_dimensions(const SpyreTensorLayout& layout) {
  fmt::print("{:>16} {:>12} {:>12}  {}\n", "device dimension", "extent", "stride_map", "walks");
  for (std::size_t j = 0; j < layout.device_size.size(); ++j) {
    fmt::print("{:>16} {:>12} {:>12}  {}\n", j, layout.device_size[j], layout.stride_map[j], walks(layout, j));
  }
}

// The host's indices, from the sum of index times stride; nothing when there is no such element.
std::optional<Dims> indices_of(const HostShape& shape, std::int64_t element) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < shape.size.size(); ++d) {
    if (shape.stride[d] != 0 && shape.size[d] > 1) order.push_back(d);
  }
  std::ranges::sort(order, std::greater<>{}, [&](std::size_t d) { return shape.stride[d]; });
  Dims index(shape.size.size(), 0);
  for (const std::size_t d : order) {
    index[d] = element / shape.stride[d];
    if (index[d] >= shape.size[d]) return std::nullopt;
    element %= shape.stride[d];
  }
  return element == 0 ? std::optional(index) : std::nullopt;
}

// The host's indices of a place on the card; nothing for padding.
std::optional<Dims> host_index(const HostShape& shape, const SpyreTensorLayout& layout, std::int64_t place) {
  std::int64_t element = 0;
  std::int64_t first_copy = 0;  // the place without the indices of copies
  std::int64_t stride = 1;
  Dims copies(shape.size.size(), 0);
  for (std::size_t j = layout.device_size.size(); j-- > 0;) {
    const std::int64_t at = place % layout.device_size[j];
    place /= layout.device_size[j];
    const std::int64_t step = layout.stride_map[j];
    if (step == 0 && layout.dim_map[j] >= 0) copies[static_cast<std::size_t>(layout.dim_map[j])] = at;
    if (step != 0) first_copy += at * stride;
    element += at * std::max<std::int64_t>(step, 0);
    stride *= layout.device_size[j];
  }
  if (svp::device_offset_of(layout, element) != first_copy) return std::nullopt;
  auto index = indices_of(shape, element);
  for (std::size_t d = 0; index && d < copies.size(); ++d) (*index)[d] += copies[d];
  return index;
}

// One line for a stick: the first and the last element in it, and how full it is.
std::string stick_line(const HostShape& shape, const SpyreTensorLayout& layout, std::int64_t stick, bool unicode) {
  constexpr std::int64_t kCells = 16;
  const std::int64_t eps = layout.elements_per_stick();
  std::optional<Dims> first;
  std::optional<Dims> last;
  std::string bar;
  for (std::int64_t cell = 0; cell < kCells; ++cell) {
    bool full = false;
    for (std::int64_t lane = cell * eps / kCells; lane < (cell + 1) * eps / kCells; ++lane) {
      const auto index = host_index(shape, layout, stick * eps + lane);
      if (!index) continue;
      full = true;
      if (!first) first = index;
      last = index;
    }
    bar += full ? (unicode ? "█" : "#") : (unicode ? "░" : ".");
  }
  const std::string what = !first ? "padding" : *first == *last ? list(*first) : list(*first) + " to " + list(*last);
  return fmt::format("{:>10}  {}  {}\n", stick, bar, what);
}

void print_sticks(const HostShape& shape, const SpyreTensorLayout& layout) {
  constexpr std::int64_t kFirst = 6;
  constexpr std::int64_t kLast = 2;
  const auto sticks = static_cast<std::int64_t>(layout.stick_count());
  const bool unicode = stdout_style().unicode;
  fmt::print("\n{:>10}  {:<16}  elements ({} means padding)\n", "stick", "128 bytes", unicode ? "░" : ".");
  for (std::int64_t stick = 0; stick < sticks; ++stick) {
    if (stick == kFirst && sticks > kFirst + kLast) {
      fmt::print("{:>10}\n", "...");
      stick = sticks - kLast;
    }
    fmt::print("{}", stick_line(shape, layout, stick, unicode));
  }
}

void print_nests(const std::vector<StridedLoops>& nests) {
  fmt::print("\nhost to card, in elements, innermost loop first:\n");
  for (const StridedLoops& nest : nests) {
    fmt::print("  size {}  source stride {}  destination stride {}  from {}  to {}\n", list(nest.size),
               list(nest.src_stride), list(nest.dst_stride), nest.src_offset, nest.dst_offset);
  }
}

void print_as_text(const HostShape& shape, const SpyreTensorLayout& layout,
                   const std::optional<std::vector<StridedLoops>>& nests) {
  fmt::print("{} {}, stride {}, on the card {}: {} elements per stick\n\n", svp::name(shape.dtype), list(shape.size),
             list(shape.stride), svp::name(layout.device_dtype), layout.elements_per_stick());
  print_dimensions(layout);
  fmt::print("\n{} elements in {} sticks, {} bytes ({} to allocate)\n", shape.element_count(), layout.stick_count(),
             layout.device_bytes(), layout.storage_bytes(shape));
  print_sticks(shape, layout);
  if (nests) print_nests(*nests);
}

}  // namespace

int layout(const LayoutOptions& options) {
  const HostShape shape = shape_of(options);
  const SpyreTensorLayout layout = layout_of(options, shape);
  std::optional<std::vector<StridedLoops>> nests;
  if (options.dma) {
    nests =
        svp::describe_transfer(layout, svp::DeviceView::whole(shape), shape.stride, svp::TransferDirection::ToDevice);
  }
  options.json ? print_as_json(shape, layout, nests) : print_as_text(shape, layout, nests);
  return kOk;
}

}  // namespace cli
