// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/tensor_view.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr std::int64_t kFirstTooLarge = std::int64_t{1} << 62;

[[noreturn]] void refuse(const char* field, std::string message, const char* next) {
  throw InvalidArgument(field, std::move(message), next);
}

// `count` positions exist: 0 … count − 1, or from the end −1 … −count.
std::int64_t wrapped(const char* field, std::int64_t given, std::int64_t count) {
  if (given >= -count && given < count) return given < 0 ? given + count : given;
  refuse(field,
         std::string(field) + " is " + std::to_string(given) +
             (count == 0 ? ", there is none to choose from"
                         : ", it has to be in " + std::to_string(-count) + " … " + std::to_string(count - 1)),
         "check the index against the tensor's shape");
}

std::size_t dimension(const char* field, std::int64_t given, const DeviceView& view) {
  return static_cast<std::size_t>(wrapped(field, given, static_cast<std::int64_t>(view.size.size())));
}

template <typename List>
void erase_at(List& list, std::size_t at) {
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
}
template <typename List>
void insert_at(List& list, std::size_t at, std::int64_t value) {
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), value);
}

// With the one entry −1 replaced.
Dims without_placeholder(const Dims& shape, std::int64_t elements) {
  const auto placeholder = std::ranges::find(shape, -1);
  if (placeholder == shape.end()) {
    require_shape("shape", shape);
    return shape;
  }
  Dims known = shape;
  const auto at = static_cast<std::size_t>(placeholder - shape.begin());
  known[at] = 1;
  if (std::ranges::find(known, -1) != known.end()) {
    refuse("shape", "shape " + to_string(shape) + " has more than one -1", "give all extents but one");
  }
  require_shape("shape", known);
  const std::int64_t others = std::accumulate(known.begin(), known.end(), std::int64_t{1}, std::multiplies<>{});
  if (others == 0) {
    refuse("shape", "the -1 in shape " + to_string(shape) + " could be anything: the other extents have no element",
           "give the extent");
  }
  known[at] = elements / others;
  return known;
}

// Elements that are evenly spaced.
struct Run {
  std::int64_t count;
  std::int64_t step;
};

// The dimensions of the view, joined where one goes on where the one behind it ends; the last one first.
std::vector<Run> runs_of(const DeviceView& view) {
  std::vector<Run> runs;
  for (std::size_t d = view.size.size(); d-- > 0;) {
    if (view.size[d] == 1) continue;
    if (!runs.empty() && view.stride[d] == runs.back().count * runs.back().step) {
      runs.back().count *= view.size[d];
    } else {
      runs.push_back({view.size[d], view.stride[d]});
    }
  }
  return runs;
}

// The strides of `shape`, which has as many elements as the view and at least one; nothing when a dimension would go
// over the end of a run.
std::optional<Dims> strides_over(const DeviceView& view, const Dims& shape) {
  Dims stride(shape.size());
  std::size_t to = shape.size();
  std::int64_t step = 1;
  for (const Run& run : runs_of(view)) {
    std::int64_t left = run.count;
    step = run.step;
    while (to > 0 && (left > 1 || shape[to - 1] == 1)) {
      const std::int64_t extent = shape[--to];
      if (left % extent != 0) return std::nullopt;
      stride[to] = step;
      step *= extent;
      left /= extent;
    }
  }
  while (to > 0) stride[--to] = step;  // extents of 1
  return stride;
}

// Every element of the view is one of the tensor: its sizes are digits of the host index, its strides their weights.
void require_elements_of(const HostShape& base, const DeviceView& view) {
  const SpyreTensorLayout places{
      .device_size = base.size, .stride_map = base.stride, .dim_map = Dims(base.size.size(), 0)};
  const Dims dense = HostShape::contiguous(base.dtype, view.size).stride;
  (void)describe_transfer(places, view, dense, TransferDirection::FromDevice);
}

}  // namespace

std::string to_string(const Dims& dims) {
  std::string result = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) result += (i != 0 ? ", " : "") + std::to_string(dims[i]);
  return result + "]";
}

void require_shape(const char* field, const Dims& size) {
  if (size.size() > kMostDimensions) {
    refuse(field, std::to_string(size.size()) + " dimensions, " + std::to_string(kMostDimensions) + " are the most",
           "join dimensions");
  }
  if (std::ranges::any_of(size, [](std::int64_t extent) { return extent < 0; })) {
    refuse(field, std::string(field) + " " + to_string(size) + " has a negative entry", "check the extents");
  }
  if (std::ranges::find(size, 0) != size.end()) return;
  std::int64_t count = 1;
  for (const std::int64_t extent : size) {
    if (__builtin_mul_overflow(count, extent, &count) || count >= kFirstTooLarge) {
      refuse(field, std::string(field) + " " + to_string(size) + " has 2^62 elements or more", "check the extents");
    }
  }
}

