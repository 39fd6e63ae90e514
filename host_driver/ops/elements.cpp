// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/elements.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "host_driver/tensor/layout_digits.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "shared/dl16.hpp"

namespace svp::ops {
namespace {

void put_element(DeviceType type, std::byte* to, double value) {
  std::uint32_t bits = 0;
  switch (type) {
    case DeviceType::Dl16: bits = wire::dl16_from_fp64(value); break;
    case DeviceType::Fp32: bits = std::bit_cast<std::uint32_t>(static_cast<float>(value)); break;
    default: bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(value)); break;
  }
  std::memcpy(to, &bits, item_bytes(type));
}

double get_element(DeviceType type, const std::byte* from) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, from, item_bytes(type));
  switch (type) {
    case DeviceType::Dl16: return wire::fp64_from_dl16(static_cast<wire::Dl16>(bits));
    case DeviceType::Fp32: return static_cast<double>(std::bit_cast<float>(bits));
    default: return static_cast<double>(static_cast<std::int32_t>(bits));
  }
}

template <typename Visit>
void for_each_element(const TensorForm& form, Visit visit) {
  const std::vector<std::int64_t>& size = form.view.size;
  const std::int64_t count = element_count(form.view);
  const LayoutDigits digits(form.layout);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t host = form.view.offset;
    for (std::size_t d = size.size(); d-- > 0; rest /= size[d]) host += rest % size[d] * form.view.stride[d];
    visit(i, static_cast<std::size_t>(*digits.offset_of(host)) * item_bytes(form.layout.device_dtype));
  }
}

}  // namespace

double rounded_to(DeviceType type, double value) {
  std::byte bytes[4]{};
  put_element(type, bytes, value);
  return get_element(type, bytes);
}

std::vector<std::byte> device_bytes(const TensorForm& form, const Array& elements) {
  const DeviceType type = form.layout.device_dtype;
  std::vector<std::byte> bytes(form.layout.device_bytes());
  for (std::size_t at = 0; at < bytes.size(); at += item_bytes(type)) {
    put_element(type, bytes.data() + at, type == DeviceType::Int32 ? -1.0 : std::numeric_limits<double>::quiet_NaN());
  }
  for_each_element(form, [&](std::int64_t i, std::size_t at) {
    put_element(type, bytes.data() + at, elements.data[static_cast<std::size_t>(i)]);
  });
  return bytes;
}

Array elements_of(const TensorForm& form, std::span<const std::byte> bytes) {
  Array array = Array::of(form.view.size);
  for_each_element(form, [&](std::int64_t i, std::size_t at) {
    array.data[static_cast<std::size_t>(i)] = get_element(form.layout.device_dtype, bytes.data() + at);
  });
  return array;
}

}  // namespace svp::ops
