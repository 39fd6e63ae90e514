// SPDX-License-Identifier: Apache-2.0
// Where libflex gets its device. open_device.cpp is the product's: running cards, or an embedded one. Tests link
// another one in its place.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "host_driver/runtime/runtime.hpp"

namespace flex::detail {

struct OpenedDevice {
  std::shared_ptr<void> owner;  // of the runtime
  svp::Runtime* runtime = nullptr;
  std::string name;
  // What executes device programs; called while there is an owner. Throws svp::Error: it is not installed. Empty: no
  // harts run kernels.
  std::function<std::shared_ptr<const svp::Kernel>()> engine{};
};

// How many devices the program sees. Throws svp::Error: a malformed variable.
int count_devices();
// Throws svp::Error: no such device, or it can not be opened.
OpenedDevice open_device(int index);

}  // namespace flex::detail
