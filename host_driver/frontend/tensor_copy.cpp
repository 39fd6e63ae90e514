// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/tensor_copy.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "host_driver/frontend/narrowing.hpp"
#include "host_driver/frontend/spyre_stream.hpp"
#include "host_driver/frontend/stick_buffer.hpp"
#include "host_driver/frontend/stick_converter.hpp"
#include "host_driver/frontend/strided_path.hpp"
#include "host_driver/tensor/conversion_refusal.hpp"
#include "host_driver/tensor/element_format.hpp"
#include "host_driver/tensor/stickify.hpp"
#include "host_driver/tensor/strided_copy.hpp"

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;

// ---- what is refused ------------------------------------------------------------------------------------------------

// Runs a check of one side; what it refuses is told of that side.
template <typename Check>
auto of_side(const char* side, Check&& check) {
  try {
    return std::forward<Check>(check)();
  } catch (const CopyNeeded& error) {
    throw CopyNeeded(side, std::string(side) + ": " + error.info().message, error.info().next_step);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(side, std::string(side) + ": " + error.info().message, error.info().next_step);
  } catch (const InvalidAllocation& error) {
    ErrorInfo info = error.info();
    info.source = side;
    throw InvalidAllocation(error.reason(), std::move(info));
  }
}

void require_memory(Runtime& runtime, const char* side, const SpyreTensor& tensor) {
  of_side(side, [&] { (void)runtime.allocator().resolve_chunks(tensor.allocation_index()); });
}

ElementFormat host_format(DataType dtype) {
  const auto format = format_of(dtype);
  if (!format) throw InvalidArgument("dtype", format.error().message, format.error().next_step);
  return *format;
}

void require_conversion(ElementFormat from, ElementFormat to) {
  if (conversion(from, to) == nullptr) refuse_conversion("dtype", name(from), name(to));
}

// Memory, sizes and strides of the host's side.
void require_host(const char* side, const HostShape& shape, std::size_t bytes) {
  of_side(side, [&] {
    require_shape("size", shape.size);
    if (shape.stride.size() != shape.size.size()) {
      throw InvalidArgument(
          "stride", "size " + to_string(shape.size) + " and stride " + to_string(shape.stride) + " differ in length",
          "give one stride per dimension");
    }
    if (std::ranges::any_of(shape.stride, [](std::int64_t step) { return step < 0; })) {
      throw InvalidArgument("stride", "stride " + to_string(shape.stride) + " has a negative entry",
                            "reverse the elements on the host first");
    }
    const std::uint64_t needed = shape.bytes_spanned();
    if (needed <= bytes) return;
    throw InvalidArgument("bytes", std::to_string(bytes) + " bytes, the shape spans " + std::to_string(needed),
                          "give all of the tensor's memory");
  });
}

DeviceView repeated_to(const Dims& size, const DeviceView& source) {
  try {
    return expanded(source, size);
  } catch (const InvalidArgument&) {
    throw InvalidArgument(
        "source", "a source of " + to_string(source.size) + " does not fill a destination of " + to_string(size),
        "give tensors of one shape, or a source whose other dimensions have size 1");
  }
}

void require_same_shape(const HostShape& host, const SpyreTensor& tensor) {
  if (host.size == tensor.shape()) return;
  throw InvalidArgument("shape", "host tensor and device tensor differ in shape", "give tensors of one shape");
}

// ---- transfers ------------------------------------------------------------------------------------------------------

void launch(SpyreStream& stream, std::vector<Step> steps, std::shared_ptr<const void> keep_alive,
            LaunchObserver* observer = nullptr) {
  stream.flex_stream().Launch(Job(JobPlan(std::move(steps))), {},
                              {.observer = observer, .keep_alive = std::move(keep_alive)});
}

CardSide card_side(const SpyreTensor& tensor) {
  return {format_of(tensor.layout().device_dtype), tensor.layout().elements_per_stick(), tensor.allocation_index()};
}

// Its source is the caller's again when this returns.
void launch_and_wait(SpyreStream& stream, const std::shared_ptr<StickConverter>& converter) {
  FlexStream& flex = stream.flex_stream();
  const auto task = flex.host_work().make(flex, 0, [converter] { converter->require_converted(); });
  launch(stream, converter->steps(), task, task.get());
  task->wait();  // bounded: the launch ends as FlexStream::Synchronize() says
}

std::vector<StickRun> all_sticks(const SpyreTensor& tensor) {
  return {{0, static_cast<std::int64_t>(tensor.layout().stick_count())}};
}

