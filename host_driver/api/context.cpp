// SPDX-License-Identifier: Apache-2.0
// Contexts, devices, version.
#include "host_driver/api/inside.hpp"
#include "host_driver/frontend/devices.hpp"

namespace spyre::inline v0 {
namespace {

svp::CardOptions inner(const CardOptions& options) {
  svp::CardOptions card;
  card.name = options.name;
  card.firmware = options.firmware;
  card.cores = options.cores;
  card.memory_bytes = options.memory_bytes;
  card.virtual_functions = options.virtual_functions;
  card.sole_function = options.sole_function;
  card.window_bytes = options.window_bytes;
  card.populated_budget_bytes = options.populated_budget_bytes;
  card.boot_arguments = options.boot_arguments;
  card.emulator.program = options.emulator;
  card.emulator.console_file = options.console_file;
  card.emulator.gdb_endpoint = options.gdb_endpoint;
  return card;
}

svp::FlexAllocatorOptions inner(const MemoryOptions& options) {
  svp::FlexAllocatorOptions allocator;
  allocator.limit_bytes = options.limit_bytes;
  allocator.limit_fraction = options.limit_fraction;
  allocator.max_regions = options.max_regions;
  allocator.region_bytes = options.region_bytes;
  allocator.acquire_at_open = options.acquire_at_open;
  return allocator;
}

svp::ContextOptions inner(const ContextOptions& options) {
  svp::ContextOptions context;
  if (options.card) context.card = inner(*options.card);
  context.function = options.function;
  context.device_index = options.device_index;
  context.runtime.allocator = inner(options.memory);
  context.runtime.recovery = options.recovery;
  context.runtime.checksums = options.checksums;
  context.runtime.elide_corrections = options.elide_corrections;
  return context;
}

}  // namespace

std::unique_ptr<Context> Inside::context(std::unique_ptr<svp::Context> inner) {
  SpyreAllocator pool = allocator(inner->allocator());
  auto memory = host_memory(inner->runtime());
  auto operations = std::make_unique<svp::Operations>(*inner);
  return std::unique_ptr<Context>(new Context(std::make_unique<Context::Impl>(
      Context::Impl{std::move(inner), std::move(pool), std::move(memory), std::move(operations)})));
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Context::~Context() = default;

std::unique_ptr<Context> Context::open(const ContextOptions& options) {
  return Inside::context(svp::Context::open(inner(options)));
}

std::unique_ptr<Context> Context::open_beside(const ContextOptions& options) {
  if (options.card || options.device_index) {
    throw InvalidArgument("options", "a card was described for a context on a card that is there",
                          "give function and recovery only");
  }
  return Inside::context(svp::Context::open(impl_->context->shared_card(), inner(options)));
}

bool Context::embedded() const { return impl_->context->embedded(); }
const std::string& Context::device_name() const { return impl_->context->device_name(); }
SpyreAllocator& Context::allocator() { return impl_->allocator; }
HostMemory& Context::host_memory() { return *impl_->host_memory; }
SpyreStream Context::default_stream() { return Inside::stream(impl_->context->runtime().default_stream()); }
SpyreStream Context::stream(StreamPriority priority) {
  return Inside::stream(impl_->context->runtime().next_stream(priority));
}

SpyreStream Context::host_stream() { return Inside::stream(impl_->context->runtime().next_host_stream()); }
SpyreStream Context::stream_by_id(unsigned id) { return Inside::stream(impl_->context->runtime().stream(id)); }
SpyreStream Context::current_stream() { return Inside::stream(impl_->context->runtime().current_stream()); }
SpyreStream Context::set_current_stream(SpyreStream stream) {
  return Inside::stream(impl_->context->runtime().set_current_stream(Inside::of(stream)));
}
void Context::Synchronize() { impl_->context->runtime().synchronize(); }
void Context::Synchronize(std::chrono::steady_clock::time_point deadline) {
  impl_->context->runtime().synchronize(deadline);
}
void SynchronizeAll() { svp::Runtime::synchronize_all(); }

std::shared_ptr<const Kernel> Context::kernel(std::string_view name) const {
  return Inside::kernel(impl_->context->kernel(name));
}
void Context::load(ExecutionPlan& plan) { impl_->context->load(Inside::of(plan)); }

SpyreTensor Context::empty(DataType dtype, std::vector<std::int64_t> shape, std::optional<DeviceType> device_dtype) {
  return Inside::tensor(impl_->context->empty(dtype, std::move(shape), device_dtype));
}
SpyreTensor Context::empty(DataType dtype, std::vector<std::int64_t> shape, const TensorOptions& options) {
  return Inside::tensor(impl_->context->empty(dtype, std::move(shape), options));
}
SpyreTensor Context::to_device(const ConstHostTensor& source, std::optional<DeviceType> device_dtype) {
  return to_device(source, default_stream(), device_dtype);
}
SpyreTensor Context::to_device(const ConstHostTensor& source, SpyreStream stream,
                               std::optional<DeviceType> device_dtype) {
  return Inside::tensor(impl_->context->to_device(source, svp::SpyreStream(Inside::of(stream)), device_dtype));
}
SpyreTensor Context::to_device(const ConstHostTensor& source, const TensorOptions& options) {
  return to_device(source, options, default_stream());
}
SpyreTensor Context::to_device(const ConstHostTensor& source, const TensorOptions& options, SpyreStream stream) {
  return Inside::tensor(impl_->context->to_device(source, options, svp::SpyreStream(Inside::of(stream))));
}
void Context::copy_to_device(const ConstHostTensor& source, const SpyreTensor& tensor) {
  copy_to_device(source, tensor, default_stream());
}
void Context::copy_to_device(const ConstHostTensor& source, const SpyreTensor& tensor, SpyreStream stream) {
  svp::SpyreStream inner_stream(Inside::of(stream));
  svp::copy_to_device(impl_->context->runtime(), inner_stream, source, Inside::of(tensor));
}
void Context::to_host(const SpyreTensor& tensor, const HostTensor& destination) {
  to_host(tensor, destination, default_stream());
}
void Context::to_host(const SpyreTensor& tensor, const HostTensor& destination, SpyreStream stream) {
  impl_->context->to_host(Inside::of(tensor), destination, svp::SpyreStream(Inside::of(stream)));
}

void Context::copy(const SpyreTensor& destination, const ConstHostTensor& source) {
  copy(destination, source, default_stream());
}
void Context::copy(const SpyreTensor& destination, const ConstHostTensor& source, SpyreStream stream) {
  impl_->context->copy(Inside::of(destination), source, svp::SpyreStream(Inside::of(stream)));
}
HostCopy Context::copy(const HostTensor& destination, const SpyreTensor& source) {
  return copy(destination, source, default_stream());
}
HostCopy Context::copy(const HostTensor& destination, const SpyreTensor& source, SpyreStream stream) {
  return Inside::host_copy(impl_->context->copy(destination, Inside::of(source), svp::SpyreStream(Inside::of(stream))));
}
void Context::copy(const SpyreTensor& destination, const SpyreTensor& source) {
  copy(destination, source, default_stream());
}
void Context::copy(const SpyreTensor& destination, const SpyreTensor& source, SpyreStream stream) {
  impl_->context->copy(Inside::of(destination), Inside::of(source), svp::SpyreStream(Inside::of(stream)));
}
SpyreTensor Context::restickify(const SpyreTensor& source, std::optional<std::vector<std::int64_t>> dim_order) {
  return restickify(source, std::move(dim_order), default_stream());
}
SpyreTensor Context::restickify(const SpyreTensor& source, std::optional<std::vector<std::int64_t>> dim_order,
                                SpyreStream stream) {
  return Inside::tensor(
      impl_->context->restickify(Inside::of(source), std::move(dim_order), svp::SpyreStream(Inside::of(stream))));
}
SpyreTensor Context::contiguous(const SpyreTensor& tensor) { return contiguous(tensor, default_stream()); }
SpyreTensor Context::contiguous(const SpyreTensor& tensor, SpyreStream stream) {
  return Inside::tensor(impl_->context->contiguous(Inside::of(tensor), svp::SpyreStream(Inside::of(stream))));
}

RecoveryReport Context::recover(std::optional<ResetLevel> from) { return impl_->context->recover(from); }

std::size_t device_count() { return svp::device_count(); }
std::size_t default_device() { return svp::default_device(); }
std::string device_name(std::size_t index) { return svp::device_name(index); }

std::string version() { return SPYRE_VERSION; }

}  // namespace spyre::inline v0
