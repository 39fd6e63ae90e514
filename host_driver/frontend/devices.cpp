// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/devices.hpp"

#include <utility>

#include "host_driver/cards/device_list.hpp"

namespace spyre {
namespace {

template <typename T>
T value_or_throw(flex::Expected<T> result) {
  if (!result) throw flex::Error(std::move(result.error()));
  return std::move(*result);
}

}  // namespace

std::size_t device_count() { return value_or_throw(flex::devices()).devices.size(); }

std::size_t default_device() {
  const auto list = value_or_throw(flex::devices());
  value_or_throw(flex::select(list));
  return list.default_index;
}

std::string device_name(std::size_t index) {
  const auto device = value_or_throw(flex::select(value_or_throw(flex::devices()), index));
  return flex::function_name(device.function) + " of " + device.card;
}

}  // namespace spyre
