// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/stickify.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/tensor/conversion_refusal.hpp"
#include "host_driver/tensor/element_format.hpp"
#include "host_driver/tensor/stick_kernels.hpp"
#include "host_driver/tensor/strided_copy.hpp"
#include "host_driver/tensor/strided_loops.hpp"

namespace svp {
namespace {

using kernels::Conversion;
using kernels::StickColumns;

// The pairs that the kernels are made for.
std::optional<Conversion> fast_conversion(DataType host, DeviceType device) {
  switch (device) {
    case DeviceType::Dl16:
      if (host == DataType::Float16) return Conversion::Fp16Dl16;
      if (host == DataType::BFloat16) return Conversion::Bf16Dl16;
      if (host == DataType::Float32) return Conversion::Fp32Dl16;
      if (host == DataType::Bool) return Conversion::BoolDl16;
      break;
    case DeviceType::Fp32:
      if (host == DataType::Float32) return Conversion::Copy4;
      break;
    case DeviceType::Int32:
      if (host == DataType::Int32) return Conversion::Copy4;
      if (host == DataType::Int64) return Conversion::Int64Int32;
      break;
    case DeviceType::Int16:
      if (host == DataType::Int16) return Conversion::Copy2;
      break;
    case DeviceType::Int8:
      if (host == DataType::Int8) return Conversion::Copy1;
      break;
    case DeviceType::Fp8E4m3:
      if (host == DataType::Float8E4m3fn) return Conversion::Copy1;
      break;
    case DeviceType::Fp8E5m2:
      if (host == DataType::Float8E5m2) return Conversion::Copy1;
      break;
    case DeviceType::Uint32:
      if (host == DataType::Uint8) return Conversion::Uint8Uint32;
      break;
  }
  return std::nullopt;
}

// Of a whole transfer in this direction.
void require_conversion(DataType host, DeviceType device, bool to_device) {
  const auto format = format_of(host);
  const ElementFormat on_card = format_of(device);
  if (format && conversion(to_device ? *format : on_card, to_device ? on_card : *format) != nullptr) return;
  to_device ? refuse_conversion("dtype", name(host), name(device))
            : refuse_conversion("dtype", name(device), name(host));
}

// The kernels' walk reads sizes and strides of the shape: only the layout that was made from them is walked so.
bool made_by_of(const HostShape& shape, const SpyreTensorLayout& layout) { return order_of(shape, layout).has_value(); }

// Any other layout of this shape. One that was made for another shape may have a place for every index and still mean
// other elements: the dimensions that it walks tell.
bool made_by_map(const HostShape& shape, const SpyreTensorLayout& layout) {
  try {
    return SpyreTensorLayout::with_map(shape, layout.device_size, layout.stride_map, layout.device_dtype) == layout;
  } catch (const InvalidArgument&) {
    return false;
  }
}

// True: by SpyreTensorLayout::of().
bool require_made_for(const HostShape& shape, const SpyreTensorLayout& layout) {
  if (made_by_of(shape, layout)) return true;
  if (made_by_map(shape, layout)) return false;
  throw InvalidArgument("layout", "the layout was not made for this shape",
                        "use SpyreTensorLayout::of(shape) or with_map(shape, …)");
}

void require_buffer(const char* field, std::span<const std::byte> memory, std::uint64_t bytes, std::size_t item) {
  if (memory.size() < bytes) {
    throw InvalidArgument(
        field,
        std::string(field) + " buffer has " + std::to_string(memory.size()) + " of " + std::to_string(bytes) + " bytes",
        "give a larger buffer");
  }
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % item != 0) {
    throw InvalidArgument(
        field, std::string(field) + " buffer is not aligned to an element of " + std::to_string(item) + " bytes",
        "align the buffer");
  }
}

// The device seen as columns of sticks: `rows` sticks that follow each other on the device and are host_row_step
// elements apart on the host; the columns are walked in host order, so that reading (or writing) the host is
// sequential while each column's side on the device is a sequential stream of its own.
struct Walk {
  struct Dim {
    std::int64_t extent;
    std::int64_t host_step;     // elements
    std::int64_t device_step;   // sticks
    bool cuts_stick_dimension;  // index = number of the stick along the stick dimension
  };
  std::vector<Dim> dims;  // of the columns, largest host step first
  std::int64_t rows = 1;
  std::int64_t host_row_step = 0;
  std::int64_t lane_step = 1;   // elements between two lanes of a stick on the host
  std::int64_t stick_size = 1;  // elements along the stick dimension; 1 when it is synthetic
  std::int64_t eps = 1;
};

Walk plan_walk(const HostShape& shape, const SpyreTensorLayout& layout) {
  Walk walk;
  const std::size_t outer = layout.device_size.size() - 1;
  const std::int64_t stick = layout.dim_map.back();
  walk.eps = layout.elements_per_stick();
  if (stick != SpyreTensorLayout::kSynthetic) {
    walk.stick_size = shape.size[static_cast<std::size_t>(stick)];
    walk.lane_step = shape.stride[static_cast<std::size_t>(stick)];
  }
  std::int64_t device_step = 1;
  for (std::size_t j = outer; j-- > 0;) {
    const bool cuts = stick != SpyreTensorLayout::kSynthetic && layout.dim_map[j] == stick;
    const std::int64_t extent = layout.device_size[j];
    const std::int64_t step = cuts ? walk.lane_step * walk.eps : std::max<std::int64_t>(layout.stride_map[j], 0);
    if (j + 1 == outer && !cuts) {
      walk.rows = extent;
      walk.host_row_step = step;
    } else {
      walk.dims.push_back({extent, step, device_step, cuts});
    }
    device_step *= extent;
  }
  std::ranges::sort(walk.dims, [](const auto& a, const auto& b) { return a.host_step > b.host_step; });
  return walk;
}

// Steps through all columns; offsets are kept up to date incrementally.
class ColumnCursor {
 public:
  explicit ColumnCursor(const Walk& walk) : walk_(walk), index_(walk.dims.size(), 0) {
    done_ = walk.rows == 0 || std::ranges::any_of(walk.dims, [](const auto& dim) { return dim.extent == 0; });
  }
  bool done() const { return done_; }
  std::int64_t host_offset() const { return host_; }      // elements
  std::int64_t device_offset() const { return device_; }  // sticks
  std::int64_t lanes() const { return std::min(walk_.eps, walk_.stick_size - cut_ * walk_.eps); }

