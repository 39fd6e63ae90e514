// SPDX-License-Identifier: Apache-2.0
// The C interface (include/spyre/spyre.h), written against the C++ API.
#include <spyre/spyre.h>

#include <array>
#include <chrono>
#include <cstring>
#include <span>

#include "host_driver/api/c_handles.hpp"
#include "host_driver/api/c_support.hpp"
#include "host_driver/api/inside.hpp"

using spyre::guarded;
using spyre::require;

namespace {

std::size_t host_bytes(const spyre_tensor& tensor) {
  return static_cast<std::size_t>(tensor.shape.element_count()) * spyre::item_bytes(tensor.shape.dtype);
}

void require_bytes(const spyre_tensor& tensor, const void* data, std::size_t bytes) {
  if (bytes != host_bytes(tensor)) {
    throw spyre::InvalidArgument("bytes",
                                 std::to_string(bytes) + " bytes for a tensor of " + std::to_string(host_bytes(tensor)),
                                 "give spyre_tensor_host_bytes()");
  }
  if (bytes != 0) (void)require(data, "data");
}

spyre::ContextOptions context_options(const spyre_context_options& given) {
  spyre::require_zero(given.reserved, "reserved");
  spyre::ContextOptions options;
  if (given.use_device_index != 0) options.device_index = given.device_index;
  const bool card = given.virtual_functions != 0 || given.cores != 0 || given.memory_bytes != 0 || given.firmware;
  options.function = given.function;
  if (!card) return options;
  spyre::CardOptions& described = options.card.emplace();
  described.virtual_functions = given.virtual_functions != 0 ? given.virtual_functions : given.function;
  if (given.virtual_functions == 0) described.sole_function = given.function;
  described.cores = given.cores;
  if (given.memory_bytes != 0) described.memory_bytes = given.memory_bytes;
  if (given.firmware != nullptr) described.firmware = given.firmware;
  return options;
}

}  // namespace

const char* spyre_version() { return SPYRE_VERSION; }

spyre_status spyre_device_count(size_t* count) {
  return guarded([&] { require(count, "count") = spyre::device_count(); });
}

spyre_status spyre_device_name(size_t index, char* name, size_t bytes, size_t* length) {
  return guarded([&] {
    const std::string text = spyre::device_name(index);
    if (bytes != 0) {
      const std::size_t kept = std::min(text.size(), bytes - 1);
      std::memcpy(&require(name, "name"), text.data(), kept);
      name[kept] = '\0';
    }
    if (length != nullptr) *length = text.size();
  });
}

spyre_status spyre_context_open(const spyre_context_options* options, spyre_context** context) {
  return guarded([&] {
    (void)require(context, "context");
    spyre_context_options given{};
    if (options != nullptr) given = spyre::copy_of_options(*options);
    *context = new spyre_context{spyre::Context::open(context_options(given))};
  });
}
spyre_status spyre_context_open_beside(spyre_context* context, uint32_t function, spyre_context** beside) {
  return guarded([&] {
    (void)require(beside, "beside");
    spyre::ContextOptions options;
    options.function = function;
    *beside = new spyre_context{require(context, "context").context->open_beside(options)};
  });
}
void spyre_context_close(spyre_context* context) { delete context; }
const char* spyre_context_device_name(const spyre_context* context) {
  return context != nullptr ? context->context->device_name().c_str() : nullptr;
}

spyre_status spyre_context_recover(spyre_context* context, spyre_recovery_report* report) {
  return guarded([&] {
    if (report != nullptr) spyre::require_size(report->size, sizeof *report, "report");
    const spyre::RecoveryReport found = require(context, "context").context->recover();
    if (report == nullptr) return;
    report->level = static_cast<std::uint32_t>(found.level());
    report->attempts = static_cast<std::uint32_t>(found.attempts.size());
    report->aborted = found.aborted;
    report->lost = found.lost;
  });
}

spyre_status spyre_stream_create(spyre_context* context, int high_priority, spyre_stream** stream) {
  return guarded([&] {
    (void)require(stream, "stream");
    const auto priority = high_priority != 0 ? spyre::StreamPriority::High : spyre::StreamPriority::Low;
    *stream = new spyre_stream{require(context, "context").context->stream(priority)};
  });
}
void spyre_stream_release(spyre_stream* stream) { delete stream; }

spyre_status spyre_synchronize(spyre_context* context, spyre_stream* stream) {
  return guarded([&] { spyre::stream_of(context, stream).Synchronize(); });
}
spyre_status spyre_synchronize_for(spyre_context* context, spyre_stream* stream, uint64_t nanoseconds) {
  return guarded([&] {
    constexpr std::uint64_t kLongest = std::uint64_t{1} << 60;  // 36 years; more would overflow the clock
    const auto now = std::chrono::steady_clock::now();
    spyre::stream_of(context, stream).Synchronize(now + std::chrono::nanoseconds(std::min(nanoseconds, kLongest)));
  });
}
spyre_status spyre_query(spyre_context* context, spyre_stream* stream, int* done) {
  return guarded([&] { require(done, "done") = spyre::stream_of(context, stream).Query() ? 1 : 0; });
}
spyre_status spyre_context_synchronize(spyre_context* context) {
  return guarded([&] { require(context, "context").context->Synchronize(); });
}

