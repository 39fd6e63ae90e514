// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tensor_copies.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "host_driver/frontend/spyre_stream.hpp"
#include "host_driver/tensor/element_format.hpp"
#include "host_driver/tensor/layout_digits.hpp"

namespace svp::test {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr DataType kHostTypes[] = {DataType::Float16,      DataType::BFloat16,   DataType::Float32, DataType::Int8,
                                   DataType::Uint8,        DataType::Int16,      DataType::Int32,   DataType::Int64,
                                   DataType::Float8E4m3fn, DataType::Float8E5m2, DataType::Bool};
constexpr DeviceType kDeviceTypes[] = {DeviceType::Dl16, DeviceType::Fp32,   DeviceType::Int32,   DeviceType::Int16,
                                       DeviceType::Int8, DeviceType::Uint32, DeviceType::Fp8E4m3, DeviceType::Fp8E5m2};

ElementFormat format(DataType type) { return format_of(type).value(); }
bool converts(DataType from, DeviceType to) { return conversion(format(from), format_of(to)) != nullptr; }
bool converts(DeviceType from, DataType to) { return conversion(format_of(from), format(to)) != nullptr; }
bool converts(DeviceType from, DeviceType to) { return conversion(format_of(from), format_of(to)) != nullptr; }

// One element's code, in the low bytes.
std::uint64_t converted(ElementFormat from, std::uint64_t code, ElementFormat to) {
  std::uint64_t result = 0;
  conversion(from,
             to)({reinterpret_cast<const std::byte*>(&code), 0, 1, reinterpret_cast<std::byte*>(&result), 0, 1, 1});
  return result;
}
std::uint64_t load(const std::byte* memory, std::int64_t index, std::size_t item) {
  std::uint64_t code = 0;
  std::memcpy(&code, memory + static_cast<std::size_t>(index) * item, item);
  return code;
}

// Calls back with the position of every element of a strided array and of a second one with the same sizes.
template <typename Visit>
void for_each_pair(const DeviceView& a, const Dims& b_stride, Visit&& visit) {
  if (element_count(a) == 0) return;
  Dims index(a.size.size(), 0);
  std::int64_t at = a.offset;
  std::int64_t other = 0;
  for (bool more = true; more;) {
    visit(at, other);
    more = false;
    for (std::size_t d = a.size.size(); d-- > 0 && !more;) {
      more = ++index[d] < a.size[d];
      const std::int64_t steps = more ? 1 : 1 - a.size[d];
      if (!more) index[d] = 0;
      at += steps * a.stride[d];
      other += steps * b_stride[d];
    }
  }
}

}  // namespace

// A tensor with the code of each element by its host index.
struct TensorCopies::Modelled {
  SpyreTensor tensor;
  std::vector<std::uint64_t> codes;

  ElementFormat format() const { return format_of(tensor.layout().device_dtype); }
};

// Memory of the host with a shape; with room in front, so that it begins anywhere.
struct TensorCopies::HostArray {
  HostShape shape;
  std::vector<std::byte> memory;
  std::size_t begin = 0;

  std::span<std::byte> bytes() { return std::span(memory).subspan(begin); }
  const std::byte* data() const { return memory.data() + begin; }
};

// A copy to the host under way, and what it has to bring.
struct TensorCopies::Reading {
  HostArray array;  // its memory stays where it is when this is moved
  std::shared_ptr<HostTask> task;
  std::vector<std::byte> expected;
  std::string what;
};

TensorCopies::TensorCopies(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, std::uint64_t seed)
    : runtime_(runtime), allocator_(allocator), stream_(stream), random_(seed) {}

std::int64_t TensorCopies::below(std::int64_t bound) {
  return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
}
// Mostly as the driver chooses.
CopyPath TensorCopies::random_path() { return below(4) == 0 ? CopyPath::Linear : CopyPath::Automatic; }
template <typename List>
auto TensorCopies::one_of(const List& list) {
  return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(std::size(list))))];
}

// Up to some thousand elements, often with an extent around a stick's.
Dims TensorCopies::random_shape() {
  for (;;) {  // bounded: a shape of one dimension is small enough
    Dims size(static_cast<std::size_t>(below(5)));
    for (auto& extent : size) extent = below(3) == 0 ? 1 + below(140) : below(12) == 0 ? below(2) : 1 + below(8);
    const auto count = std::accumulate(size.begin(), size.end(), std::int64_t{1}, std::multiplies<>{});
    if (count <= 6000) return size;
  }
}