bool names_every_element(const SpyreTensor& tensor) {
  const HostShape& base = tensor.base_shape();
  const bool expanded_base = std::ranges::find(base.stride, 0) != base.stride.end();
  return !expanded_base && tensor.element_count() == base.element_count();
}

// So few control blocks read a view; sticks between the runs are read with them.
constexpr std::size_t kMostReads = 512;

std::vector<StickRun> runs_to_read(std::vector<StickRun> runs) {
  for (std::int64_t gap = 1; runs.size() > kMostReads; gap *= 2) runs = joined(runs, gap);
  return runs;
}

// The layout of a host array, in which stickify() lays out the tensor; nothing when there is no such layout. Repeated
// elements would be written into padding, too.
std::optional<SpyreTensorLayout> stickify_layout(const HostShape& host, const SpyreTensor& tensor,
                                                 const std::byte* memory) {
  if (!tensor.is_whole() || reinterpret_cast<std::uintptr_t>(memory) % item_bytes(host.dtype) != 0) return std::nullopt;
  const auto order = order_of(tensor.base_shape(), tensor.layout());
  if (!order || std::ranges::find(host.stride, 0) != host.stride.end()) return std::nullopt;
  auto layout = SpyreTensorLayout::of(host, order, tensor.layout().device_dtype);
  if (layout.device_size != tensor.layout().device_size) return std::nullopt;
  return layout;
}

// Elements in memory of the host, with a stride for each of the destination's dimensions.
struct HostElements {
  ElementFormat format;
  std::span<const std::byte> bytes;
  Dims stride;
};

// By the card: only the elements are moved. False: it can not.
bool write_strided(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostElements& source) {
  const auto dense = DenseElements::of(runtime, tensor, tensor.device_view(), TransferDirection::ToDevice);
  if (dense == nullptr) return false;
  const StridedLoops loops = DenseElements::loops_to(tensor.shape(), source.stride);
  copy_strided({&loops, 1}, source.format, source.bytes, format_of(tensor.layout().device_dtype), dense->bytes());
  runtime.transfer_counters().add_copied(dense->bytes().size());
  launch(stream, dense->steps(), dense);
  return true;
}

// Whole sticks; what no nest names becomes zero.
void write_sticks(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostElements& source,
                  std::vector<StridedLoops> nests, const std::vector<StickRun>& runs) {
  const CardSide card = card_side(tensor);
  const auto buffer = StickBuffer::pinned(runtime.host_memory(), runs);
  if (buffer == nullptr) {
    const std::span host(const_cast<std::byte*>(source.bytes.data()), source.bytes.size());  // only read
    return launch_and_wait(stream, std::make_shared<StickConverter>(std::move(nests), runs, Direction::ToDevice,
                                                                    HostSide{source.format, host}, card));
  }
  if (names_every_element(tensor)) std::ranges::fill(buffer->bytes(), std::byte{0});  // padding
  copy_strided(buffer->loops_here(std::move(nests), LoopSide::Destination, card.elements_per_stick), source.format,
               source.bytes, card.format, buffer->bytes());
  runtime.transfer_counters().add_copied(bytes_of(runs));
  launch(stream, buffer->transfers(runs, card.tensor, Direction::ToDevice), buffer);
}

// Reads the sticks, changes what the nests name, and writes them.
void rewrite_sticks(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostElements& source,
                    std::vector<StridedLoops> nests, const StickRuns& runs) {
  const CardSide card = card_side(tensor);
  const auto buffer = StickBuffer::any(runtime.host_memory(), runs.all);
  launch(stream, buffer->transfers(runs.partial, card.tensor, Direction::FromDevice), buffer);
  stream.Synchronize();
  copy_strided(buffer->loops_here(std::move(nests), LoopSide::Destination, card.elements_per_stick), source.format,
               source.bytes, card.format, buffer->bytes());
  runtime.transfer_counters().add_copied(bytes_of(runs.all));
  launch(stream, buffer->transfers(runs.all, card.tensor, Direction::ToDevice), buffer);
}

void write_elements(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostElements& source,
                    CopyPath path);

// A view that pinned memory has no room for. Half of it may fit, or both halves one after the other.
bool write_halves(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostElements& source,
                  CopyPath path) {
  const auto bytes = static_cast<std::uint64_t>(tensor.element_count()) * item_bytes(tensor.layout().device_dtype);
  const auto longest = std::ranges::max_element(tensor.shape());
  if (bytes <= largest_pinned(runtime.host_memory()) / 4 || *longest < 2) return false;
  const auto dim = longest - tensor.shape().begin();
  const auto stride = source.stride[static_cast<std::size_t>(dim)];
  const auto half = *longest / 2;
  const auto skipped = static_cast<std::size_t>(half * stride) * (bits_of(source.format) / 8);
  write_elements(runtime, stream, tensor.slice(dim, 0, half), source, path);
  write_elements(runtime, stream, tensor.slice(dim, half),
                 {source.format, source.bytes.subspan(skipped), source.stride}, path);
  return true;
}

