// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/devices.hpp"

#include <utility>

#include "host_driver/discovery/device_list.hpp"

namespace spyre {
namespace {}  // namespace

std::size_t device_count() { return flex::value_or_throw(flex::devices()).devices.size(); }

std::size_t default_device() {
  const auto list = flex::value_or_throw(flex::devices());
  flex::value_or_throw(flex::select(list));
  return list.default_index;
}

std::string device_name(std::size_t index) {
  const auto device = flex::value_or_throw(flex::select(flex::value_or_throw(flex::devices()), index));
  return flex::function_name(device.function) + " of " + device.card;
}

}  // namespace spyre