TensorOptions TensorCopies::random_options(DataType dtype, DeviceType device_dtype, const Dims& shape) {
  TensorOptions options{.device_dtype = device_dtype, .interleaved = below(2) == 0};
  Dims order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  if (below(2) == 0) {
    options.dim_order = order;
    if (!shape.empty() && below(6) == 0) options.dim_order->push_back(SpyreTensorLayout::kSynthetic);
  }
  const bool elements = std::ranges::find(shape, 0) == shape.end();
  if (elements && below(4) == 0) {
    options.stride.emplace(shape.size());
    std::int64_t stride = 1 + below(2);
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::int64_t d : order) {
      (*options.stride)[static_cast<std::size_t>(d)] = stride;
      stride = stride * shape[static_cast<std::size_t>(d)] + below(3);
    }
  }
  // Blocks of 8 rows: a layout that no dim_order gives.
  if (elements && !options.stride && shape.size() == 2 && shape[0] > 8 && shape[1] > 1 && below(3) == 0) {
    const std::int64_t eps = elements_per_stick(*options.device_dtype);
    const std::int64_t columns = shape[1];
    options.layout = SpyreTensorLayout::with_map(
        HostShape::contiguous(dtype, shape), {(shape[0] + 7) / 8, (columns + eps - 1) / eps, 8, eps},
        {8 * columns, eps < columns ? eps : -1, columns, 1}, options.device_dtype);
    options.dim_order.reset();
  }
  return options;
}

TensorCopies::Modelled TensorCopies::random_tensor(const Modelled* like) {
  DataType dtype = one_of(kHostTypes);
  DeviceType device_dtype{};
  do device_dtype = one_of(kDeviceTypes);
  while (!converts(dtype, device_dtype));
  if (like != nullptr) {
    dtype = like->tensor.data_type();
    device_dtype = like->tensor.layout().device_dtype;
  }
  const Dims shape = random_shape();
  Modelled made{SpyreTensor::empty(allocator_, dtype, shape, random_options(dtype, device_dtype, shape)), {}};
  const auto memory = runtime_.allocator().try_resolve_chunks(made.tensor.allocation_index());
  if (memory && memory->count > 1) ++counts_.in_chunks;
  made.codes.resize(made.tensor.base_shape().bytes_spanned() / item_bytes(dtype));
  write(made, made.tensor);
  return made;
}

SpyreTensor TensorCopies::random_view(const SpyreTensor& tensor, bool for_writing) {
  SpyreTensor view = tensor;
  for (std::int64_t changes = below(5); changes > 0; --changes) {
    const auto rank = static_cast<std::int64_t>(view.shape().size());
    const std::int64_t dim = rank == 0 ? 0 : below(rank);
    const std::int64_t extent = rank == 0 ? 1 : view.shape()[static_cast<std::size_t>(dim)];
    switch (below(8)) {
      case 0:
        if (rank > 0) {
          const std::int64_t start = below(extent + 1);
          view = view.slice(dim, start, start + below(extent - start + 1), 1 + below(3));
        }
        break;
      case 1:
        if (rank > 1) view = view.transpose(dim, below(rank));
        break;
      case 2:
        if (rank > 0 && extent > 0) view = view.select(dim, below(extent));
        break;
      case 3: view = view.unsqueeze(below(rank + 1)); break;
      case 4:
        if (rank > 0) {
          const std::int64_t start = below(extent + 1);
          view = view.narrow(dim, start, below(extent - start + 1));
        }
        break;
      case 5:
        if (view.is_contiguous() && view.element_count() > 0) view = view.view({-1});
        break;
      case 6:
        if (!for_writing && view.element_count() < 1000) {
          Dims size = view.shape();
          for (auto& each : size) each = each == 1 ? 1 + below(3) : each;
          size.insert(size.begin(), 1 + below(2));
          view = view.expand(size);
        }
        break;
      default: {
        const std::int64_t span =
            static_cast<std::int64_t>(tensor.base_shape().bytes_spanned() / item_bytes(tensor.data_type()));
        if (for_writing || span < 2 || span != tensor.base_shape().element_count()) break;
        const std::int64_t offset = below(span);
        const std::int64_t step = 1 + below(9);
        const std::int64_t count = 1 + below((span - 1 - offset) / step + 1);
        view = tensor.as_strided({std::min<std::int64_t>(count, 60)}, {step}, offset);
      }
    }
  }
  return view;
}

