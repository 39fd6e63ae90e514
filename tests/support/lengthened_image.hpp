// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "shared/crc32c.hpp"
#include "shared/kernel_abi.hpp"

namespace svp::test {

// A kernel image with `padding` behind it, as long as one may be, and a checksum that is right.
inline std::vector<std::byte> lengthened_image(std::vector<std::byte> image, std::byte padding = {}) {
  wire::ImageHeader header;
  std::memcpy(&header, image.data(), sizeof header);
  image.resize(wire::kMaxImageBytes, padding);
  header.image_bytes = image.size();
  header.crc32c = 0;
  std::memcpy(image.data(), &header, sizeof header);
  header.crc32c = wire::crc32c(0, image.data(), image.size());
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

}  // namespace svp::test
