// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/kernels.hpp"

#include <cstdlib>
#include <string>

#include "qemu/card.hpp"

namespace svp {
namespace {

constexpr const char* kKernelsVariable = "SPYRE_KERNELS";

}  // namespace

// Where the build puts them.
std::filesystem::path kernels_beside(const std::filesystem::path& firmware) {
  return firmware.parent_path() / "kernels";
}

std::filesystem::path kernels_of_this_build() {
  return kernels_beside(find_firmware().value_or(std::filesystem::path()));
}

std::shared_ptr<const Kernel> kernel_named(std::string_view name, const std::filesystem::path& folder) {
  const char* chosen = std::getenv(kKernelsVariable);
  const std::filesystem::path from = chosen != nullptr && *chosen != '\0' ? std::filesystem::path(chosen) : folder;
  const std::string stem(name);
  return Kernel::load(from / (stem + ".img"), from / (stem + ".json"));
}

}  // namespace svp
