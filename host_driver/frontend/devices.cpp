// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/devices.hpp"

#include <utility>

#include "host_driver/discovery/device_list.hpp"

namespace spyre::inline v0 {
namespace {}  // namespace

std::size_t device_count() { return svp::value_or_throw(svp::devices()).devices.size(); }

std::size_t default_device() {
  const auto list = svp::value_or_throw(svp::devices());
  svp::value_or_throw(svp::select(list));
  return list.default_index;
}

std::string device_name(std::size_t index) {
  const auto device = svp::value_or_throw(svp::select(svp::value_or_throw(svp::devices()), index));
  return svp::function_name(device.function) + " of " + device.card;
}

}  // namespace spyre::inline v0
