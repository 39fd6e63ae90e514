// SPDX-License-Identifier: Apache-2.0
// CRC32C on the host, by ISA-L: the same values as wire::crc32c (shared/crc32c.hpp), which the firmware runs and which
// needs no library. The CPU's instructions are chosen at run time; a machine without them gets the library's portable
// code. Tests build their expected values with wire::crc32c.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace svp {

// Continues `crc` (start with 0) over `bytes`; crc32c(crc32c(0, a), b) == crc32c(0, a ++ b). Any thread.
[[nodiscard]] std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes);

}  // namespace svp