  void advance() {
    for (std::size_t d = walk_.dims.size(); d-- > 0;) {
      const Walk::Dim& dim = walk_.dims[d];
      const std::int64_t steps = ++index_[d] < dim.extent ? 1 : 1 - dim.extent;
      host_ += steps * dim.host_step;
      device_ += steps * dim.device_step;
      if (dim.cuts_stick_dimension) cut_ += steps;
      if (steps == 1) return;
      index_[d] = 0;
    }
    done_ = true;
  }

 private:
  const Walk& walk_;
  std::vector<std::int64_t> index_;
  std::int64_t host_ = 0;
  std::int64_t device_ = 0;
  std::int64_t cut_ = 0;
  bool done_ = false;
};

// Batches of columns whose host lanes are adjacent go straight to the kernel.
template <typename Kernel>
void walk_adjacent(const Walk& walk, std::size_t item, std::byte* host, std::byte* device, Kernel&& kernel) {
  StickColumns batch;
  batch.rows = static_cast<std::size_t>(walk.rows);
  batch.host_row_bytes = static_cast<std::size_t>(walk.host_row_step) * item;
  for (ColumnCursor cursor(walk); !cursor.done();) {
    for (batch.count = 0; batch.count < StickColumns::kMaxColumns && !cursor.done(); cursor.advance()) {
      batch.host[batch.count] = host + cursor.host_offset() * static_cast<std::int64_t>(item);
      batch.device[batch.count] = device + cursor.device_offset() * static_cast<std::int64_t>(wire::kStickBytes);
      batch.lanes[batch.count] = static_cast<std::uint32_t>(cursor.lanes());
      ++batch.count;
    }
    kernel(batch);
  }
}

// Lanes that are apart on the host: pieces of a column pass through a small buffer in which they are adjacent. The
// row runs fastest on the host side of the copy, because in a transposed tensor the rows are what is adjacent there.
template <typename Item, bool kToDevice, typename Kernel>
void walk_gathered(const Walk& walk, std::byte* host_bytes, std::byte* device, Kernel&& kernel) {
  constexpr std::int64_t kRows = 32;
  std::vector<Item> rows(static_cast<std::size_t>(kRows * walk.eps));
  StickColumns batch;
  batch.count = 1;
  batch.host[0] = reinterpret_cast<std::byte*>(rows.data());
  batch.host_row_bytes = static_cast<std::size_t>(walk.eps) * sizeof(Item);
  for (ColumnCursor cursor(walk); !cursor.done(); cursor.advance()) {
    Item* const column = reinterpret_cast<Item*>(host_bytes) + cursor.host_offset();
    const std::int64_t lanes = cursor.lanes();
    batch.lanes[0] = static_cast<std::uint32_t>(lanes);
    for (std::int64_t row = 0; row < walk.rows; row += kRows) {
      const std::int64_t count = std::min(kRows, walk.rows - row);
      batch.device[0] = device + (cursor.device_offset() + row) * static_cast<std::int64_t>(wire::kStickBytes);
      batch.rows = static_cast<std::size_t>(count);
      if constexpr (!kToDevice) kernel(batch);
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        Item* const from = column + row * walk.host_row_step + lane * walk.lane_step;
        for (std::int64_t r = 0; r < count; ++r) {
          Item& gathered = rows[static_cast<std::size_t>(r * walk.eps + lane)];
          if constexpr (kToDevice) {
            gathered = from[r * walk.host_row_step];
          } else {
            from[r * walk.host_row_step] = gathered;
          }
        }
      }
      if constexpr (kToDevice) kernel(batch);
    }
  }
}