std::int64_t element_count(const DeviceView& view) {
  if (std::ranges::find(view.size, 0) != view.size.end()) return 0;
  return std::accumulate(view.size.begin(), view.size.end(), std::int64_t{1}, std::multiplies<>{});
}

bool is_contiguous(const DeviceView& view) {
  if (element_count(view) == 0) return true;
  std::int64_t stride = 1;
  for (std::size_t d = view.size.size(); d-- > 0;) {
    if (view.size[d] == 1) continue;
    if (view.stride[d] != stride) return false;
    stride *= view.size[d];
  }
  return true;
}

DeviceView reshaped(const DeviceView& view, const Dims& given) {
  const std::int64_t elements = element_count(view);
  const Dims shape = without_placeholder(given, elements);
  if (element_count({shape, {}, 0}) != elements) {
    refuse("shape",
           "shape " + to_string(given) + " has not the " + std::to_string(elements) + " elements of " +
               to_string(view.size),
           "give extents with that product");
  }
  if (elements == 0) {
    return {shape, shape == view.size ? view.stride : HostShape::contiguous(DataType::Int8, shape).stride, view.offset};
  }
  auto stride = strides_over(view, shape);
  if (!stride) {
    throw CopyNeeded("shape",
                     "size " + to_string(view.size) + ", stride " + to_string(view.stride) + " can not be seen as " +
                         to_string(given) + " without moving elements",
                     "copy the tensor first: Context::contiguous()");
  }
  return {shape, *std::move(stride), view.offset};
}

DeviceView permuted(const DeviceView& view, const Dims& dims) {
  if (dims.size() != view.size.size()) {
    refuse("dims", "dims " + to_string(dims) + " for a tensor of " + std::to_string(view.size.size()) + " dimensions",
           "name each dimension once");
  }
  DeviceView result{.size = {}, .stride = {}, .offset = view.offset};
  std::vector<bool> named(dims.size(), false);
  for (const std::int64_t dim : dims) {
    const std::size_t d = dimension("dims", dim, view);
    if (named[d]) {
      refuse("dims", "dims " + to_string(dims) + " names dimension " + std::to_string(d) + " twice",
             "name each dimension once");
    }
    named[d] = true;
    result.size.push_back(view.size[d]);
    result.stride.push_back(view.stride[d]);
  }
  return result;
}

DeviceView transposed(const DeviceView& view, std::int64_t dim0, std::int64_t dim1) {
  DeviceView result = view;
  if (view.size.empty() && dim0 >= -1 && dim0 <= 0 && dim1 >= -1 && dim1 <= 0) return result;  // as in PyTorch
  const std::size_t a = dimension("dim0", dim0, view);
  const std::size_t b = dimension("dim1", dim1, view);
  std::swap(result.size[a], result.size[b]);
  std::swap(result.stride[a], result.stride[b]);
  return result;
}

DeviceView sliced(const DeviceView& view, std::int64_t dim, std::optional<std::int64_t> start,
                  std::optional<std::int64_t> end, std::int64_t step) {
  const std::size_t d = dimension("dim", dim, view);
  if (step < 1) refuse("step", "step is " + std::to_string(step), "give a step of 1 or more");
  const std::int64_t size = view.size[d];
  const auto cut = [size](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 && at >= -size ? at + size : at, 0, size);
  };
  const std::int64_t from = cut(start.value_or(0));
  const std::int64_t to = std::max(from, cut(end.value_or(size)));
  DeviceView result = view;
  result.offset += from * view.stride[d];
  result.size[d] = (to - from) / step + ((to - from) % step != 0);
  if (__builtin_mul_overflow(view.stride[d], step, &result.stride[d]) || result.stride[d] >= kFirstTooLarge) {
    refuse("step", "step " + std::to_string(step) + " makes a stride of 2^62 or more", "give a smaller step");
  }
  return result;
}

