// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "host_driver/device/card.hpp"
#include "host_driver/exec/kernel.hpp"

namespace cli {

// A kernel of the build, from the folder beside the firmware. Throws flex::Error when it is not there.
inline std::shared_ptr<const flex::Kernel> load_installed_kernel(const std::string& name) {
  auto firmware = flex::find_firmware();
  if (!firmware) throw flex::Error(std::move(firmware.error()));
  const auto folder = firmware->parent_path() / "kernels";
  return flex::Kernel::load(folder / (name + ".img"), folder / (name + ".json"));
}

}  // namespace cli