void write_elements(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostElements& source,
                    CopyPath path) {
  auto nests = of_side("destination", [&] {
    return describe_transfer(tensor.layout(), tensor.device_view(), source.stride, TransferDirection::ToDevice);
  });
  const std::int64_t eps = tensor.layout().elements_per_stick();
  const bool all = names_every_element(tensor);
  const StickRuns runs = all ? StickRuns{all_sticks(tensor), {}} : sticks_of(nests, LoopSide::Destination, eps);
  if (runs.partial.empty()) return write_sticks(runtime, stream, tensor, source, std::move(nests), runs.all);
  if (path == CopyPath::Automatic) {
    if (write_strided(runtime, stream, tensor, source)) return;
    if (write_halves(runtime, stream, tensor, source, path)) return;
    stream.Synchronize();  // earlier halves give their memory back
    if (write_strided(runtime, stream, tensor, source)) return;
  }
  rewrite_sticks(runtime, stream, tensor, source, std::move(nests), runs);
}

// What is transferred for a copy to the host, and what is then done with it.
struct HostCopyPlan {
  std::vector<Step> steps;
  std::uint64_t bytes = 0;  // held until then
  std::function<void()> convert;
};

// Into memory of the host, which has `nests`; `keep_alive` until then.
HostCopyPlan read_sticks(Runtime& runtime, const SpyreTensor& source, const HostSide& host,
                         std::vector<StridedLoops> nests, const std::vector<StickRun>& runs,
                         const std::shared_ptr<const void>& keep_alive = {}) {
  const CardSide card = card_side(source);
  const auto buffer = StickBuffer::pinned(runtime.host_memory(), runs);
  if (buffer == nullptr) {
    const auto converter = std::make_shared<StickConverter>(std::move(nests), runs, Direction::FromDevice, host, card);
    return {.steps = converter->steps(), .convert = [converter, keep_alive] { converter->require_converted(); }};
  }
  return {.steps = buffer->transfers(runs, card.tensor, Direction::FromDevice),
          .bytes = buffer->bytes().size(),
          .convert = [&counters = runtime.transfer_counters(), buffer, host, card, runs, keep_alive,
                      here = buffer->loops_here(std::move(nests), LoopSide::Source, card.elements_per_stick)] {
            copy_strided(here, card.format, buffer->bytes(), host.format, host.memory);
            counters.add_copied(bytes_of(runs));
          }};
}

// Of one tensor into another one, both on the card, through host memory.
void copy_through_host(Runtime& runtime, SpyreStream& stream, const SpyreTensor& destination, const SpyreTensor& source,
                       const DeviceView& view, CopyPath path) {
  stream.flex_stream().refuse_in_capture("a copy of a tensor through the host");
  const Dims dense = HostShape::contiguous(DataType::Int8, destination.shape()).stride;
  auto reads =
      of_side("source", [&] { return describe_transfer(source.layout(), view, dense, TransferDirection::FromDevice); });
  of_side("destination", [&] {
    (void)describe_transfer(destination.layout(), destination.device_view(), dense, TransferDirection::ToDevice);
  });
  const auto runs = runs_to_read(sticks_of(reads, LoopSide::Source, source.layout().elements_per_stick()).all);
  // Dense, in the source's format: the destination's comes with the second step.
  const ElementFormat format = format_of(source.layout().device_dtype);
  const auto elements = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(destination.element_count()) *
                                                                 (bits_of(format) / 8));
  auto plan = std::make_shared<HostCopyPlan>(
      read_sticks(runtime, source, {format, *elements}, std::move(reads), runs, elements));
  launch(stream, std::move(plan->steps), plan);
  stream.Synchronize();
  plan->convert();
  write_elements(runtime, stream, destination, {format, *elements, dense}, path);
}

bool has_padding(const SpyreTensor& tensor) {
  const auto item = item_bytes(tensor.layout().device_dtype);
  return tensor.size_bytes() != static_cast<std::uint64_t>(tensor.base_shape().element_count()) * item;
}