DeviceView narrowed(const DeviceView& view, std::int64_t dim, std::int64_t start, std::int64_t length) {
  const std::size_t d = dimension("dim", dim, view);
  const std::int64_t size = view.size[d];
  if (length < 0) refuse("length", "length is " + std::to_string(length), "give 0 or more");
  const std::int64_t from = start == size ? start : wrapped("start", start, size);
  if (length > size - from) {
    refuse("length",
           std::to_string(length) + " elements from " + std::to_string(from) + " are not in a dimension of " +
               std::to_string(size),
           "check start and length");
  }
  DeviceView result = view;
  result.offset += from * view.stride[d];
  result.size[d] = length;
  return result;
}

DeviceView selected(const DeviceView& view, std::int64_t dim, std::int64_t index) {
  const std::size_t d = dimension("dim", dim, view);
  DeviceView result = view;
  result.offset += wrapped("index", index, view.size[d]) * view.stride[d];
  erase_at(result.size, d);
  erase_at(result.stride, d);
  return result;
}

DeviceView squeezed(const DeviceView& view, std::optional<std::int64_t> dim) {
  DeviceView result = view;
  const bool scalar = view.size.empty();
  if (dim && scalar && *dim >= -1 && *dim <= 0) return result;  // as in PyTorch
  const std::size_t only = dim ? dimension("dim", *dim, view) : 0;
  for (std::size_t d = view.size.size(); d-- > 0;) {
    if (view.size[d] != 1 || (dim && d != only)) continue;
    erase_at(result.size, d);
    erase_at(result.stride, d);
  }
  return result;
}

DeviceView unsqueezed(const DeviceView& view, std::int64_t dim) {
  const auto rank = static_cast<std::int64_t>(view.size.size());
  const auto d = static_cast<std::size_t>(wrapped("dim", dim, rank + 1));
  DeviceView result = view;
  insert_at(result.stride, d, d < view.size.size() ? std::max<std::int64_t>(view.size[d], 1) * view.stride[d] : 1);
  insert_at(result.size, d, 1);
  require_shape("dim", result.size);
  return result;
}

DeviceView expanded(const DeviceView& view, const Dims& size) {
  if (size.size() < view.size.size()) {
    refuse("size", "size " + to_string(size) + " has fewer dimensions than the tensor's " + to_string(view.size),
           "give an extent, or -1, for each dimension");
  }
  const std::size_t added = size.size() - view.size.size();
  DeviceView result{.size = size, .stride = Dims(size.size(), 0), .offset = view.offset};
  for (std::size_t d = added; d < size.size(); ++d) {
    const std::int64_t old = view.size[d - added];
    if (size[d] == -1) result.size[d] = old;
    if (result.size[d] == old) {
      result.stride[d] = view.stride[d - added];
    } else if (old != 1) {
      refuse("size",
             "dimension " + std::to_string(d) + " of " + to_string(size) + " is not the tensor's " +
                 std::to_string(old) + ", and only a dimension of size 1 can be repeated",
             "give the tensor's extent, or -1");
    }
  }
  require_shape("size", result.size);
  return result;
}

DeviceView strided(const HostShape& base, Dims size, Dims stride, std::int64_t offset) {
  require_shape("size", size);
  if (stride.size() != size.size()) {
    refuse("stride", "size " + to_string(size) + " and stride " + to_string(stride) + " differ in length",
           "give one stride per dimension");
  }
  if (std::ranges::any_of(stride, [](std::int64_t step) { return step < 0 || step >= kFirstTooLarge; })) {
    refuse("stride", "stride " + to_string(stride) + " has an entry that is negative or 2^62 or more",
           "check the strides");
  }
  if (offset < 0 || offset >= kFirstTooLarge) {
    refuse("offset", "offset " + std::to_string(offset) + " is negative or 2^62 or more", "check the storage offset");
  }
  DeviceView view{std::move(size), std::move(stride), offset};
  if (element_count(view) == 0) return view;
  std::int64_t last = offset;
  bool inside = true;
  for (std::size_t d = 0; d < view.size.size() && inside; ++d) {
    std::int64_t reach = 0;
    inside = !__builtin_mul_overflow(view.size[d] - 1, view.stride[d], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
  }
  const auto span = static_cast<std::int64_t>(base.bytes_spanned() / item_bytes(base.dtype));
  if (!inside || last >= span) {
    refuse("size",
           "size " + to_string(view.size) + ", stride " + to_string(view.stride) + ", offset " +
               std::to_string(offset) + " leaves the tensor's " + std::to_string(span) + " elements",
           "check size, stride and storage offset");
  }
  if (span != base.element_count()) require_elements_of(base, view);
  return view;
}

}  // namespace svp
