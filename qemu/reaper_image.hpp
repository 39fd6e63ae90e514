// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace qemu {

/// The reaper program (an ELF file), embedded at build time.
[[nodiscard]] std::span<const std::byte> reaper_image();

}  // namespace qemu