// By the card, in stream order. False: it can not.
bool copy_on_card(Runtime& runtime, SpyreStream& stream, const SpyreTensor& destination, const SpyreTensor& source,
                  const DeviceView& view) {
  if (source.layout().device_dtype != destination.layout().device_dtype) return false;
  // Views of one tensor may overlap; the card's order of the elements is its own.
  if (source.allocation_index() == destination.allocation_index()) return false;
  std::vector<StridedLoops> nests;
  try {
    nests = describe_copy(source.layout(), view, destination.layout(), destination.device_view());
  } catch (const InvalidArgument&) {
    return false;  // the way through the host says what is wrong, or works
  }
  auto steps = strided_steps(runtime.allocator(), nests, CardPlace{source.allocation_index()},
                             CardPlace{destination.allocation_index()}, item_bytes(source.layout().device_dtype));
  if (!steps) return false;
  if (names_every_element(destination) && has_padding(destination)) {
    steps->insert(steps->begin(),
                  Fill{.allocation_index = destination.allocation_index(), .size = destination.size_bytes()});
  }
  launch(stream, *std::move(steps), source.storage());
  return true;
}

// Whether the bytes of one are those of the other.
bool same_bytes(const SpyreTensor& a, const SpyreTensor& b) {
  return a.is_whole() && b.is_whole() && a.layout() == b.layout() && a.base_shape().size == b.base_shape().size &&
         a.base_shape().stride == b.base_shape().stride;
}

// By the card: only the elements are moved. Without steps: it can not.
HostCopyPlan read_strided(Runtime& runtime, const HostTensor& destination, const SpyreTensor& source,
                          const DeviceView& view) {
  const auto dense = DenseElements::of(runtime, source, view, TransferDirection::FromDevice);
  if (dense == nullptr) return {};
  return {.steps = dense->steps(),
          .bytes = dense->bytes().size(),
          .convert = [&counters = runtime.transfer_counters(), dense, destination, source] {
            const StridedLoops loops = DenseElements::loops_from(destination.shape.size, destination.shape.stride);
            copy_strided({&loops, 1}, format_of(source.layout().device_dtype), dense->bytes(),
                         format_of(destination.shape.dtype).value(), destination.bytes);
            counters.add_copied(dense->bytes().size());
          }};
}

// Without steps: there is no room for it.
HostCopyPlan read_whole(Runtime& runtime, const HostTensor& destination, const SpyreTensor& source,
                        const SpyreTensorLayout& layout) {
  const auto runs = all_sticks(source);
  const auto buffer = StickBuffer::pinned(runtime.host_memory(), runs);
  if (buffer == nullptr) return {};
  return {.steps = buffer->transfers(runs, source.allocation_index(), Direction::FromDevice),
          .bytes = buffer->bytes().size(),
          .convert = [&counters = runtime.transfer_counters(), buffer, destination, layout] {
            unstickify(layout, buffer->bytes(), destination.shape, destination.bytes);
            counters.add_copied(buffer->bytes().size());
          }};
}

HostCopyPlan read_view(Runtime& runtime, const HostTensor& destination, const SpyreTensor& source,
                       const DeviceView& view, CopyPath path) {
  auto nests = of_side("destination", [&] {
    return describe_transfer(source.layout(), view, destination.shape.stride, TransferDirection::FromDevice);
  });
  if (view == source.device_view()) {
    const auto layout = stickify_layout(destination.shape, source, destination.bytes.data());
    HostCopyPlan whole = layout ? read_whole(runtime, destination, source, *layout) : HostCopyPlan{};
    if (!whole.steps.empty()) return whole;
  }
  const std::int64_t eps = source.layout().elements_per_stick();
  const auto runs = runs_to_read(sticks_of(nests, LoopSide::Source, eps).all);
  std::int64_t sticks = 0;
  for (const StickRun& run : runs) sticks += run.count;
  if (sticks * eps > 2 * element_count(view) && path == CopyPath::Automatic) {
    HostCopyPlan strided = read_strided(runtime, destination, source, view);
    if (!strided.steps.empty()) return strided;
  }
  return read_sticks(runtime, source, {format_of(destination.shape.dtype).value(), destination.bytes}, std::move(nests),
                     runs);
}

}  // namespace

