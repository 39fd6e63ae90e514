// SPDX-License-Identifier: Apache-2.0
#include "tests/support/kernel_image.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "host_driver/base/error.hpp"

namespace svp::test {

std::vector<std::byte> kernel_image(const std::filesystem::path& firmware, std::string_view name) {
  const auto path = firmware.parent_path() / "kernels" / (std::string(name) + ".img");
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) {
    throw Error({.layer = Layer::Driver,
                 .source = path.filename().string(),
                 .outcome = wire::Outcome::Rejected,
                 .recoverable = true,
                 .next_step = "build the firmware and its kernels (scripts/build)",
                 .message = "no kernel '" + std::string(name) + "' beside the firmware"});
  }
  std::vector<std::byte> image(bytes.size());
  std::memcpy(image.data(), bytes.data(), bytes.size());
  return image;
}

}  // namespace svp::test