spyre_status spyre_event_record(spyre_context* context, spyre_stream* stream, spyre_event** event) {
  return guarded([&] {
    (void)require(event, "event");
    *event = new spyre_event{spyre::stream_of(context, stream).Record()};
  });
}
void spyre_event_release(spyre_event* event) { delete event; }
spyre_status spyre_stream_wait(spyre_context* context, spyre_stream* stream, const spyre_event* event) {
  return guarded([&] { spyre::stream_of(context, stream).Wait(require(event, "event").event); });
}
spyre_status spyre_stream_pipeline_barrier(spyre_context* context, spyre_stream* stream) {
  return guarded([&] { spyre::stream_of(context, stream).PipelineBarrier(); });
}
spyre_status spyre_event_query(const spyre_event* event, int* done) {
  return guarded([&] { require(done, "done") = require(event, "event").event.Query() ? 1 : 0; });
}
spyre_status spyre_event_synchronize(const spyre_event* event) {
  return guarded([&] { require(event, "event").event.Synchronize(); });
}
spyre_status spyre_event_elapsed(const spyre_event* start, const spyre_event* end, int64_t* nanoseconds) {
  return guarded([&] {
    (void)require(nanoseconds, "nanoseconds");
    *nanoseconds = require(end, "end").event.since(require(start, "start").event).count();
  });
}

spyre_status spyre_stream_reset(spyre_context* context, spyre_stream* stream) {
  return guarded([&] { spyre::stream_of(context, stream).Reset(); });
}

spyre_status spyre_tensor_create(spyre_context* context, spyre_data_type type, const int64_t* shape, size_t rank,
                                 spyre_device_type device_type, spyre_tensor** tensor) {
  return guarded([&] {
    (void)require(tensor, "tensor");
    const auto dtype = spyre::enumerated(type, spyre::DataType::Bool, "type");
    std::optional<spyre::DeviceType> on_card;
    if (device_type != SPYRE_DEVICE_DEFAULT) {
      on_card = spyre::enumerated(device_type, spyre::DeviceType::Fp8E5m2, "device_type");
    }
    std::vector<std::int64_t> extents;
    if (rank != 0) extents.assign(&require(shape, "shape"), shape + rank);
    spyre::SpyreTensor made = require(context, "context").context->empty(dtype, extents, on_card);
    *tensor = new spyre_tensor{std::move(made), spyre::HostShape::contiguous(dtype, std::move(extents))};
  });
}
void spyre_tensor_release(spyre_tensor* tensor) { delete tensor; }
size_t spyre_tensor_host_bytes(const spyre_tensor* tensor) { return tensor != nullptr ? host_bytes(*tensor) : 0; }

spyre_status spyre_copy_to_device(spyre_context* context, spyre_stream* stream, const spyre_tensor* tensor,
                                  const void* data, size_t bytes) {
  return guarded([&] {
    require_bytes(require(tensor, "tensor"), data, bytes);
    require(context, "context")
        .context->copy_to_device({tensor->shape, {static_cast<const std::byte*>(data), bytes}}, tensor->tensor,
                                 spyre::stream_of(context, stream));
  });
}
spyre_status spyre_copy_to_host(spyre_context* context, spyre_stream* stream, const spyre_tensor* tensor, void* data,
                                size_t bytes) {
  return guarded([&] {
    require_bytes(require(tensor, "tensor"), data, bytes);
    require(context, "context")
        .context->to_host(tensor->tensor, {tensor->shape, {static_cast<std::byte*>(data), bytes}},
                          spyre::stream_of(context, stream));
  });
}

spyre_status spyre_kernel_find(spyre_context* context, const char* name, spyre_kernel** kernel) {
  return guarded([&] {
    (void)require(kernel, "kernel");
    *kernel = new spyre_kernel{require(context, "context").context->kernel(&require(name, "name"))};
  });
}
spyre_status spyre_kernel_open(const char* image, const char* metadata, spyre_kernel** kernel) {
  return guarded([&] {
    (void)require(kernel, "kernel");
    *kernel = new spyre_kernel{spyre::Kernel::load(&require(image, "image"), &require(metadata, "metadata"))};
  });
}
void spyre_kernel_release(spyre_kernel* kernel) { delete kernel; }

spyre_status spyre_program_create(spyre_context* context, const spyre_kernel* kernel, const spyre_extent* extents,
                                  size_t count, spyre_program** program) {
  return guarded([&] {
    (void)require(program, "program");
    if (count != 0) (void)require(extents, "extents");
    spyre::DimensionExtents named;
    for (const spyre_extent& extent : std::span(extents, count)) {
      named[&require(extent.dimension, "extents.dimension")] = extent.elements;
    }
    auto made = std::make_unique<spyre_program>();
    made->plan.add(spyre::Job(spyre::CompiledKernel(require(kernel, "kernel").kernel, named)));
    require(context, "context").context->load(made->plan);
    *program = made.release();
  });
}
spyre_status spyre_program_load(spyre_context* context, spyre_program* program) {
  return guarded([&] { require(context, "context").context->load(require(program, "program").plan); });
}
void spyre_program_release(spyre_program* program) { delete program; }

spyre_status spyre_launch(spyre_context* context, spyre_stream* stream, const spyre_program* program,
                          const spyre_tensor* const* tensors, size_t count, const spyre_launch_options* options) {
  return guarded([&] {
    const spyre::LaunchOptions inner = spyre::launch_options(options);
    const std::vector<spyre::SpyreTensor> operands = spyre::operands_of(tensors, count);
    const std::span<const spyre::SpyreTensor> of_job(operands);
    spyre::SpyreStream on = spyre::stream_of(context, stream);
    spyre::LaunchKernel(on, require(program, "program").plan, std::span(&of_job, 1), inner);
  });
}