void copy(Runtime& runtime, SpyreStream& stream, const SpyreTensor& destination, const ConstHostTensor& source,
          CopyPath path) {
  stream.flex_stream().refuse_in_capture("a copy between a tensor and memory of the host");
  const ElementFormat format = host_format(source.shape.dtype);
  require_conversion(format, format_of(destination.layout().device_dtype));
  require_host("source", source.shape, source.bytes.size());
  const DeviceView view = repeated_to(destination.shape(), DeviceView::whole(source.shape));
  if (destination.element_count() == 0) return;
  require_memory(runtime, "destination", destination);
  warn_of_narrowing(format, format_of(destination.layout().device_dtype));

  const HostShape host{.dtype = source.shape.dtype, .size = view.size, .stride = view.stride};
  if (const auto layout = stickify_layout(host, destination, source.bytes.data())) {
    const auto runs = all_sticks(destination);
    if (const auto buffer = StickBuffer::pinned(runtime.host_memory(), runs)) {
      stickify(host, source.bytes, *layout, buffer->bytes());
      runtime.transfer_counters().add_copied(buffer->bytes().size());
      return launch(stream, buffer->transfers(runs, destination.allocation_index(), Direction::ToDevice), buffer);
    }
  }
  write_elements(runtime, stream, destination, {format, source.bytes, view.stride}, path);
}

std::shared_ptr<HostTask> copy(Runtime& runtime, SpyreStream& stream, const HostTensor& destination,
                               const SpyreTensor& source, CopyPath path) {
  stream.flex_stream().refuse_in_capture("a copy between a tensor and memory of the host");
  require_conversion(format_of(source.layout().device_dtype), host_format(destination.shape.dtype));
  require_host("destination", destination.shape, destination.bytes.size());
  const DeviceView view = repeated_to(destination.shape.size, source.device_view());
  if (element_count(view) == 0) return nullptr;
  require_memory(runtime, "source", source);
  HostCopyPlan plan = read_view(runtime, destination, source, view, path);
  FlexStream& flex = stream.flex_stream();
  auto task = flex.host_work().make(flex, plan.bytes, std::move(plan.convert));
  launch(stream, std::move(plan.steps), task, task.get());
  return task;
}

void copy(Runtime& runtime, SpyreStream& stream, const SpyreTensor& destination, const SpyreTensor& source,
          CopyPath path) {
  require_conversion(format_of(source.layout().device_dtype), format_of(destination.layout().device_dtype));
  const DeviceView view = repeated_to(destination.shape(), source.device_view());
  if (destination.element_count() == 0) return;
  require_memory(runtime, "destination", destination);
  require_memory(runtime, "source", source);
  if (same_bytes(destination, source)) {
    if (destination.allocation_index() == source.allocation_index()) return;
    return launch(stream,
                  {DMA{.allocation_index = destination.allocation_index(),
                       .size = destination.size_bytes(),
                       .direction = Direction::DeviceToDevice,
                       .source_allocation_index = source.allocation_index()}},
                  source.storage());
  }
  if (path == CopyPath::Automatic && copy_on_card(runtime, stream, destination, source, view)) return;
  copy_through_host(runtime, stream, destination, source, view, path);
}

SpyreTensor to_device(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, const ConstHostTensor& source,
                      const TensorOptions& options) {
  const SpyreTensor tensor = SpyreTensor::empty(allocator, source.shape.dtype, source.shape.size, options);
  copy(runtime, stream, tensor, source);
  return tensor;
}

SpyreTensor restickify(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, const SpyreTensor& source,
                       std::optional<Dims> dim_order) {
  const SpyreTensor tensor = SpyreTensor::empty(
      allocator, source.data_type(), source.shape(),
      TensorOptions{.device_dtype = source.layout().device_dtype, .dim_order = std::move(dim_order)});
  copy(runtime, stream, tensor, source);
  return tensor;
}

SpyreTensor contiguous(Runtime& runtime, SpyreAllocator& allocator, SpyreStream& stream, const SpyreTensor& source) {
  const AllocationIndex index = source.allocation_index();
  const auto memory = runtime.allocator().try_resolve_chunks(index);
  // A tensor that is returned as it is has memory of this context, as one that is copied.
  if (!memory && index != AllocationIndex::Null) runtime.allocator().refuse(index, "source", ": ");
  const bool in_chunks = memory && memory->count > 1;
  return source.fits_kernels() && !in_chunks ? source : restickify(runtime, allocator, stream, source, std::nullopt);
}

void copy_to_device(Runtime& runtime, SpyreStream& stream, const ConstHostTensor& source, const SpyreTensor& tensor) {
  require_same_shape(source.shape, tensor);
  copy(runtime, stream, tensor, source);
}

void to_host(Runtime& runtime, SpyreStream& stream, const SpyreTensor& tensor, const HostTensor& destination) {
  require_same_shape(destination.shape, tensor);
  (void)copy(runtime, stream, destination, tensor);
  stream.Synchronize();
}

}  // namespace svp
