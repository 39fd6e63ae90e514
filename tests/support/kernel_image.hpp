// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

#include "qemu/card.hpp"

namespace svp::test {

// A kernel that was built with the firmware ("spin", "stray", …): its image. Throws svp::Error.
std::vector<std::byte> kernel_image(const std::filesystem::path& firmware, std::string_view name);
inline std::vector<std::byte> kernel_image(const Card& card, std::string_view name) {
  return kernel_image(card.options().firmware, name);
}

}  // namespace svp::test