template <bool kToDevice>
void walk_tensor(Conversion conversion, const HostShape& shape, std::byte* host, const SpyreTensorLayout& layout,
                 std::byte* device) {
  const auto kernel = [conversion](const StickColumns& batch) {
    if constexpr (kToDevice) {
      kernels::to_sticks(conversion, batch);
    } else {
      kernels::from_sticks(conversion, batch);
    }
  };
  const Walk walk = plan_walk(shape, layout);
  const std::size_t item = item_bytes(shape.dtype);
  if (walk.lane_step == 1 || walk.stick_size <= 1) return walk_adjacent(walk, item, host, device, kernel);
  switch (item) {
    case 1: return walk_gathered<std::uint8_t, kToDevice>(walk, host, device, kernel);
    case 2: return walk_gathered<std::uint16_t, kToDevice>(walk, host, device, kernel);
    case 8: return walk_gathered<std::uint64_t, kToDevice>(walk, host, device, kernel);
    default: return walk_gathered<std::uint32_t, kToDevice>(walk, host, device, kernel);
  }
}

// Throws what stickify.hpp says. What it returns are the kernels to use: a pair of theirs, in the layout that
// SpyreTensorLayout::of() gives.
std::optional<Conversion> check(const HostShape& shape, std::span<const std::byte> host,
                                const SpyreTensorLayout& layout, std::span<const std::byte> device, bool to_device) {
  require_conversion(shape.dtype, layout.device_dtype, to_device);
  const bool plain = require_made_for(shape, layout);
  require_buffer("host", host, shape.bytes_spanned(), item_bytes(shape.dtype));
  require_buffer("device", device, layout.device_bytes(), item_bytes(layout.device_dtype));
  return plain ? fast_conversion(shape.dtype, layout.device_dtype) : std::nullopt;
}

}  // namespace

std::optional<std::vector<std::int64_t>> order_of(const HostShape& shape, const SpyreTensorLayout& layout) {
  std::vector<std::int64_t> order;
  if (!shape.size.empty() && layout.dim_map.size() >= 2) {
    order.push_back(layout.dim_map[layout.dim_map.size() - 2]);  // undo the rotation of SpyreTensorLayout::of
    order.insert(order.end(), layout.dim_map.begin(), layout.dim_map.end() - 2);
  }
  try {
    if (SpyreTensorLayout::of(shape, order, layout.device_dtype) == layout) return order;
  } catch (const InvalidArgument& error) {
    if (error.field() != "dim_order") throw;
  }
  return std::nullopt;
}

void require_layout_of(const HostShape& shape, const SpyreTensorLayout& layout) {
  (void)require_made_for(shape, layout);
}

// The walk serves both directions and never writes its source; hence the two const_casts.
void stickify(const HostShape& shape, std::span<const std::byte> host, const SpyreTensorLayout& layout,
              std::span<std::byte> device) {
  if (const auto fast = check(shape, host, layout, device, true)) {
    return walk_tensor<true>(*fast, shape, const_cast<std::byte*>(host.data()), layout, device.data());
  }
  const auto nests = describe_transfer(layout, DeviceView::whole(shape), shape.stride, TransferDirection::ToDevice);
  std::ranges::fill(device.first(layout.device_bytes()), std::byte{0});  // padding
  copy_strided(nests, format_of(shape.dtype).value(), host, format_of(layout.device_dtype), device);
}

void unstickify(const SpyreTensorLayout& layout, std::span<const std::byte> device, const HostShape& shape,
                std::span<std::byte> host) {
  if (const auto fast = check(shape, host, layout, device, false)) {
    return walk_tensor<false>(*fast, shape, host.data(), layout, const_cast<std::byte*>(device.data()));
  }
  const auto nests = describe_transfer(layout, DeviceView::whole(shape), shape.stride, TransferDirection::FromDevice);
  copy_strided(nests, format_of(layout.device_dtype), device, format_of(shape.dtype).value(), host);
}

void convert_to_device(DataType from, DeviceType to, const void* host, void* device, std::size_t count) {
  const auto fast = fast_conversion(from, to);
  if (!fast) refuse_conversion("dtype", name(from), name(to));
  kernels::convert(*fast, true, host, device, count);
}

void convert_to_host(DeviceType from, DataType to, const void* device, void* host, std::size_t count) {
  const auto fast = fast_conversion(to, from);
  if (!fast) refuse_conversion("dtype", name(from), name(to));
  kernels::convert(*fast, false, device, host, count);
}

}  // namespace svp
