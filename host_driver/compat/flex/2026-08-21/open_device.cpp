// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compat/flex/2026-08-21/open_device.hpp"

#include <utility>

#include "host_driver/discovery/device_list.hpp"
#include "host_driver/frontend/context.hpp"

namespace flex::detail {
namespace {

// FLEX_DEVICE says nothing and no card runs: a card of this process's own.
bool boots_a_card(const svp::Enumeration& list) {
  return list.mode == svp::DeviceMode::Mock || (!list.mode_given && list.found == 0);
}

int count_of(const svp::Enumeration& list) {
  return !list.mode_given && list.found == 0 ? 1 : static_cast<int>(list.devices.size());
}

}  // namespace

int count_devices() { return count_of(svp::value_or_throw(svp::devices())); }

OpenedDevice open_device(int index) {
  const auto list = svp::value_or_throw(svp::devices());
  const int count = count_of(list);
  if (index < 0 || index >= count) {
    throw svp::InvalidArgument(
        "device", "device " + std::to_string(index) + " was asked for, and there are " + std::to_string(count),
        count == 0 ? "start a card (spyre boot), or leave FLEX_DEVICE out"
                   : "take a lower index (LOCAL_RANK), or start more (spyre boot --vfs)");
  }
  svp::ContextOptions options;
  if (boots_a_card(list)) {
    options.card.emplace().virtual_functions = 0;  // the physical function has all of the memory
    options.card->sole_function = 0;
  } else {
    options.device_index = static_cast<std::size_t>(index);
  }
  std::shared_ptr<svp::Context> context = svp::Context::open(std::move(options));
  // The owner alone keeps the device: it is closed when the owner is given up.
  return {context, &context->runtime(), context->device_name(), [inside = context.get()] { return inside->engine(); }};
}

}  // namespace flex::detail
