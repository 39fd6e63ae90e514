// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

namespace svp::array {

// Continues a CRC32C, as shared/crc32c.hpp defines it; by the host's own instruction for it, where it has one.
std::uint32_t checksum(std::uint32_t crc, const std::byte* data, std::size_t bytes);

}  // namespace svp::array
