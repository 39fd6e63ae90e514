// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/devices.hpp"

#include <utility>

#include "host_driver/discovery/device_list.hpp"

namespace svp {

std::size_t device_count() { return value_or_throw(svp::devices()).devices.size(); }

std::size_t default_device() {
  const auto list = value_or_throw(svp::devices());
  value_or_throw(svp::select(list));
  return list.default_index;
}

std::string device_name(std::size_t index) {
  const auto device = value_or_throw(svp::select(value_or_throw(svp::devices()), index));
  return function_name(device.function) + " of " + device.card;
}

}  // namespace svp
