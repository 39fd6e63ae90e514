// SPDX-License-Identifier: Apache-2.0
// Where the kernels that belong to a firmware are.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "host_driver/runtime/kernel.hpp"

namespace svp {

std::filesystem::path kernels_beside(const std::filesystem::path& firmware);
// Beside the firmware that this program finds. Without one the first look-up of a kernel fails and names the path.
std::filesystem::path kernels_of_this_build();

// NAME.img and NAME.json in SPYRE_KERNELS when that is set, else in `folder`. Throws as Kernel::load().
std::shared_ptr<const Kernel> kernel_named(std::string_view name, const std::filesystem::path& folder);

}  // namespace svp
