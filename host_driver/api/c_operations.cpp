// SPDX-License-Identifier: Apache-2.0
// The C interface: views, and operations on tensors.
#include <spyre/spyre.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host_driver/api/c_handles.hpp"
#include "host_driver/api/c_support.hpp"
#include "host_driver/api/inside.hpp"

using spyre::guarded;
using spyre::require;

namespace {

std::vector<std::int64_t> list_of(const std::int64_t* values, std::size_t count, const char* argument) {
  if (count == 0) return {};
  return {&require(values, argument), values + count};
}

template <typename T>
std::span<const T> span_of(const T* values, std::size_t count, const char* argument) {
  if (count == 0) return {};
  return {&require(values, argument), count};
}

spyre_tensor* handle_of(spyre::SpyreTensor tensor) {
  spyre::HostShape shape = spyre::HostShape::contiguous(tensor.data_type(), tensor.shape());
  return new spyre_tensor{std::move(tensor), std::move(shape)};
}

spyre::ops::Options operation_options(spyre_context* context, const spyre_stream* stream,
                                      const spyre_operation_options& given) {
  if (given.forbid_copies > 1) {
    throw spyre::InvalidArgument("forbid_copies", "forbid_copies is neither 0 nor 1", "give 0 or 1");
  }
  spyre::require_zero(given.reserved, "reserved");
  spyre::ops::Options options{.stream = spyre::stream_of(context, stream),
                              .out = {},
                              .core_mask = given.core_mask,
                              .allow_copies = given.forbid_copies == 0};
  if (given.out != nullptr) options.out = given.out->tensor;
  return options;
}

}  // namespace

spyre_status spyre_tensor_create_ordered(spyre_context* context, spyre_data_type type, const int64_t* shape,
                                         size_t rank, spyre_device_type device_type, const int64_t* order,
                                         size_t order_length, spyre_tensor** tensor) {
  return guarded([&] {
    (void)require(tensor, "tensor");
    spyre::TensorOptions options;
    const auto dtype = spyre::enumerated(type, spyre::DataType::Bool, "type");
    if (device_type != SPYRE_DEVICE_DEFAULT)
      options.device_dtype = spyre::enumerated(device_type, spyre::DeviceType::Fp8E5m2, "device_type");
    options.dim_order = list_of(order, order_length, "order");
    *tensor = handle_of(require(context, "context").context->empty(dtype, list_of(shape, rank, "shape"), options));
  });
}

spyre_status spyre_tensor_as_strided(const spyre_tensor* tensor, const int64_t* shape, const int64_t* stride,
                                     size_t rank, int64_t offset, spyre_tensor** view) {
  return guarded([&] {
    (void)require(view, "view");
    *view = handle_of(require(tensor, "tensor")
                          .tensor.as_strided(list_of(shape, rank, "shape"), list_of(stride, rank, "stride"), offset));
  });
}

spyre_status spyre_tensor_shape(const spyre_tensor* tensor, int64_t* shape, size_t capacity, size_t* rank) {
  return guarded([&] {
    const std::vector<std::int64_t>& extents = require(tensor, "tensor").tensor.shape();
    require(rank, "rank") = extents.size();
    if (extents.size() > capacity) {
      throw spyre::InvalidArgument("capacity", "a shape of " + std::to_string(extents.size()) + " extents",
                                   "give room for them");
    }
    if (!extents.empty()) std::ranges::copy(extents, &require(shape, "shape"));
  });
}

spyre_status spyre_tensor_type(const spyre_tensor* tensor, spyre_data_type* type) {
  return guarded(
      [&] { require(type, "type") = static_cast<spyre_data_type>(require(tensor, "tensor").tensor.data_type()); });
}

const char* spyre_operation_name(size_t index) {
  const auto table = svp::ops::operation_table();
  return index < table.size() ? table[index].name : nullptr;
}

spyre_status spyre_run_operation(spyre_context* context, spyre_stream* stream, const char* name,
                                 const spyre_tensor* const* tensors, size_t count, const double* numbers,
                                 size_t number_count, const int64_t* integers, size_t integer_count,
                                 const spyre_tensor* out, spyre_tensor** results, size_t capacity,
                                 size_t* result_count) {
  const spyre_operation_options options{
      .size = sizeof options, .forbid_copies = 0, .reserved = 0, .core_mask = 0, .out = out};
  return spyre_run_operation_with(context, stream, name, tensors, count, numbers, number_count, integers, integer_count,
                                  &options, results, capacity, result_count);
}

spyre_status spyre_run_operation_with(spyre_context* context, spyre_stream* stream, const char* name,
                                      const spyre_tensor* const* tensors, size_t count, const double* numbers,
                                      size_t number_count, const int64_t* integers, size_t integer_count,
                                      const spyre_operation_options* options, spyre_tensor** results, size_t capacity,
                                      size_t* result_count) {
  return guarded([&] {
    spyre_operation_options given{};
    if (options != nullptr) given = spyre::copy_of_options(*options);
    const spyre::ops::Options wanted = operation_options(context, stream, given);
    const char* const operation = &require(name, "name");
    const std::size_t expected = std::string(operation) == "topk" ? 2 : 1;
    if (capacity < expected) {
      throw spyre::InvalidArgument("capacity", "room for " + std::to_string(capacity) + " results",
                                   "give room for " + std::to_string(expected));
    }
    (void)require(results, "results");
    std::vector<spyre::SpyreTensor> made = spyre::ops::run(
        *require(context, "context").context, operation, spyre::operands_of(tensors, count),
        span_of(numbers, number_count, "numbers"), span_of(integers, integer_count, "integers"), wanted);
    require(result_count, "result_count") = made.size();
    for (std::size_t i = 0; i < made.size(); ++i) results[i] = handle_of(std::move(made[i]));
  });
}
