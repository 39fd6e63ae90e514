// SPDX-License-Identifier: Apache-2.0
#include "tests/support/kernel_image.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "host_driver/base/error.hpp"
#include "shared/crc32c.hpp"
#include "shared/kernel_abi.hpp"

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

std::vector<std::byte> lengthened_image(std::vector<std::byte> image) {
  wire::ImageHeader header;
  std::memcpy(&header, image.data(), sizeof header);
  image.resize(wire::kMaxImageBytes);
  header.image_bytes = image.size();
  header.crc32c = 0;
  std::memcpy(image.data(), &header, sizeof header);
  header.crc32c = wire::crc32c(0, image.data(), image.size());
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

}  // namespace svp::test