TensorCopies::HostArray TensorCopies::random_array(DataType dtype, const Dims& size, bool may_repeat) {
  HostArray array;
  array.shape = {.dtype = dtype, .size = size, .stride = Dims(size.size())};
  if (may_repeat) {
    for (auto& extent : array.shape.size) {
      if (below(10) == 0 && extent != 0) extent = 1;
    }
    while (!array.shape.size.empty() && below(10) == 0) array.shape.size.erase(array.shape.size.begin());
    array.shape.stride.resize(array.shape.size.size());
  }
  Dims order(array.shape.size.size());
  std::iota(order.rbegin(), order.rend(), 0);  // the last one fastest
  if (below(3) == 0) std::shuffle(order.begin(), order.end(), random_);
  std::int64_t stride = below(4) == 0 ? 2 : 1;
  for (const std::int64_t d : order) {
    array.shape.stride[static_cast<std::size_t>(d)] = stride;
    stride = stride * std::max<std::int64_t>(array.shape.size[static_cast<std::size_t>(d)], 1) +
             (below(4) == 0 ? below(3) : 0);
  }
  array.begin = static_cast<std::size_t>(below(3)) * (below(2) == 0 ? item_bytes(dtype) : 1);
  array.memory.resize(array.begin + array.shape.bytes_spanned() + static_cast<std::size_t>(below(4)));
  for (auto& byte : array.memory) byte = static_cast<std::byte>(random_() >> 32);
  return array;
}

void TensorCopies::write(Modelled& tensor, const SpyreTensor& view) {
  DataType dtype{};
  do dtype = one_of(kHostTypes);
  while (!converts(dtype, view.layout().device_dtype));
  HostArray array = random_array(dtype, view.shape(), true);
  copy(runtime_, stream_, view, ConstHostTensor{array.shape, array.bytes()}, random_path());
  ++counts_.to_card;
  counts_.elements += static_cast<std::size_t>(view.element_count());
  const DeviceView source = expanded(DeviceView::whole(array.shape), view.shape());
  for_each_pair(view.device_view(), source.stride, [&](std::int64_t at, std::int64_t host) {
    tensor.codes[static_cast<std::size_t>(at)] =
        converted(format(dtype), load(array.data(), host, item_bytes(dtype)), tensor.format());
  });
}

void TensorCopies::begin_reading(const Modelled& tensor, std::vector<Reading>& readings) {
  const SpyreTensor view = random_view(tensor.tensor, false);
  DataType dtype{};
  do dtype = one_of(kHostTypes);
  while (!converts(view.layout().device_dtype, dtype));
  Reading reading{.array = random_array(dtype, view.shape(), false),
                  .task = {},
                  .expected = {},
                  .what = to_string(view) + " to " + std::string(name(dtype))};
  reading.expected = reading.array.memory;
  const std::size_t item = item_bytes(dtype);
  for_each_pair(view.device_view(), reading.array.shape.stride, [&](std::int64_t at, std::int64_t host) {
    const std::uint64_t code = converted(tensor.format(), tensor.codes[static_cast<std::size_t>(at)], format(dtype));
    std::memcpy(reading.expected.data() + reading.array.begin + static_cast<std::size_t>(host) * item, &code, item);
  });
  reading.task = copy(runtime_, stream_, HostTensor{reading.array.shape, reading.array.bytes()}, view, random_path());
  ++counts_.to_host;
  counts_.elements += static_cast<std::size_t>(view.element_count());
  readings.push_back(std::move(reading));
}

std::optional<std::string> TensorCopies::check(const Reading& reading) const {
  if (reading.task && !reading.task->done()) return "not done after Synchronize(): " + reading.what;
  if (reading.array.memory != reading.expected) return "wrong on the host: " + reading.what;
  return std::nullopt;
}

// A view of one into a view of the other of the same shape.
void TensorCopies::copy_on_card(Modelled& to, const Modelled& from) {
  if (!converts(from.tensor.layout().device_dtype, to.tensor.layout().device_dtype)) return;
  SpyreTensor source = random_view(from.tensor, false);
  SpyreTensor destination = random_view(to.tensor, true);
  if (source.element_count() == 0 || destination.element_count() == 0) return;
  while (source.shape().size() > destination.shape().size()) source = source.select(0, 0);
  while (destination.shape().size() > source.shape().size()) destination = destination.select(0, 0);
  for (std::size_t d = 0; d < source.shape().size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    const std::int64_t extent = std::min(source.shape()[d], destination.shape()[d]);
    source = source.narrow(dim, below(source.shape()[d] - extent + 1), extent);
    destination = destination.narrow(dim, below(destination.shape()[d] - extent + 1), extent);
  }
  const std::vector<std::uint64_t> before = from.codes;
  copy(runtime_, stream_, destination, source, random_path());
  ++counts_.on_card;
  counts_.elements += static_cast<std::size_t>(destination.element_count());
  DeviceView read = source.device_view();
  const std::int64_t offset = std::exchange(read.offset, 0);
  for_each_pair(destination.device_view(), read.stride, [&](std::int64_t at, std::int64_t other) {
    to.codes[static_cast<std::size_t>(at)] =
        converted(from.format(), before[static_cast<std::size_t>(offset + other)], to.format());
  });
}

// Into new memory, with another stick dimension: takes the place of the first one.
void TensorCopies::restickify_one(std::array<Modelled, 2>& tensors) {
  Modelled& old = tensors[0];
  Dims order(old.tensor.shape().size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  Modelled made{restickify(runtime_, allocator_, stream_, old.tensor, order), {}};
  ++counts_.restickified;
  counts_.elements += static_cast<std::size_t>(made.tensor.element_count());
  const auto memory = runtime_.allocator().try_resolve_chunks(made.tensor.allocation_index());
  if (memory && memory->count > 1) ++counts_.in_chunks;
  made.codes.resize(made.tensor.base_shape().bytes_spanned() / item_bytes(made.tensor.data_type()));
  for_each_pair(made.tensor.device_view(), old.tensor.stride(), [&](std::int64_t at, std::int64_t other) {
    made.codes[static_cast<std::size_t>(at)] = old.codes[static_cast<std::size_t>(other)];
  });
  old = std::move(made);
}

// Every byte of the allocation that the layout has: elements by the model, the rest zero.
std::optional<std::string> TensorCopies::check_bytes(const Modelled& tensor) {
  const std::uint64_t bytes = tensor.tensor.size_bytes();
  if (bytes == 0 || tensor.tensor.element_count() == 0) return std::nullopt;
  std::vector<std::byte> found(bytes);
  stream_.flex_stream().Launch(Job::from_device(found.data(), tensor.tensor.allocation_index(), bytes), {});
  stream_.Synchronize();
  std::vector<std::byte> expected(bytes, std::byte{0});
  const std::size_t item = item_bytes(tensor.tensor.layout().device_dtype);
  const DeviceView all = DeviceView::whole(tensor.tensor.base_shape());
  const LayoutDigits digits(tensor.tensor.layout());
  for_each_pair(all, all.stride, [&](std::int64_t at, std::int64_t) {
    const auto place = static_cast<std::size_t>(digits.offset_of(at).value());
    std::memcpy(expected.data() + place * item, &tensor.codes[static_cast<std::size_t>(at)], item);
  });
  if (found == expected) return std::nullopt;
  const auto differs = std::ranges::mismatch(found, expected).in1 - found.begin();
  return "byte " + std::to_string(differs) + " on the card is wrong: " + to_string(tensor.tensor);
}

std::optional<std::string> TensorCopies::run(std::size_t copies) {
  const std::size_t target = counts_.copies() + copies;
  while (counts_.copies() < target) {  // each pass makes copies
    std::array<Modelled, 2> tensors{random_tensor(nullptr), {}};
    tensors[1] = random_tensor(below(4) != 0 ? &tensors[0] : nullptr);
    std::vector<Reading> readings;
    for (std::int64_t actions = 4 + below(12); actions > 0; --actions) {
      Modelled& one = tensors[static_cast<std::size_t>(below(2))];
      switch (below(8)) {
        case 0:
        case 1: copy_on_card(tensors[0], tensors[1]); break;
        case 2: restickify_one(tensors); break;
        case 3:
        case 4: write(one, random_view(one.tensor, true)); break;
        default: begin_reading(one, readings);
      }
    }
    stream_.Synchronize();
    for (const Reading& reading : readings) {
      if (auto wrong = check(reading)) return wrong;
    }
    for (const Modelled& tensor : tensors) {
      if (auto wrong = check_bytes(tensor)) return wrong;
    }
  }
  return std::nullopt;
}

}  // namespace svp::test
